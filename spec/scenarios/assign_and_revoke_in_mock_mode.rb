# frozen_string_literal: true

# Cases 12 and 25: partitions come and go 1,000 times in one process, on the in-process log. Each of them goes on after
# every round, and nothing grows.
require_relative "../support/scenario"
require_relative "../support/assignment_rounds"

rounds = Integer(ENV.fetch("ROUNDS", 1000))
AssignmentRounds.new(topic: "topic", rounds: rounds, make: -> { mock_client }).run
