# frozen_string_literal: true

require_relative "../spec_helper"

# design/3, rule 3: nothing of an event is left for the next one.
RSpec.describe "an event after another", :mock do
  # What the second of two messages finds, after the first was handled by the block.
  def left_behind(find, &first)
    got = Thread::Queue.new
    consume(max_concurrency: 1) do |context, message|
      next first.call(context) if message.payload == 1

      got << find.call
    end
    produce("k", 1)
    produce("k", 2)
    pop(got)
  end

  it "finds no fiber-locals" do
    expect(left_behind(-> { Thread.current[:leak] }) { Thread.current[:leak] = 1 }).to be_nil
  end

  it "finds no fiber storage" do
    skip "Ruby #{RUBY_VERSION} has no fiber storage" unless Fiber.respond_to?(:[]=)

    expect(left_behind(-> { [Fiber[:leak]] }) { Fiber[:leak] = 1 }).to eq([nil])
  end

  it "finds its handler's child tasks stopped" do
    ended = Thread::Queue.new
    start_children = lambda do |_context|
      3.times do
        Async::Task.current.async do |task|
          task.async { sleep(60) }
          sleep(60)
        ensure
          ended << "ended"
        end
      end
    end

    expect(left_behind(-> { pops(ended, 3) }, &start_children)).to eq(%w[ended ended ended])
  end

  it "finds a task without children where the last one failed with one" do
    attempts = 0
    children = Thread::Queue.new
    consume do |_, _message|
      Async::Task.current.async do
        sleep(60)
      ensure
        children << "ended"
      end
      raise "again" if (attempts += 1) < 3
    end
    produce("k", 1)

    expect(pops(children, 3)).to eq(%w[ended ended ended])
  end

  it "runs on the same task where nothing was left behind" do
    tasks = Thread::Queue.new
    consume(max_concurrency: 1) { tasks << Async::Task.current }
    20.times { produce("k", 1) }

    # Another one is made when an event comes while the first has not parked yet.
    expect(pops(tasks, 20).uniq.size).to be <= 3
  end

  it "may use thread variables and libraries that keep fiber-locals" do
    got = Thread::Queue.new
    consume(max_concurrency: 1) do |_, message|
      recursive = []
      recursive << recursive
      got << [message.payload, recursive.inspect]
    end
    3.times { |number| produce("k", number) }

    expect(pops(got, 3)).to eq([[0, "[[...]]"], [1, "[[...]]"], [2, "[[...]]"]])
  end

  describe "Timeout.timeout" do
    it "raises in the handler that called it, and in no other" do
      started, got = Array.new(2) { Thread::Queue.new }
      go_on = Thread::Queue.new
      consume do |_, message|
        started << true
        if message.key == "waits"
          go_on.pop
          got << [message.key, "undisturbed"]
        else
          begin
            Timeout.timeout(0.05) { sleep(60) }
          rescue Timeout::Error => error
            got << [message.key, error.class]
          end
        end
      end
      produce("waits", 1)
      pop(started)
      3.times { |number| produce("times out #{number}", 1) }

      expect(pops(got, 3)).to contain_exactly(*Array.new(3) { |number| ["times out #{number}", Timeout::Error] })
      go_on << true
      expect(pop(got)).to eq(["waits", "undisturbed"])
    end

    it "returns what the block returns, raises the class it was given, and nests" do
      own = Class.new(StandardError)
      got = Thread::Queue.new
      consume do
        got << Timeout.timeout(5) { :returned }
        begin
          Timeout.timeout(0.02, own, "too slow") { sleep(60) }
        rescue own => error
          got << error.message
        end
        begin
          Timeout.timeout(0.02) { Timeout.timeout(60) { sleep(60) } }
        rescue Timeout::Error => error
          got << error.class
        end
        Timeout.timeout(60) do
          Timeout.timeout(0.02) { sleep(60) }
        rescue Timeout::Error
          got << :inner
        end
      end
      produce("k", 1)

      expect(pops(got, 4)).to eq([:returned, "too slow", Timeout::Error, :inner])
    end

    it "interrupts a state call or a send that waits, which then does no harm" do
      value = Prosody.value("v")
      got = Thread::Queue.new
      consume(state_collections: value) do |context, message|
        state = context.state(value)
        if message.payload == 1
          50.times do |number|
            state.set(number)
            Timeout.timeout(0.0001) { state.commit }
          rescue Timeout::Error
            nil
          end
        end
        got << state.get
      end
      produce("k", 1)
      produce("k", 2)

      expect(pops(got, 2)).to eq([49, 49])
    end
  end
end
