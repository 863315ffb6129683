# frozen_string_literal: true

# seconds: 300

# Cases 12 and 25: as assign_and_revoke_in_mock_mode.rb, on a broker. `rake chaos:rounds` does 1,000 (ROUNDS).
require_relative "../support/scenario"
require_relative "../support/assignment_rounds"

rounds = Integer(ENV.fetch("ROUNDS", 30))
topic = make_topic(partitions: AssignmentRounds::PARTITIONS)
group = new_name("group")
quick = QUICK_GROUP.merge("heartbeat.interval.ms" => 50)
make = -> { kafka_client(topic: topic, group: group, send_timeout: 30, kafka_config: quick) }
AssignmentRounds.new(topic: topic, rounds: rounds, make: make).run
