# frozen_string_literal: true

# Messages per second of a handler that does nothing, of one that reads its payload, and of a plain rdkafka
# consumer that only counts: one process, one broker, default settings, the same messages, in turns.

require_relative "support"

MESSAGES = Integer(ENV.fetch("MESSAGES", 300_000))
ROUNDS = 3

class CountingHandler < Prosody::EventHandler
  attr_reader :times

  def initialize(parse)
    super()
    @parse = parse
    @count = 0
    @times = Thread::Queue.new
  end

  def on_message(_context, message)
    message.payload["number"] if @parse
    @count += 1
    @times << Bench.now if @count == 1 || @count == MESSAGES
  end
end

def prosody(topic, round, parse:)
  handler = CountingHandler.new(parse)
  client = Bench.client(group_id: "#{topic}-#{round}-#{parse}", subscribed_topics: topic)
  client.subscribe(handler)
  first, last = handler.times.pop, handler.times.pop
  client.unsubscribe
  MESSAGES / (last - first)
end

Bench.header
[1, 4].each do |partitions|
  topic = Bench.topic("consume-#{partitions}", partitions)
  Bench.peer("fill", topic, MESSAGES, 100)
  rates = Hash.new { |hash, name| hash[name] = [] }
  ROUNDS.times do |round|
    rates[:raw] << Float(Bench.peer("consume", topic, MESSAGES))
    rates[:no_op] << prosody(topic, round, parse: false)
    rates[:parse] << prosody(topic, round, parse: true)
  end
  raw, no_op, parse = %i[raw no_op parse].map { |name| Bench.median(rates[name]) }
  puts format("%d partition(s): rdkafka counting %d/s; no-op %d/s (%.2f of it); payload parsed %d/s (%.2f)",
    partitions, raw, no_op, no_op / raw, parse, parse / raw)
end
