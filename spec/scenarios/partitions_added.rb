# frozen_string_literal: true

# Partitions that are added to a topic under a subscribed consumer are consumed, and told in the log
# once: keys map to other partitions from then on.
require_relative "../support/scenario"

topic = make_topic(partitions: 2)
log = LogLines.new
Prosody.logger = log
handled = Thread::Queue.new
config = QUICK_GROUP.merge("topic.metadata.refresh.interval.ms" => 1000)
consumer = kafka_client(topic: topic, kafka_config: config)
consumer.subscribe(BlockHandler.new { |_context, message| handled << [message.payload["n"], message.partition] })
# A producer of its own for each part: one that knew the topic before may send to two partitions only.
send_all = lambda do |numbers|
  producer = Prosody::Client.new(bootstrap_servers: broker, source_system: "producer", send_timeout: 10)
  numbers.each { |number| producer.send_message(topic, "key-#{number}", {"n" => number}) }
end

send_all.call(0...100)
before = Array.new(100) { pop(handled) }
check("all of two partitions are handled") { before.map(&:first).sort == (0...100).to_a && before.map(&:last).uniq.sort == [0, 1] }

Broker.protocol.grow_topic(topic, 5)
send_all.call(100...300)
after = Array.new(200) { pop(handled) }
check("all of five partitions are handled, once") { after.map(&:first).sort == (100...300).to_a }
check("each of the new partitions had some") { after.map(&:last).uniq.sort == (0...5).to_a }
told = log.wait_for(/WARN .*5 partitions now, 2 before.*topic=#{topic}/)
sleep(2.5)
check("it is told once: #{told}") { log.grep(/partitions now/).size == 1 }
check("nothing else is handled") { handled.empty? }
consumer.unsubscribe
