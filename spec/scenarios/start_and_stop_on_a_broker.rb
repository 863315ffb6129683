# frozen_string_literal: true

# Cases 7, 8, 25: as start_and_stop.rb, with a real broker: leaves come while the member connects, joins, and has just
# been given its partitions.
require_relative "../support/scenario"

ROUNDS = 30

Prosody.logger = Logger.new(File::NULL)
def descriptors = Dir.children("/proc/self/fd").size

topic = make_topic
client = kafka_client(topic: topic)
client.send_message(topic, "key", 0)
start_and_stop = lambda do |each_client, patience|
  each_client.subscribe(BlockHandler.new {})
  sleep(patience)
  took = seconds { each_client.unsubscribe }
  check("unsubscribe #{(patience * 1000).round} ms after subscribe takes #{(took * 1000).round} ms") { took < 6 && each_client.consumer_state == :configured }
end
5.times { |number| start_and_stop.call(client, number * 0.02) }
5.times { |number| start_and_stop.call(kafka_client(topic: topic), number * 0.02) }
settle = lambda do
  3.times { GC.start }
  [threads, descriptors, resident_bytes]
end
sleep(0.5)
before = settle.call
ROUNDS.times { |number| start_and_stop.call(client, number * 0.01) }
ROUNDS.times { |number| start_and_stop.call(kafka_client(topic: topic), number * 0.01) }
after = nil
wait_until("threads and descriptors to be what they were: #{before}", 60) do
  after = settle.call
  after[0] <= before[0] + 2 && after[1] <= before[1] + 6
end
check("memory is what it was: #{before[2] / 1024} KiB before, #{after[2] / 1024} KiB after") { after[2] < before[2] + 32 * 1024 * 1024 }

handled = Thread::Queue.new
client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
client.send_message(topic, "key", 1)
nil until pop(handled, 60) == 1
puts "ok: the client still consumes"
client.unsubscribe
