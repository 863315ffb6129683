# frozen_string_literal: true

require_relative "../spec_helper"

# spec/keyed-state.md.
RSpec.describe Prosody::ValueState, :mock do
  let(:value) { Prosody.value("v") }

  # Runs the blocks as the handlers of one message each, of one key, and answers what they return.
  def in_turn(*blocks, key: "k", **options)
    answers = Thread::Queue.new
    consume(state_collections: [value, Prosody.value("other")], **options) do |context, message|
      answers << blocks.fetch(message.payload).call(context.state(value), context)
    end
    blocks.each_index { |number| produce(key, number) }
    pops(answers, blocks.size)
  end

  it "gets what was set: in the same event, and in later ones of the key" do
    expect(in_turn(
      ->(state, _) { [state.get, state.set("a" => [1, nil, {"b" => 1.5}]), state.get] },
      ->(state, _) { state.get }
    )).to eq([[nil, nil, {"a" => [1, nil, {"b" => 1.5}]}], {"a" => [1, nil, {"b" => 1.5}]}])
  end

  [{}, [], "", "text", 0, -1, 2**70, 1.5, true, false, [nil]].each do |item|
    it "keeps #{item.inspect}" do
      expect(in_turn(->(state, _) { state.set(item) }, ->(state, _) { [state.get] })).to eq([nil, [item]])
    end
  end

  it "keeps Symbols as Strings, and objects by to_h or to_json" do
    expect(in_turn(->(state, _) { state.set(a: :b, c: Struct.new(:d).new(1)) }, ->(state, _) { state.get }).last)
      .to eq("a" => "b", "c" => {"d" => 1})
  end

  it "gives a fresh object at each get: changing it changes nothing" do
    expect(in_turn(
      lambda do |state, _|
        state.set("a" => 1)
        state.get["a"] = 2
        state.get
      end,
      ->(state, _) { state.get }
    )).to eq([{"a" => 1}, {"a" => 1}])
  end

  it "is cleared" do
    expect(in_turn(
      ->(state, _) { state.set(1) },
      ->(state, _) { [state.clear, state.get] },
      ->(state, _) { state.get }
    )).to eq([nil, [nil, nil], nil])
  end

  it "belongs to one key" do
    got = Thread::Queue.new
    consume(state_collections: value) do |context, message|
      state = context.state(value)
      got << [message.key, state.get]
      state.set(message.key)
    end
    2.times { %w[a b].each { |key| produce(key, 1) } }

    expect(pops(got, 4)).to contain_exactly(["a", nil], ["b", nil], ["a", "a"], ["b", "b"])
  end

  it "rolls back to what was committed, and this collection only" do
    expect(in_turn(
      ->(state, context) { [state.set(1), context.state(Prosody.value("other")).set("o")] },
      lambda do |state, context|
        other = context.state(Prosody.value("other"))
        other.set("changed")
        state.set(2)
        before = state.get
        [before, state.rollback, state.get, other.get]
      end,
      ->(state, context) { [state.get, context.state(Prosody.value("other")).get] }
    )).to eq([[nil, nil], [2, nil, 1, "changed"], [1, "changed"]])
  end

  describe "when the handler fails" do
    def attempts_of(count, **options)
      seen = Thread::Queue.new
      attempts = 0
      consume(state_collections: [value, Prosody.value("other")], **options) do |context|
        state = context.state(value)
        seen << state.get
        attempts += 1
        yield state, attempts, context
        raise "again" if attempts < count
      end
      produce("k", 1)
      pops(seen, count)
    end

    it "keeps nothing" do
      expect(attempts_of(3) { |state, attempt| state.set(attempt) }).to eq([nil, nil, nil])
    end

    it "keeps what commit published: count += 1; commit; raise counts again" do
      expect(attempts_of(4) { |state|
        state.set((state.get || 0) + 1)
        expect(state.commit).to be_nil
      }).to eq([nil, 1, 2, 3])
    end

    it "keeps of what was set what was set before the commit" do
      expect(attempts_of(3) { |state, attempt|
        state.set("committed #{attempt}")
        state.commit
        state.set("lost")
      }).to eq([nil, "committed 1", "committed 2"])
    end

    it "keeps a clear that was committed" do
      expect(attempts_of(3) { |state, attempt|
        (attempt == 1) ? state.set(1) : state.clear
        state.commit
      }).to eq([nil, 1, nil])
    end

    it "commits one collection without the others" do
      seen = attempts_of(2) { |state, attempt, context|
        context.state(Prosody.value("other")).set("lost")
        state.set(attempt)
        state.commit
        raise "not kept apart" if attempt == 2 && context.state(Prosody.value("other")).get != "lost"
      }
      expect(seen).to eq([nil, 1])
    end
  end

  it "commits in the order of the calls, also when they come from child tasks at once" do
    rounds = 30
    seen = in_turn(
      lambda do |state, _|
        tasks = Array.new(rounds) do |number|
          state.set(number)
          Async::Task.current.async { state.commit }
        end
        tasks.each(&:wait)
        state.rollback
        state.get
      end,
      ->(state, _) { state.get }
    )
    expect(seen).to eq([rounds - 1, rounds - 1])
  end

  it "commits nothing when nothing was changed" do
    expect(in_turn(->(state, _) { [state.commit, state.commit] })).to eq([[nil, nil]])
  end

  it "takes an item of 1 MiB as JSON, and no more: nothing is written then" do
    limit = 1024 * 1024
    expect(in_turn(
      ->(state, _) { state.set("x" * (limit - 2)) },
      lambda do |state, _|
        state.set("x" * (limit - 1))
      rescue Prosody::TransientStateError => error
        [error.message, state.get.bytesize]
      end
    ).last).to match([/collection "v" is 1048577 bytes as JSON, at most 1048576: split it/, limit - 2])
  end

  it "names the collection, and no value, when inspected" do
    expect(in_turn(->(state, _) { [state.set("secret"), state.inspect].last })).to eq(['#<Prosody::ValueState "v">'])
  end

  it "is the same handle for an equal definition, and another one in the next attempt" do
    same, first, second = in_turn(
      ->(state, context) { state.equal?(context.state(Prosody.value("v"))) },
      ->(state, _) { state },
      ->(state, _) { state }
    )
    expect([same, first.equal?(second)]).to eq([true, false])
  end

  it "may be used from child tasks and other fibers of the attempt, also where the call waits" do
    expect(in_turn(
      lambda do |state, _|
        Async::Task.current.async { state.set("by a child") }.wait
        fiber = Fiber.new { [state.get, state.set("by a fiber"), state.commit, "end"] }
        [fiber.resume, state.get, state.commit]
      end,
      lambda do |state, _|
        items = Enumerator.new do |out|
          200.times do |number|
            state.set(number)
            out << state.get
          end
        end
        Array.new(200) { items.next }.last
      end,
      ->(state, _) { state.get }
    )).to eq([[["by a child", nil, nil, "end"], "by a fiber", nil], 199, 199])
  end

  it "may be used from a fiber of the handler's own for longer than a slice, and while it waits for the end" do
    expect(in_turn(
      lambda do |state, context|
        fiber = Fiber.new do
          20_000.times { |number| state.set(number) }
          Fiber.yield(state.get)
          context.on_cancel
          "cancelled"
        end
        begin
          [fiber.resume, fiber.resume]
        rescue Async::Stop
          ["stopped"]
        end
      end, timeout: 0.5
    )).to eq([[19_999, "cancelled"]]).or eq([["stopped"]])
  end

  it "lets others have their turn in a handler that never waits" do
    go_on = false
    got = Thread::Queue.new
    consume(state_collections: value) do |context, message|
      state = context.state(value)
      if message.key == "loops"
        state.set((state.get || 0) + 1) until go_on
      else
        go_on = true
      end
      got << message.key
    end
    produce("loops", 1)
    produce("ends it", 1)

    expect(pops(got, 2)).to contain_exactly("loops", "ends it")
  end
end
