# frozen_string_literal: true

require_relative "../spec_helper"

# A client may be used from anywhere.
RSpec.describe "a client", :mock do
  callers = {
    "a plain thread" => ->(work) { Thread.new(&work).value },
    "an Async task" => ->(work) { Thread.new { Async { work.call }.wait }.value },
    "a fiber of an Async task" => ->(work) { Thread.new { Async { Fiber.new { work.call }.resume }.wait }.value },
    "a bare fiber" => ->(work) { Fiber.new(&work).resume },
    "an Enumerator's fiber" => ->(work) { Enumerator.new { |out| out << work.call }.next },
    "a thread that is interrupted now and then" => lambda do |work|
      thread = Thread.new(&work)
      thread.wakeup while thread.join(0.001).nil?
      thread.value
    end
  }

  callers.each do |name, call|
    it "subscribes, sends and unsubscribes from #{name}" do
      got = Thread::Queue.new
      client = consumer(shutdown_timeout: 0.2)
      answers = call.call(lambda do
        [
          client.subscribe(handler { |_, message| got << message.payload }),
          client.send_message(topic, "k", 1),
          client.send_tombstone(topic, "k"),
          (client.send_message(topic, "k", "x" * 1_000_000) rescue $!.class), # standard:disable Style/RescueModifier
          client.consumer_state
        ]
      end)

      expect(answers).to eq([nil, nil, nil, Prosody::Error, :running])
      expect(pops(got, 2)).to eq([1, nil])
      expect(call.call(-> { [client.unsubscribe, client.consumer_state] })).to eq([nil, :configured])
    end
  end

  it "sends from handlers, its own and those of other clients" do
    got = Thread::Queue.new
    client = consume do |_, message|
      if message.payload < 5
        client.send_message(topic, message.key, message.payload + 1)
        sender.send_message(topic, message.key, 100)
      end
      got << message.payload
    end
    produce("k", 0)

    expect(pops(got, 11).tally).to eq({0 => 1, 1 => 1, 2 => 1, 3 => 1, 4 => 1, 5 => 1, 100 => 5})
  end

  it "sends from many threads at once" do
    got = Thread::Queue.new
    consume { |_, message| got << [message.key, message.payload] }
    threads = Array.new(8) { |thread| Thread.new { 50.times { |number| produce("key-#{thread}", number) } } }
    threads.each(&:join)

    expect(pops(got, 400).group_by(&:first).values.map { |all| all.map(&:last) }).to eq([(0...50).to_a] * 8)
  end

  describe "that waits" do
    # How far a Ruby thread counts while the block waits.
    def counted
      count = 0
      counter = Thread.new { loop { Thread.pass while (count += 1) % 100 == 0 } }
      yield
      count
    ensure
      counter.kill
    end

    it "for unsubscribe lets other threads go on" do
      started = Thread::Queue.new
      client = consume(shutdown_timeout: 0.3) do
        started << true
        sleep(60)
      end
      produce("k", 1)
      pop(started)

      expect(counted { expect(seconds { client.unsubscribe }).to be > 0.2 }).to be > 1_000
    end

    it "for subscribe, send and unsubscribe, again and again, lets other threads go on" do
      client = consumer
      expect(counted do
        20.times do |number|
          client.subscribe(handler {})
          client.send_message(topic, "k", number)
          client.unsubscribe
        end
      end).to be > 1_000
    end

    it "for unsubscribe lets other fibers of its thread go on" do
      started = Thread::Queue.new
      client = consume(shutdown_timeout: 0.3) do
        started << true
        sleep(60)
      end
      produce("k", 1)
      pop(started)
      turns = 0
      Thread.new do
        Async do |task|
          others = task.async { loop { sleep(0.01) && turns += 1 } }
          client.unsubscribe
          others.stop
        end
      end.join

      expect(turns).to be > 5
    end

    it "can be interrupted: by Timeout and by Thread#kill" do
      started = Thread::Queue.new
      client = consume(shutdown_timeout: 2) do
        started << true
        sleep(60)
      end
      produce("k", 1)
      pop(started)

      expect(seconds { expect { Timeout.timeout(0.1) { client.unsubscribe } }.to raise_error(Timeout::Error) }).to be < 1
      thread = Thread.new do
        started << true
        client.unsubscribe
      end
      pop(started)
      thread.kill
      expect(thread.join(1)).to be(thread)
      expect(seconds { client.unsubscribe }).to be < 3
      expect(client.consumer_state).to eq(:configured)
    end
  end
end
