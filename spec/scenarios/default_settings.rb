# frozen_string_literal: true

# Case 26a: with default settings a consumer is not held up by finished events that wait for the next commit. It comes
# near the throughput of one whose window holds everything and that commits often.
require_relative "../support/scenario"

EVENTS = 100_000
TUNED = {max_concurrency: 256, max_uncommitted: EVENTS, commit_interval: 0.1}.freeze
# On a busy machine one round says little.
ROUNDS = 3
SHARE_MIN = 0.3

def rate(topic, **options)
  client = kafka_client(topic: topic, **options)
  times = Thread::Queue.new
  count = 0
  client.subscribe(BlockHandler.new { |_, _| times << monotonic if [1, EVENTS].include?(count += 1) })
  first, last = Array.new(2) { pop(times, 60) }
  client.unsubscribe
  EVENTS / (last - first)
end

Prosody.logger = Logger.new($stdout, level: Logger::ERROR)
topic = make_topic(partitions: 1)
kafka_client(topic: topic, send_timeout: 60)
  .send_messages((0...EVENTS).lazy.map { |number| {topic: topic, key: "key-#{number % 100}", payload: number} })
rates = Array.new(ROUNDS) { [rate(topic), rate(topic, **TUNED)] }
default, tuned = rates.transpose.map { |values| values.max.round }
check("#{default} events/s with default settings, #{tuned}/s with a large window: at least #{SHARE_MIN} of it") { default >= SHARE_MIN * tuned }
