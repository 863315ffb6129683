# frozen_string_literal: true

# Mock mode: how soon after `subscribe` the first message is handled, and messages per second of a handler that does
# nothing, beside the same on a real broker.

require_relative "support"

MESSAGES = Integer(ENV.fetch("MESSAGES", 300_000))
ROUNDS = 3
PAYLOAD = {"user" => "ada", "number" => 12_345, "text" => "a text that is neither long nor short", "ok" => true, "x" => 1.5, "y" => 2}.freeze

class CountingHandler < Prosody::EventHandler
  attr_reader :times

  def initialize(last)
    super()
    @last = last
    @count = 0
    @times = Thread::Queue.new
  end

  def on_message(_context, _message)
    @count += 1
    @times << Bench.now if @count == 1 || @count == @last
  end
end

def mock_client
  Prosody::Client.new(mock: true, group_id: "bench", source_system: "filler", subscribed_topics: "bench")
end

# Seconds from the call of `subscribe` to the first message, which is there already.
def first_message
  Prosody.reset_mock
  client = mock_client
  client.send_message("bench", "key", PAYLOAD)
  handler = CountingHandler.new(1)
  begin_at = Bench.now
  client.subscribe(handler)
  handler.times.pop - begin_at
ensure
  client.unsubscribe
end

def rate(client, handler)
  client.subscribe(handler)
  first, last = handler.times.pop, handler.times.pop
  client.unsubscribe
  MESSAGES / (last - first)
end

def in_mock_mode
  Prosody.reset_mock
  client = mock_client
  client.send_messages((0...MESSAGES).lazy.map { |number| {topic: "bench", key: "key-#{number % 100}", payload: PAYLOAD} })
  GC.start
  rate(client, CountingHandler.new(MESSAGES))
end

Bench.header
Prosody.logger = Logger.new($stderr, level: Logger::ERROR)
times = Array.new(50) { first_message * 1_000 }.sort
puts format("mock mode, from subscribe to the first message: %.1f ms, at most %.1f ms of %d", Bench.median(times), times.last, times.size)
topic = Bench.topic("mock", 4)
Bench.peer("fill", topic, MESSAGES, 100)
rates = Array.new(ROUNDS) do |round|
  [in_mock_mode, rate(Bench.client(group_id: "#{topic}-#{round}", subscribed_topics: topic), CountingHandler.new(MESSAGES))]
end
mock, broker = rates.transpose.map { |values| Bench.median(values) }
puts format("no-op handler, 4 partitions: %d/s in mock mode, %d/s on the broker: %.2f ×", mock, broker, mock / broker)
