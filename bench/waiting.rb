# frozen_string_literal: true

# Handlers that wait 1 ms each (for a service, say): messages per second of one partition, beside as many bare fibers
# that sleep 1 ms under the same scheduler, in turns.

require_relative "support"

ROUNDS = 3
SECONDS = 0.001
CASES = [
  {messages: 60_000, keys: 100, max_concurrency: 32, max_uncommitted: 64},
  {messages: 100_000, keys: 1_000, max_concurrency: 256, max_uncommitted: 1_024}
].freeze

class WaitingHandler < Prosody::EventHandler
  attr_reader :times

  def initialize(messages)
    super()
    @messages = messages
    @count = 0
    @times = Thread::Queue.new
  end

  def on_message(_context, _message)
    sleep(SECONDS)
    @count += 1
    @times << Bench.now if @count == 1 || @count == @messages
  end
end

def prosody(topic, round, messages:, max_concurrency:, max_uncommitted:, **)
  handler = WaitingHandler.new(messages)
  client = Bench.client(group_id: "#{topic}-#{round}", subscribed_topics: topic, max_concurrency:, max_uncommitted:)
  client.subscribe(handler)
  first, last = handler.times.pop, handler.times.pop
  client.unsubscribe
  messages / (last - first)
end

def bare_fibers(messages:, max_concurrency:, **)
  count = 0
  begin_at = Bench.now
  Async do |task|
    Array.new(max_concurrency) do
      task.async do
        while count < messages
          count += 1
          sleep(SECONDS)
        end
      end
    end.each(&:wait)
  end
  count / (Bench.now - begin_at)
end

Bench.header
CASES.each do |settings|
  topic = Bench.topic("waiting-#{settings[:keys]}", 1)
  Bench.peer("fill", topic, settings[:messages], settings[:keys])
  rates = Array.new(ROUNDS) { |round| [bare_fibers(**settings), prosody(topic, round, **settings)] }
  bare, own = rates.transpose.map { |values| Bench.median(values) }
  puts format("1 ms of waiting, 1 partition, %d keys, max_concurrency %d, max_uncommitted %d: %d/s; as many bare fibers %d/s (%.2f of it)",
    settings[:keys], settings[:max_concurrency], settings[:max_uncommitted], own, bare, own / bare)
end
