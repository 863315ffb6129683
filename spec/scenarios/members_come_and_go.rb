# frozen_string_literal: true

# seconds: 420

# Cases 10, 11 and 17: members of a group join and leave, half of them by SIGKILL, while messages flow. `rake chaos` runs
# 200 rounds with 100,000 messages. ROUNDS, MESSAGES and SEED change the course; LOG keeps what the handlers wrote.
require "tempfile"
require_relative "../support/scenario"
require_relative "../support/member_churn"

rounds = Integer(ENV.fetch("ROUNDS", 20))
messages = Integer(ENV.fetch("MESSAGES", 500 * rounds))
seed = Integer(ENV.fetch("SEED") { Random.new_seed % 1_000_000 })
puts "#{rounds} rounds, #{messages} messages, SEED=#{seed}"

address = broker
Prosody.logger = Logger.new($stderr, level: Logger::WARN)
file = ENV.fetch("LOG") { Tempfile.create("prosody-members").path }
File.write(file, "")
sender = Prosody::Client.new(bootstrap_servers: address, source_system: "scenario", send_timeout: 30)
client = {bootstrap_servers: address, group_id: new_name("group"), store: :memory, source_system: "scenario",
          commit_interval: 0.2, shutdown_timeout: 10, max_concurrency: 64, probe_port: nil, telemetry_enabled: false}
churn = MemberChurn.new(rounds: rounds, messages: messages, random: Random.new(seed), file: file, sender: sender,
  topic: make_topic(partitions: MemberChurn::PARTITIONS), client: client, kafka_config: QUICK_GROUP, address: address)

from = monotonic
begin
  checker = churn.run do |number, what, seconds|
    puts format("round %d: process %s, all partitions went on after %.1f s", number + 1, what, seconds)
  end
ensure
  WorkerProcess.end_all
end
puts checker.summary
puts format("%.0f s; to progress after a leave: median %.1f s, longest %.1f s; longest wait of a kept partition %.2f s",
  monotonic - from, churn.recoveries.sort[rounds / 2], churn.recoveries.max, checker.longest_wait)
checker.faults.group_by { |fault| fault[/\A[^:]*/] }.each_value { |faults| puts faults.first(5) }
check("every partition got on after each round") { churn.recoveries.size == rounds }
check("order, one owner at a time, nothing lost, nothing finished and committed again, commits only forward") { checker.faults.empty? }
File.unlink(file) unless ENV["LOG"]
