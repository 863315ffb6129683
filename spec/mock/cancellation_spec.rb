# frozen_string_literal: true

require_relative "../spec_helper"

# spec/delivery.md, "Failure" and "Shutdown and rebalance".
RSpec.describe "cancellation", :mock do
  it "by timeout is Async::Stop at the next wait, counts as transient and is said in the log" do
    stopped, got = Array.new(2) { Thread::Queue.new }
    attempts = 0
    consume(timeout: 0.1) do
      sleep(60) if (attempts += 1) == 1
      got << true
    rescue Async::Stop => stop
      stopped << stop
      raise
    end
    produce("k", 1)

    expect(pop(stopped)).to be_a(Async::Stop)
    pop(got)
    expect(attempts).to eq(2)
    expect(log.wait_for(/handler was stopped after timeout \(0.1 s\)/)).to match(/topic=#{topic} partition=\d offset=0 key="k"/)
  end

  it "does not interrupt a handler that never waits, which may ask should_cancel?" do
    got = Thread::Queue.new
    consume(timeout: 0.05) do |context|
      before = context.should_cancel?
      Thread.pass until context.should_cancel?
      got << [before, context.should_cancel?]
    rescue Async::Stop
      got << "stopped"
    end
    produce("k", 1)

    # should_cancel? yields now and then, where the stop may come first.
    expect(pop(got)).to eq([false, true]).or eq("stopped")
  end

  it "that is swallowed is a success: what was written stays" do
    value = Prosody.value("v")
    got = Thread::Queue.new
    attempts = 0
    consume(timeout: 0.1, state_collections: value) do |context, message|
      attempts += 1
      if message.payload == "swallows"
        begin
          sleep(60)
        rescue Async::Stop
          context.state(value).set("written after it")
        end
      else
        got << context.state(value).get
      end
    end
    produce("k", "swallows")
    produce("k", "next")

    expect(pop(got)).to eq("written after it")
    expect(attempts).to eq(2)
  end

  it "wakes on_cancel, which returns nil, also where it waits in a child task" do
    told, got = Array.new(2) { Thread::Queue.new }
    consume(timeout: 0.1) do |context|
      child = Async::Task.current.async { told << [context.on_cancel, context.should_cancel?] }
      begin
        sleep(60)
      rescue Async::Stop
        told << "stopped"
        child.wait
        got << context.on_cancel.inspect
      end
    end
    produce("k", 1)

    expect(pops(told, 2)).to contain_exactly([nil, true], "stopped")
    expect(pop(got)).to eq("nil")
  end

  it "does not touch other handlers" do
    started, ended = Array.new(2) { Thread::Queue.new }
    consume(timeout: 0.2) do |_, message|
      started << message.key
      sleep(60) if message.key == "slow" && message.offset == 0 && ended.empty?
      ended << message.key
    rescue Async::Stop
      raise Prosody::PermanentError, "enough"
    end
    produce("slow", 1)
    pop(started)
    20.times { |number| produce("fast-#{number}", 1) }

    expect(pops(ended, 20)).to all(start_with("fast"))
    log.wait_for(/enough/)
  end

  it "leaves commits that were sent to a known outcome before the next attempt" do
    value = Prosody.value("v")
    seen = Thread::Queue.new
    attempts = 0
    consume(state_collections: value) do |context|
      state = context.state(value)
      seen << state.get
      if (attempts += 1) <= 5
        state.set(attempts)
        task = Async::Task.current.async { state.commit }
        task.stop
        raise "again"
      end
    end
    produce("k", 1)

    expect(pops(seen, 6)).to eq([nil, 1, 2, 3, 4, 5])
  end

  it "comes to the handlers of a client that shuts down: their events are handled by the next owner" do
    started, got = Array.new(2) { Thread::Queue.new }
    first = consume(shutdown_timeout: 0.3) do
      started << true
      sleep(60)
    end
    produce("k", 1)
    pop(started)
    consume(shutdown_timeout: 0.3) { |_, message| got << message.payload }
    first.unsubscribe

    expect(pop(got)).to eq(1)
  end
end
