# frozen_string_literal: true

# `get` and `set` of a warm value in a handler, beside what JSON alone costs, and objects allocated per event.

require_relative "support"

ROUNDS = 100_000
ITEM = {"user" => "ada", "count" => 12_345, "tags" => %w[a b], "ok" => true}.freeze
VALUE = Prosody.value("value")

def microseconds(rounds = ROUNDS)
  begin_at = Bench.now
  rounds.times { yield }
  (Bench.now - begin_at) * 1e6 / rounds
end

class MeasuringHandler < Prosody::EventHandler
  def initialize(results)
    super()
    @results = results
  end

  def on_message(context, _message)
    value = context.state(VALUE)
    value.set(ITEM)
    measure(value) # warms up
    @results << measure(value)
  end

  private

  def measure(value)
    both = microseconds do
      value.get
      value.set(ITEM)
    end
    text = JSON.generate(ITEM)
    json = microseconds do
      JSON.parse(text)
      JSON.generate(ITEM)
    end
    [both, json]
  end
end

class CountingHandler < Prosody::EventHandler
  def initialize(count, done)
    super()
    @left = count
    @done = done
  end

  def on_message(_context, _message)
    @left -= 1
    @done << GC.stat(:total_allocated_objects) if @left == 0
  end
end

def allocations_per_event(count)
  client = Prosody::Client.new(mock: true, group_id: "allocations", source_system: "bench", subscribed_topics: "a")
  count.times { |number| client.send_message("a", "key-#{number % 100}", 1) }
  done = Thread::Queue.new
  before = GC.stat(:total_allocated_objects)
  client.subscribe(CountingHandler.new(count, done))
  after = done.pop
  client.unsubscribe
  (after - before).fdiv(count)
end

Bench.header
Prosody.logger = Logger.new($stderr, level: Logger::ERROR)
results = Thread::Queue.new
client = Prosody::Client.new(mock: true, group_id: "value", source_system: "bench", subscribed_topics: "v", state_collections: VALUE)
client.subscribe(MeasuringHandler.new(results))
client.send_message("v", "key", 1)
both, json = results.pop
client.unsubscribe
puts format("get + set of a warm value: %.2f µs, of which JSON alone %.2f µs: %.2f µs beyond", both, json, both - json)
puts format("objects allocated per event of a handler that does nothing: %.2f", allocations_per_event(20_000))
