# frozen_string_literal: true

# Acknowledged sends one at a time, from a plain thread and from a fiber, beside rdkafka from Rust with the same
# settings; and many in flight from fibers.

require_relative "support"

MESSAGES = Integer(ENV.fetch("MESSAGES", 5_000))
IN_FLIGHT = 10_000
BATCH = 200_000
PAYLOAD = {"user" => "ada", "number" => 12_345, "text" => "a text that is neither long nor short", "ok" => true, "x" => 1.5, "y" => 2}.freeze

def latencies(client, topic)
  times = Array.new(MESSAGES + MESSAGES / 10) do |number|
    begin_at = Bench.now
    client.send_message(topic, "key-#{number % 100}", PAYLOAD)
    Bench.now - begin_at
  end
  times = times.drop(MESSAGES / 10).sort
  [times[MESSAGES / 2] * 1e6, times[MESSAGES * 99 / 100] * 1e6]
end

def in_flight(client, topic)
  begin_at = Bench.now
  Async do |task|
    Array.new(IN_FLIGHT) { |number| task.async { client.send_message(topic, "key-#{number % 100}", PAYLOAD) } }.each(&:wait)
  end
  IN_FLIGHT / (Bench.now - begin_at)
end

Bench.header
topic = Bench.topic("produce", 1)
client = Bench.client(send_timeout: 30)
client.send_message(topic, "warm", 1)
raw = Bench.peer("produce", topic, MESSAGES).split.map(&:to_f)
thread = latencies(client, topic)
fiber = nil
Async { fiber = latencies(client, topic) }
again = Bench.peer("produce", topic, MESSAGES).split.map(&:to_f)
raw = raw.zip(again).map(&:min)
puts format("rdkafka from Rust: p50 %d µs, p99 %d µs", *raw)
{"a thread" => thread, "a fiber under Async" => fiber}.each do |who, (p50, p99)|
  puts format("send_message from %s: p50 %d µs (%.2f ×), p99 %d µs (%.2f ×)", who, p50, p50 / raw[0], p99, p99 / raw[1])
end
in_flight(client, topic)
puts format("%d sends in flight from fibers: %d/s", IN_FLIGHT, Bench.median(Array.new(3) { in_flight(client, topic) }))

def batch(client, topic, count)
  begin_at = Bench.now
  client.send_messages(Enumerator.new { |sink| count.times { |number| sink << {topic: topic, key: "key-#{number % 100}", payload: PAYLOAD} } })
  count / (Bench.now - begin_at)
end

batch(client, topic, 10_000)
rates = Array.new(3) do
  raw_begin = Bench.now
  Bench.peer("fill", topic, BATCH, 100)
  [BATCH / (Bench.now - raw_begin), batch(client, topic, BATCH)]
end
raw_rate, rate = rates.transpose.map { |values| Bench.median(values) }
puts format("send_messages of %d: %d/s; rdkafka from Rust %d/s (%.2f of it)", BATCH, rate, raw_rate, rate / raw_rate)
