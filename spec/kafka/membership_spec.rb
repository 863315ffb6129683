# frozen_string_literal: true

require "set"
require_relative "../kafka_helper"

RSpec.describe "Members of a group", :kafka do
  let(:topic) { make_topic(partitions: 6) }
  let(:handled) { Thread::Queue.new }
  let(:keys) { Array.new(60) { |number| "key-#{number}" } }

  def join(name)
    consume(shutdown_timeout: 5) { |_, message| handled << [name, message.partition, message.key, message.payload, monotonic] }
  end

  # Sends to every key without end, until the block is done.
  #
  # @return [Integer] the last number that every key was sent
  def sending
    running = true
    thread = Thread.new { (0..).find { |number| keys.each { |key| produce(key, number) } && !running } }
    yield
    running = false
    thread.value
  ensure
    running = false
  end

  # Takes what is handled until the block says that it is enough.
  def take_until(taken = [])
    taken << pop(handled) until yield(taken)
    taken
  end

  def owners(events)
    events.to_h { |name, partition, *| [partition, name] }
  end

  it "share partitions, and those who stay go on with theirs while a third one joins and leaves" do
    first, second = join(:first), join(:second)
    sending do
      take_until { [first, second].map(&:assigned_partitions) == [3, 3] }
      handled.clear
      before = owners(take_until { |taken| owners(taken).size == 6 })

      joined_at = monotonic
      third = join(:third)
      during = take_until { |taken| taken.any? { |name, *| name == :third } && [first, second, third].map(&:assigned_partitions) == [2, 2, 2] }
      handled.clear
      after = owners(take_until { |taken| owners(taken).size == 6 })
      kept = before.select { |partition, name| after[partition] == name }
      expect(kept.size).to eq(4)
      kept.each_key do |partition|
        times = [joined_at, *during.select { |event| event[1] == partition }.map(&:last)]
        expect(times.each_cons(2).map { |from, to| to - from }.max).to be < 2
      end

      third.unsubscribe
      take_until { [first, second].map(&:assigned_partitions) == [3, 3] }
      handled.clear
      take_until { |taken| owners(taken).size == 6 }
    end
  end

  it "keep their partitions although a handler takes longer than max.poll.interval.ms" do
    done = Thread::Queue.new
    client = consume(kafka_config: KafkaMode::QUICK_GROUP.merge("max.poll.interval.ms" => 6000)) do |_, message|
      sleep(message.payload)
      done << [message.key, message.payload]
    end
    produce("slow", 7)
    keys.each { |key| produce(key, 0) }
    expect(pops(done, keys.size)).to match_array(keys.map { |key| [key, 0] })
    expect(pop(done)).to eq(["slow", 7])
    produce("slow", 0)
    expect(pop(done)).to eq(["slow", 0])

    expect(log.grep(/INFO (assigned|given up)/).size).to eq(1)
    expect(client.assigned_partitions).to eq(6)
  end

  it "go on, on every partition, after twenty changes" do
    first = join(:first)
    seen = Set.new
    note = ->(taken) { seen.merge(taken.map { |event| event[2..3] }) }
    last = sending do
      10.times do
        other = join(:other)
        note.call(take_until { [first, other].map(&:assigned_partitions) == [3, 3] })
        other.unsubscribe
        note.call(take_until { first.assigned_partitions == 6 })
      end
    end
    all = keys.product((0..last).to_a).to_set
    note.call([pop(handled)]) until seen >= all

    expect(first).not_to be_stalled
  end
end
