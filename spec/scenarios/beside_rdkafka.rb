# frozen_string_literal: true

# Two librdkafkas in one process, prosody's and that of the rdkafka gem, loaded in either order (the other one in a
# child): both produce and consume at the same time, the process forks, both close.
if ARGV == ["rdkafka first"]
  begin
    require "rdkafka"
  rescue LoadError
    nil # said below
  end
end
require_relative "../support/scenario"
need_gem "rdkafka"

MESSAGES = 2_000

broker
Prosody.logger = Logger.new($stdout, level: Logger::ERROR)
topic = make_topic
theirs_config = {"bootstrap.servers" => broker}
their_producer = Rdkafka::Config.new(theirs_config).producer
their_consumer = Rdkafka::Config.new(theirs_config.merge("group.id" => new_name("group"), "auto.offset.reset" => "earliest")).consumer
their_consumer.subscribe(topic)
ours = Hash.new(0)
client = kafka_client(topic: topic)
client.subscribe(BlockHandler.new { |_, message| ours[message.payload] += 1 })

theirs = Hash.new(0)
going = true
poller = Thread.new do
  while going
    message = their_consumer.poll(100)
    theirs[JSON.parse(message.payload)] += 1 if message
  end
end
senders = [
  Thread.new { client.send_messages((0...MESSAGES).lazy.map { |number| {topic: topic, key: "ours-#{number % 20}", payload: "ours-#{number}"} }) },
  Thread.new { Array.new(MESSAGES) { |number| their_producer.produce(topic: topic, key: "theirs-#{number % 20}", payload: "theirs-#{number}".to_json) }.each { |handle| handle.wait(max_wait_timeout_ms: 60_000) } }
]
senders.each(&:join)
wait_until("all messages, on both sides", 60) { ours.size == 2 * MESSAGES && theirs.size == 2 * MESSAGES }
check("both have all messages of both once") { ours.values.all?(1) && theirs.values.all?(1) && ours.keys.sort == theirs.keys.sort }

code = end_of_child(60) do
  handled = Thread::Queue.new
  own = kafka_client(topic: topic)
  own.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  own.send_message(topic, "key", "child")
  nil until pop(handled, 40) == "child"
  exit!(0)
end
check("a child works with a client of its own") { code == 0 }

going = false
poller.join
their_consumer.close
their_producer.close
check("prosody goes on when they have closed") do
  client.send_message(topic, "key", "last")
  wait_until("the last message") { ours.key?("last") }
end
check("prosody closes") { seconds { client.unsubscribe } < 6 }

if ARGV.empty?
  check("the same holds with rdkafka loaded first") { system(RbConfig.ruby, "-Ilib", __FILE__, "rdkafka first") }
end
