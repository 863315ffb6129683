# frozen_string_literal: true

# Case 23: 5,000 messages of 100 kB, each with a key of its own, stay in memory neither as keys of ledgers nor as objects
# that nobody refers to any more; while slow handlers hold everything up, what is taken is bounded, too.
require_relative "../support/scenario"

COUNT = 5_000
BYTES = 100_000
RESIDENT_MAX = 280 * 1024 * 1024

topic = broker && make_topic(partitions: 16)
# In a process of its own: the sender's memory is not judged here.
filled = end_of_child(120) do
  sender = Prosody::Client.new(bootstrap_servers: broker, source_system: "filler", send_timeout: 60)
  payload = "x" * BYTES
  sender.send_messages((0...COUNT).lazy.map { |number| {topic: topic, key: "key-#{number}", payload: payload} })
end
check("the topic is filled") { filled == 0 }

def highest
  Integer(File.read("/proc/self/status")[/^VmHWM:\s+(\d+) kB/, 1]) * 1024
end

count = 0
slow = kafka_client(topic: topic, max_concurrency: 4)
slow.subscribe(BlockHandler.new { (count += 1) && sleep(0.1) })
wait_until("slow handlers have all that may be taken", 60) { count > 40 }
slow.unsubscribe
check(format("with slow handlers at most %d MB", highest / 1_000_000)) { highest < RESIDENT_MAX }

count = 0
client = kafka_client(topic: topic)
client.subscribe(BlockHandler.new { count += 1 })
wait_until("all are handled", 120) { count >= COUNT }
check(format("with quick handlers at most %d MB", highest / 1_000_000)) { highest < RESIDENT_MAX }
client.unsubscribe
