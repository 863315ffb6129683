# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe Prosody::Context, :mock do
  # What the block, as a handler, answers or raises.
  def in_handler(**options)
    answers = Thread::Queue.new
    consume(**options) do |context, message|
      answers << [yield(context, message)]
    rescue Exception => error # standard:disable Lint/RescueException
      answers << [error]
    end
    produce("k", 1)
    pop(answers).first
  end

  describe "what comes later" do
    {schedule: [Time.now], unschedule: [Time.now], clear_scheduled: [], clear_and_schedule: [Time.now], scheduled: [],
     commit: []}.each do |name, arguments|
      it "says so, and is not swallowed by a bare rescue: ##{name}" do
        expect(in_handler { |context| context.public_send(name, *arguments) })
          .to be_a(NotImplementedError).and have_attributes(message: /#{name} is not part of this version/)
      end
    end

    %i[map deque message_value message_map message_deque].each do |kind|
      it "says so: #state of a #{kind}" do
        definition = Prosody.public_send(kind, "c")

        expect(in_handler(state_collections: definition) { |context| context.state(definition) })
          .to be_a(NotImplementedError).and have_attributes(message: /state of a \w+ \w+ is not part of this version/)
      end
    end
  end

  describe "#state" do
    it "refuses a definition that the client was not made with, and names those it was" do
      expect(in_handler(state_collections: [Prosody.value("a"), Prosody.value("b")]) { |context| context.state(Prosody.value("c")) })
        .to be_a(Prosody::PermanentStateError).and have_attributes(message: /name="c".*registered: "a", "b"/)
      unsubscribe_all
      expect(in_handler(group_id: "#{group}-2", state_collections: Prosody.value("a")) { |context| context.state(Prosody.value("a", ttl: 60)) })
        .to be_a(Prosody::PermanentStateError)
      unsubscribe_all
      expect(in_handler(group_id: "#{group}-3") { |context| context.state(Prosody.value("a")) })
        .to be_a(Prosody::PermanentStateError).and have_attributes(message: /none is/)
    end

    it "takes a definition of the same content" do
      expect(in_handler(state_collections: {name: "a", kind: "value", payload: "json"}) { |context| context.state(Prosody.value("a")).get }).to be_nil
    end
  end

  it "is not cancelled in a handler that has time" do
    expect(in_handler { |context| [context.should_cancel?, context.inspect] })
      .to eq([false, "#<Prosody::Context should_cancel=false>"])
  end

  describe "a state handle that is used wrongly" do
    let(:value) { Prosody.value("v") }

    # Sets "before", has the block do wrong, and answers what it raised and what the next event finds.
    def misuse
      errors = Thread::Queue.new
      consume(state_collections: value) do |context, message|
        state = context.state(value)
        if message.payload == 1
          state.set("before")
          begin
            yield state, context
          rescue => error
            errors << error
          end
        else
          errors << state.get
        end
      end
      produce("k", 1)
      error = pop(errors)
      produce("k", 2)
      [error, pop(errors)]
    end

    it "says what deletes when nil is set" do
      expect(misuse { |state| state.set(nil) })
        .to match([be_a(Prosody::NullValueError).and(have_attributes(message: /"v": nil is not a value; `clear` removes one/)), "before"])
    end

    cyclic = {}
    cyclic["itself"] = [cyclic]
    {
      "NaN" => Float::NAN, "Infinity" => [Float::INFINITY], "-Infinity" => {"a" => -Float::INFINITY}, "invalid UTF-8" => "\xFF",
      "an invalid name" => {"\xFF" => 1}, "a cyclic value" => cyclic, "what has no JSON form" => Object.new,
      "a class" => String, "a Proc" => -> {}, "a BasicObject" => BasicObject.new, "a nest 101 deep" => eval("[" * 101 + "]" * 101) # standard:disable Security/Eval
    }.each do |name, item|
      it "writes nothing: #{name}" do
        expect(misuse { |state| state.set(item) }).to match([
          be_instance_of(Prosody::TransientStateError)
            .and(have_attributes(message: /collection "v": the value cannot be stored as JSON: ./, permanent?: false)), "before"
        ])
      end
    end

    calls = {get: [], set: [1], clear: [], commit: [], rollback: []}

    it "touches nothing after its attempt" do
      old, got = Array.new(2) { Thread::Queue.new }
      consume(state_collections: value) do |context, message|
        if message.payload == 1
          context.state(value).set("kept")
          old << context.state(value)
        else
          state = pop(old)
          got << calls.map { |name, arguments| state.public_send(name, *arguments) rescue $! } # standard:disable Style/RescueModifier
          got << context.state(value).get
        end
      end
      produce("k", 1)
      produce("k", 2)

      expect(pop(got)).to all(be_a(Prosody::TransientStateError).and(have_attributes(message: /handle outlived its event/)))
      expect(pop(got)).to eq("kept")
    end

    it "touches nothing when used by a child task that outlives the attempt" do
      errors = Thread::Queue.new
      consume(state_collections: value) do |context, _message|
        state = context.state(value)
        Async::Task.current.async do
          sleep(60)
        ensure
          begin
            state.set("late")
          rescue => error
            errors << error
          end
        end
      end
      produce("k", 1)

      expect(pop(errors)).to be_a(Prosody::TransientStateError).and have_attributes(message: /outlived/)
    end

    it "touches nothing from another thread" do
      errors, after = misuse do |state|
        found = calls.map { |name, arguments| Thread.new { state.public_send(name, *arguments) rescue $! }.value } # standard:disable Style/RescueModifier
        raise found.first if found.all?(Prosody::TransientStateError)
      end

      expect(errors).to be_a(Prosody::TransientStateError).and have_attributes(message: /another thread/)
      expect(after).to eq("before")
    end

    it "touches nothing from a forked process" do
      reader, writer = IO.pipe
      answer, after = misuse do |state|
        child = fork do
          reader.close
          calls.each { |name, arguments| state.public_send(name, *arguments) && writer.puts("done") rescue writer.puts("#{$!.class} #{$!.message}") } # standard:disable Style/RescueModifier
          writer.close
          Process.exit!
        end
        writer.close
        Process.wait(child)
        raise reader.read
      end

      expect(answer.message.lines).to have_attributes(size: 5).and all(match(/Prosody::TransientStateError handle outlived its event.*forked/))
      expect(after).to eq("before")
    end
  end
end
