# frozen_string_literal: true

# scenario: every ruby

# Case 7: closed by many at once, while it sends, while it starts, and used afterwards; dropped without being closed. No
# crash, no wait without end, clear errors.
require_relative "../support/scenario"

Prosody.logger = Logger.new(File::NULL)

def clear
  yield
  :done
rescue Prosody::Error, ArgumentError => error
  error.message
end

client = mock_client(shutdown_timeout: 1)
10.times do |round|
  handled = Thread::Queue.new
  client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  client.send_message("topic", "k", round)
  check("round #{round}: the client handles") { pop(handled) == round }
  threads = Array.new(8) { Thread.new { clear { client.unsubscribe } } }
  sending = Array.new(4) { |number| Thread.new { Array.new(50) { clear { client.send_message("unread", "k-#{number}", 1) } } } }
  check("eight threads unsubscribe") { threads.all? { |thread| thread.join(10)&.value == :done } }
  check("sends go on meanwhile") { sending.all? { |thread| thread.join(10)&.value&.all?(:done) } }
  check("it is not subscribed") { client.consumer_state == :configured && client.assigned_partitions.zero? && !client.is_stalled? }
end

50.times do
  subscribing = Array.new(4) { Thread.new { clear { client.subscribe(BlockHandler.new {}) } } }
  unsubscribing = Array.new(4) { Thread.new { clear { client.unsubscribe } } }
  outcomes = (subscribing + unsubscribing).map { |thread| thread.join(10)&.value || raise(Failed, "a thread waits without end") }
  strange = outcomes.reject { |outcome| outcome == :done || outcome.match?(/subscribed already|unsubscribed/) }
  raise Failed, "unclear: #{strange}" unless strange.empty?

  client.unsubscribe
  raise Failed, "still subscribed" unless client.consumer_state == :configured
end
puts "ok: subscribe and unsubscribe from eight threads at once, 50 times"

check("used after that, it sends and consumes") do
  handled = Thread::Queue.new
  client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  client.send_message("topic", "k", "again")
  pop(handled) == "again"
end
client.unsubscribe

before = threads
200.times do |number|
  dropped = mock_client(group_id: "dropped")
  dropped.send_message("unread", "k", number)
  if number % 10 == 0
    dropped.subscribe(BlockHandler.new {})
    dropped.unsubscribe
  end
end
3.times { GC.start }
wait_until("threads to be what they were") { threads <= before + 1 }
puts "ok: 200 clients were dropped"
# Subscribed clients that nobody holds any more are not garbage: they consume to the end of the process.
handled = Thread::Queue.new
mock_client(group_id: "held").subscribe(BlockHandler.new { |_, message| handled << message.payload })
3.times { GC.start }
client.send_message("topic", "k", "held")
nil until pop(handled) == "held"
puts "ok: a subscribed client that is dropped goes on"
