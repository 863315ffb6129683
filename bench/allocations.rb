# frozen_string_literal: true

# Ruby objects made per event and per send, and by which lines: in mock mode, and for sends also on a broker, where they
# wait. What a line makes less than once in twenty times is left out.

require "objspace"
require_relative "support"

COUNT = 5_000
PAYLOAD = {"user" => "ada", "number" => 12_345}.freeze
VALUE = Prosody.value("value")

# Counts what is made between two points, without counting its own part.
module Objects
  class << self
    # Objects per time, without and then with the lines that make them.
    def per(count, name)
      2.times { yield } # warms up
      GC.start
      GC.disable
      before = GC.stat(:total_allocated_objects)
      yield
      total = GC.stat(:total_allocated_objects) - before
      puts format("%s: %.2f objects", name, total.fdiv(count))
      lines(count) { yield }
    ensure
      GC.enable
    end

    private

    def lines(count)
      GC.start
      ObjectSpace.trace_object_allocations { tally(count) { yield } }
    end

    def tally(count)
      generation = GC.count
      yield
      made = Hash.new(0)
      ObjectSpace.each_object do |object|
        next unless ObjectSpace.allocation_generation(object)&.>=(generation)

        next if ObjectSpace.allocation_sourcefile(object) == __FILE__

        made[[ObjectSpace.allocation_sourcefile(object), ObjectSpace.allocation_sourceline(object), class_of(object)]] += 1
      end
      made.select { |_, times| times * 20 >= count }.sort_by { |_, times| -times }.each do |(file, line, type), times|
        puts format("  %5.2f %-24s %s:%d", times.fdiv(count), type, file.sub(/.*\/(lib|gems|bench)\//, '\1/'), line)
      end
    end

    def class_of(object)
      Kernel.instance_method(:class).bind_call(object)
    end
  end
end

class Handling < Prosody::EventHandler
  attr_reader :ends
  attr_writer :work

  def initialize
    super
    @left = 0
    @ends = Thread::Queue.new
    @work = proc {}
  end

  def expect(count)
    @left = count
  end

  def on_message(context, message)
    @work.call(context, message)
    @ends << true if (@left -= 1) == 0
  end
end

def per_event(name, &work)
  Prosody.reset_mock
  client = Prosody::Client.new(mock: true, group_id: "bench", source_system: "filler", subscribed_topics: "bench", state_collections: VALUE)
  handler = Handling.new
  handler.work = work
  client.subscribe(handler)
  Objects.per(COUNT, name) { handle(handler) }
  client.unsubscribe
end

# The messages come from below `send_message`, which would count too.
def handle(handler)
  handler.expect(COUNT)
  MESSAGES.call(COUNT)
  handler.ends.pop
end

native = Prosody::Client.new(mock: true, source_system: "filler").instance_variable_get(:@native)
JSON_TEXT = JSON.generate(PAYLOAD)
KEYS = Array.new(100) { |number| "key-#{number}" }
MESSAGES = ->(count) { count.times { |number| native.send_record("bench", KEYS[number % 100], JSON_TEXT, nil, nil) } }

Bench.header
Prosody.logger = Logger.new($stderr, level: Logger::ERROR)
per_event("an event of a handler that does nothing") { |_, _| nil }
per_event("one that reads its payload, of two entries") { |_, message| message.payload }
per_event("one that gets and sets a value, of two entries") do |context, _|
  value = context.state(VALUE)
  value.set(value.get || PAYLOAD)
end

client = Prosody::Client.new(mock: true, source_system: "bench")
Objects.per(COUNT, "a send that does not wait") { COUNT.times { client.send_message("bench", "key", PAYLOAD) } }
topic = Bench.topic("allocations", 1)
client = Bench.client
Objects.per(COUNT, "a send that waits, from a thread") { COUNT.times { client.send_message(topic, "key", PAYLOAD) } }
Objects.per(COUNT, "a send that waits, from a fiber under Async") { Async { COUNT.times { client.send_message(topic, "key", PAYLOAD) } } }
batch = Array.new(COUNT) { {topic: topic, key: "key", payload: PAYLOAD} }
Objects.per(COUNT, "a message of send_messages") { client.send_messages(batch) }
