# frozen_string_literal: true

# A topic is deleted and created again, several times, under a subscribed consumer while messages
# flow; mostly the new one holds more than the old one had before the consumer can have looked.
# Whatever was acknowledged for the present topic is handled, once.
require_relative "../support/scenario"

SIZES = [40, 400, 20, 1_500, 3_000].freeze
KEYS = 50

topic = make_topic(partitions: 2)
handled = Hash.new(0)
mutex = Mutex.new
# The new topic has overtaken the old one before librdkafka fetches again.
config = QUICK_GROUP.merge("fetch.error.backoff.ms" => 1000)
consumer = kafka_client(topic: topic, kafka_config: config)
consumer.subscribe(BlockHandler.new { |_context, message| mutex.synchronize { handled[message.payload["n"]] += 1 } })
producer = Prosody::Client.new(bootstrap_servers: broker, source_system: "producer", send_timeout: 10)

numbers = 0
sent_at = {}
acknowledged = Thread::Queue.new
send_one = lambda do
  number = mutex.synchronize { numbers += 1 }
  mutex.synchronize { sent_at[number] = monotonic }
  producer.send_message(topic, "key-#{number % KEYS}", {"n" => number})
  acknowledged << number
rescue Prosody::Error
  # The topic is not there just now.
  sleep(0.01)
end

flowing = true
start_flow = -> { Thread.new { send_one.call while flowing } }
flow = start_flow.call
failed = 0
SIZES.each_with_index do |size, round|
  if round > 0
    flowing = false
    flow.join
    Broker.protocol.delete_topics(topic)
    Broker.create_topics({topic => 2})
    # The broker tells of the new topic before it lets the old one's log go, and would acknowledge what it then deletes.
    wait_until("the log of the new topic is there") { Broker.protocol.end_offsets(topic, 2) == [0, 0] }
    flowing = true
    flow = start_flow.call
  end
  created_at = monotonic
  # Several at a time, so that the new topic has overtaken the old one at once.
  Array.new(8) { |n| Thread.new { (size / 8 + (n.zero? ? 1 : 0)).times { send_one.call } } }.each(&:join)
  due = []
  due << acknowledged.pop until acknowledged.empty?
  due.select! { |number| mutex.synchronize { sent_at[number] } >= created_at }
  check("round #{round}: messages were acknowledged") { due.size >= size / 2 }
  begun = monotonic
  wait_until("round #{round}: all #{due.size} acknowledged messages are handled", 60) do
    mutex.synchronize { due.all? { |number| handled.key?(number) } }
  end
  puts format("round %d: %d messages of the present topic handled, the last %.1f s after it was acknowledged",
    round, due.size, monotonic - begun)
  failed = numbers - handled.size
end
flowing = false
flow.join
repeated = mutex.synchronize { handled.select { |_, count| count > 1 } }
check("none of #{handled.size} messages was handled twice (#{repeated.size} were)") { repeated.empty? }
puts "#{numbers} sent, #{failed} of them not handled when the last topic was: refused, or deleted with their topic"
consumer.unsubscribe
