# frozen_string_literal: true

# scenario: every ruby

# Case 7, 25: subscribed for less than 100 ms, 500 times, the same client and new ones. Threads, descriptors and memory
# are what they were; descriptors do not wait for the collector either.
require_relative "../support/scenario"

ROUNDS = 250

Prosody.logger = Logger.new(File::NULL)
def descriptors = Dir.children("/proc/self/fd").size

def start_and_stop(client)
  client.subscribe(BlockHandler.new {})
  client.unsubscribe
end

def settle
  3.times { GC.start }
  # Threads end a moment after whoever waits for what they do.
  wait_until("threads to end") { threads <= (@threads ||= threads) }
  [descriptors, resident_bytes]
end

client = mock_client(group_id: "same")
50.times { start_and_stop(client) }
20.times { |number| start_and_stop(mock_client(group_id: "new-#{number}")) }
before, memory_before = settle

GC.disable
longest = 0.0
ROUNDS.times { longest = [longest, seconds { start_and_stop(client) }].max }
check("the same client starts and stops #{ROUNDS} times, the slowest in #{(longest * 1000).round} ms") { longest < 5 }
open = descriptors
check("descriptors do not wait for the collector: #{before} before, #{open} after") { open <= before + 10 }
GC.enable
longest = 0.0
ROUNDS.times do |number|
  longest = [longest, seconds { start_and_stop(mock_client(group_id: "group-#{number % 10}")) }].max
end
check("#{ROUNDS} new clients do, the slowest in #{(longest * 1000).round} ms") { longest < 5 }

after, memory_after = settle
check("descriptors are what they were: #{before} before, #{after} after") { after <= before + 10 }
check("memory is what it was: #{memory_before / 1024} KiB before, #{memory_after / 1024} KiB after") do
  memory_after < memory_before + 24 * 1024 * 1024
end

handled = Thread::Queue.new
client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
client.send_message("topic", "key", 1)
check("the client still works") { pop(handled) == 1 }
client.unsubscribe
