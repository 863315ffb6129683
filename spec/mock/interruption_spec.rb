# frozen_string_literal: true

require_relative "../spec_helper"
require "socket"

# Calls that are interrupted or come from several threads at once, and handlers that do not end with them.
RSpec.describe "subscribe and unsubscribe", :mock do
  # The threads that run handlers.
  def reactors
    Thread.list.select { |thread| thread.name == "prosody-reactor" }
  end

  # Runs the block on a thread, and interrupts that once it waits.
  def interrupted(how)
    thread = Thread.new { yield }
    thread.report_on_exception = false
    Thread.pass until thread.stop?
    (how == :kill) ? thread.kill : thread.raise(Timeout::Error)
    thread.join
  rescue Timeout::Error
    nil
  end

  before { expect(reactors).to be_empty }

  describe "unsubscribe, interrupted while a handler runs" do
    %i[raise kill].each do |how|
      it "goes on: nobody subscribes before it has ended, no handler runs after the next unsubscribe (#{how})" do
        started, go_on, running = Array.new(3) { Thread::Queue.new }
        client = consume(shutdown_timeout: 10) do
          started << true
          go_on.pop
          running << true
        end
        produce("k", 1)
        pop(started)
        interrupted(how) { client.unsubscribe }

        expect { client.subscribe(handler {}) }.to raise_error(ArgumentError, /subscribed already, or has not stopped yet/)
        expect(reactors.size).to eq(1)
        go_on << true
        pop(running)
        client.unsubscribe
        expect([client.consumer_state, reactors]).to eq([:configured, []])
        client.subscribe(handler { |_, message| started << message.payload })
        produce("k", 2)
        expect(pop(started)).to eq(2)
      end
    end

    it "leaves no handler that takes no stop for an answer to run beside the next one of its key" do
      started = Thread::Queue.new
      runs = 0
      client = consume(shutdown_timeout: 0.3) do
        started << true
        begin
          loop do
            runs += 1
            sleep 0.001
          end
        rescue Async::Stop
          retry
        end
      end
      produce("k", 1)
      pop(started)
      interrupted(:raise) { client.unsubscribe }
      client.unsubscribe
      stands_at = runs

      expect(reactors).to be_empty
      again = Thread::Queue.new
      client.subscribe(handler { |_, message| again << message.payload })
      expect([pop(again), runs]).to eq([1, stands_at])
    end
  end

  it "is refused while a handler of the last time cannot be ended" do
    started, handled, go_on = Array.new(3) { Thread::Queue.new }
    client = consume(shutdown_timeout: 0.2) do |_, message|
      Thread.handle_interrupt(Object => :never) do
        started << true
        Fiber.new(blocking: true) { go_on.pop }.resume
      end
    end
    produce("k", 1)
    pop(started)
    client.unsubscribe
    thread = reactors.first

    expect { client.subscribe(handler {}) }.to raise_error(ArgumentError, /has not stopped yet/)
    go_on << true
    thread.join
    client.subscribe(handler { |_, message| handled << message.payload })
    expect(pop(handled)).to eq(1)
  end

  describe "subscribe, interrupted while no broker answers" do
    # A broker that accepts connections and says nothing.
    def silent_consumer
      @silence = TCPServer.new("127.0.0.1", 0)
      client = Prosody::Client.new(bootstrap_servers: "127.0.0.1:#{@silence.addr[1]}", group_id: group, subscribed_topics: topic, store: :memory)
      clients << client
      client
    end

    after { @silence&.close }

    {
      "Timeout" => ->(client, handler) { Timeout.timeout(0.2) { client.subscribe(handler) } },
      "an error raised in its thread" => :raise,
      "the end of its thread" => :kill
    }.each do |name, how|
      it "leaves a client that is not subscribed, and may subscribe again: #{name}" do
        client = silent_consumer
        2.times do
          if how.is_a?(Symbol)
            interrupted(how) { client.subscribe(handler {}) }
          else
            expect { how.call(client, handler {}) }.to raise_error(Timeout::Error)
          end
          expect([client.consumer_state, reactors]).to eq([:configured, []])
        end
      end
    end

    it "is ended by unsubscribe, too, and says so" do
      client = silent_consumer
      errors = Thread::Queue.new
      thread = Thread.new do
        client.subscribe(handler {})
      rescue Prosody::Error => error
        errors << error
      end
      Thread.pass until thread.stop? && reactors.any?
      client.unsubscribe

      expect(pop(errors).message).to match(/unsubscribed before/)
      expect([client.consumer_state, reactors]).to eq([:configured, []])
    end
  end

  it "may come from several threads at once: one subscription at most, and nothing left at the end" do
    client = consumer
    most = 0
    threads = Array.new(4) do |number|
      Thread.new do
        100.times do
          number.even? ? client.subscribe(handler {}) : client.unsubscribe
        rescue ArgumentError
          nil
        ensure
          most = [most, reactors.size].max
        end
      end
    end
    threads.each(&:join)
    client.unsubscribe

    expect([client.consumer_state, reactors]).to eq([:configured, []])
    # One may be on its way to be refused or to its end.
    expect(most).to be <= 2
  end

  %i[pipeline best_effort].each do |mode|
    it "has a message handled again whose handler makes an error of the stop: #{mode}" do
      started, again = Array.new(2) { Thread::Queue.new }
      client = consume(mode: mode, shutdown_timeout: 0.2) do
        started << true
        sleep(60)
      rescue Async::Stop
        raise IOError, "aborted"
      end
      produce("k", 1)
      pop(started)
      client.unsubscribe
      client.subscribe(handler { |_, message| again << message.payload })

      expect(pop(again)).to eq(1)
      expect(log.grep(/message is done/)).to be_empty
    end
  end
end
