# frozen_string_literal: true

require_relative "../spec_helper"

# spec/delivery.md, "Order and overlap".
RSpec.describe "order", :mock do
  it "of a key is kept, one message at a time; keys go on side by side" do
    running = Hash.new(0)
    together = 0
    overlaps = []
    handled = Thread::Queue.new
    consume do |_, message|
      overlaps << message.key if (running[message.key] += 1) > 1
      together = [together, running.values.sum].max
      sleep(0.001) # where other keys get their turn
      running[message.key] -= 1
      handled << [message.key, message.payload]
    end
    20.times { |number| ("a".."j").each { |key| produce(key, number) } }

    by_key = pops(handled, 200).group_by(&:first)
    expect(by_key.transform_values { |all| all.map(&:last) }).to eq(("a".."j").to_h { |key| [key, (0..19).to_a] })
    expect(overlaps).to be_empty
    expect(together).to be > 3
  end

  it "is kept through retries, during which other keys go on, those of the same partition too" do
    handled = Thread::Queue.new
    attempts = 0
    release = false
    consume do |_, message|
      if message.payload == "stuck" && !release
        attempts += 1
        raise "not yet"
      end
      handled << [message.key, message.payload]
    end
    produce("stuck key", "stuck")
    produce("stuck key", "after")
    keys_of_partitions.each { |key| produce(key, "free") }
    twin = ("b".."zz").lazy.map { |key| key * 3 }.find { |key| partition_of(key) == partition_of("stuck key") }
    produce(twin, "same partition")

    expect(pops(handled, 5).map(&:last)).to contain_exactly("free", "free", "free", "free", "same partition")
    log.wait_for_count(/handler failed, message is retried/, 3)
    release = true
    expect(pops(handled, 2)).to eq([["stuck key", "stuck"], ["stuck key", "after"]])
    expect(attempts).to be >= 3
  end

  it "bounds how many handlers run at once by max_concurrency" do
    started, go_on = Array.new(2) { Thread::Queue.new }
    running = 0
    most = 0
    consume(max_concurrency: 2) do |_, message|
      most = [most, running += 1].max
      started << message.key
      go_on.pop
      running -= 1
    end
    8.times { |number| produce("key-#{number}", 1) }
    2.times { pop(started) }
    expect(started.size).to eq(0)
    8.times { go_on << true }
    pops(started, 6)
    expect(most).to eq(2)
  end

  it "leaves other partitions their way when one has max_uncommitted unfinished events" do
    key, *others = keys_of_partitions
    go_on, handled = Array.new(2) { Thread::Queue.new }
    consume(max_uncommitted: 2, max_concurrency: 100) do |_, message|
      go_on.pop if message.key == key
      handled << message.key
    end
    50.times { produce(key, 1) }
    20.times { others.each { |other| produce(other, 1) } }

    expect(pops(handled, 60).tally).to eq(others.to_h { |other| [other, 20] })
    50.times { go_on << true }
    expect(pops(handled, 50).uniq).to eq([key])
  end
end
