# frozen_string_literal: true

require_relative "../spec_helper"

# spec/delivery.md, "Failure".
RSpec.describe "a handler that fails", :mock do
  coordinates = ->(topic, offset, key) { /topic=#{topic} partition=\d offset=#{offset} key="#{key}"/ }

  permanent_of_its_own = Class.new(StandardError) { def permanent? = true }
  transient_of_its_own = Class.new(Prosody::PermanentError) { def permanent? = false }
  confused = Class.new(StandardError) { def permanent? = raise("confused") }

  odd = Class.new(Prosody::EventHandlerError) { def self.to_s = "Odd" }
  raises_when_looked_at = lambda do |method, error|
    Class.new(StandardError) do
      define_singleton_method(:to_s) { "Odd" }
      define_method(method) { raise error, "when looked at" }
    end
  end

  describe "permanently" do
    {
      "PermanentError" => -> { raise Prosody::PermanentError, "told so" },
      "an error that answers permanent?" => -> { raise permanent_of_its_own, "told so" }
    }.each do |name, failure|
      %i[pipeline best_effort].each do |mode|
        it "is not run again; the log says with coordinates what was raised: #{name}, #{mode}" do
          attempts = 0
          got = Thread::Queue.new
          consume(mode: mode) do |_, message|
            attempts += 1
            message.payload ? got << message.payload : failure.call
          end
          produce("k", nil)
          produce("k", "next")

          expect(pop(got)).to eq("next")
          expect(attempts).to eq(2)
          expect(log.wait_for(/permanent failure.*topic=#{topic}/)).to match(/\AERROR .*told so .*failure_spec\.rb/)
            .and match(coordinates.call(topic, 0, "k")).and match(/attempts=1/)
        end
      end
    end

    it "leaves nothing of its state behind" do
      count = Prosody.value("count")
      got = Thread::Queue.new
      consume(state_collections: count) do |context, message|
        state = context.state(count)
        got << state.get
        state.set(message.payload)
        raise Prosody::PermanentError if message.payload == 1
      end
      produce("k", 1)
      produce("k", 2)
      produce("k", 3)

      expect(pops(got, 3)).to eq([nil, nil, 2])
    end

    it "leaves no mark: the same id may come again" do
      got = Thread::Queue.new
      consume do |_, message|
        got << message.offset
        raise Prosody::PermanentError if message.offset == 0
      end
      3.times { produce("k", {"id" => 1}) }
      produce("k", {"id" => 2})

      expect(pops(got, 3)).to eq([0, 1, 3])
    end

    it "is what a classification makes of it, with the original as cause" do
      got = Thread::Queue.new
      handler = Class.new(Prosody::EventHandler) do
        permanent :on_message, KeyError
        define_method(:on_message) { |_, message| got << message.payload.fetch("there") }
      end
      consumer.subscribe(handler.new)
      produce("k", {})
      produce("k", {"there" => 1})

      expect(pop(got)).to eq(1)
      expect(log.wait_for(/permanent failure.*topic=#{topic}/)).to match(/Prosody::PermanentError: key not found: "there"/)
    end
  end

  describe "transiently" do
    {
      "StandardError" => -> { raise "no" },
      "TransientError" => -> { raise Prosody::TransientError, "no" },
      "an error that answers permanent? with false" => -> { raise transient_of_its_own, "no" },
      "an error whose permanent? raises" => -> { raise confused, "no" },
      "ScriptError" => -> { raise NotImplementedError, "no" },
      "SystemStackError" => -> { (deeper = ->(number) { deeper.call(number + 1) + 1 }).call(0) },
      "NoMemoryError" => -> { raise NoMemoryError, "no" },
      "Exception" => -> { raise Exception, "no" }, # standard:disable Lint/RaiseException
      "throw" => -> { throw :nowhere },
      "StopIteration" => -> { raise StopIteration },
      "Async::Stop of its own" => -> { raise Async::Stop },
      "the end of its thread" => -> { Thread.current.kill },
      "an error whose message raises" => -> { raise Class.new(StandardError) { def message = raise("no") } },
      "an error of another encoding" => -> { raise "\xFF\xFE".b + "x".encode("UTF-16LE").b }
    }.each do |name, failure|
      it "is run again in place until it succeeds: #{name}" do
        attempts = 0
        got = Thread::Queue.new
        consume do |_, message|
          failure.call if message.payload == "fails" && (attempts += 1) < 3
          got << message.payload
        end
        produce("k", "fails")
        produce("k", "next")

        expect(pops(got, 2)).to eq(%w[fails next])
        expect(attempts).to eq(3)
        expect(log.wait_for_count(/message is retried in.*topic=#{topic}/, 2)).to all(match(/\AWARN /).and(match(coordinates.call(topic, 0, "k"))))
      end

      it "is logged and done in best_effort mode: #{name}" do
        attempts = 0
        got = Thread::Queue.new
        consume(mode: :best_effort) do |_, message|
          if message.payload == "fails"
            attempts += 1
            failure.call
          end
          got << message.payload
        end
        produce("k", "fails")
        produce("k", "next")

        expect(pop(got)).to eq("next")
        expect(attempts).to eq(1)
        expect(log.wait_for(/transient failure, message is done.*topic=#{topic}/)).to match(coordinates.call(topic, 0, "k"))
      end
    end

    it "waits longer from attempt to attempt, from base to max_retry_delay" do
      attempts = 0
      got = Thread::Queue.new
      consume(retry_base: 0.01, max_retry_delay: 0.04) do
        raise "no" if (attempts += 1) < 6
        got << true
      end
      produce("k", 1)
      pop(got)
      delays = log.wait_for_count(/is retried in.*topic=#{topic}/, 5).map { |line| line[/retried in ([\d.]+)/, 1].to_f }

      expect(delays).to match([be_between(0.005, 0.01), be_between(0.01, 0.02), *[be_between(0.02, 0.04)] * 3])
    end

    it "has state errors in best_effort mode too" do
      got = Thread::Queue.new
      consume(mode: :best_effort, state_collections: Prosody.value("v")) do |context, message|
        context.state(Prosody.value("v")).set(nil) unless message.payload
        got << message.payload
      end
      produce("k", nil)
      produce("k", "next")

      expect(pop(got)).to eq("next")
      expect(log.wait_for(/transient failure, message is done.*topic=#{topic}/)).to match(/NullValueError/)
    end
  end

  it "by ending its thread has its thread replaced; handlers that ran there run again" do
    started, handled = Array.new(2) { Thread::Queue.new }
    killed = false
    consume do |_, message|
      started << message.payload
      case message.payload
      when "waits" then sleep(killed ? 0 : 60)
      when "kills" then killed ? nil : (killed = true) && Thread.current.kill
      end
      handled << message.payload
    end
    produce("a", "waits")
    expect(pop(started)).to eq("waits")
    produce("b", "kills")

    expect(pops(handled, 2)).to contain_exactly("waits", "kills")
    log.wait_for(/the thread of the handlers has ended, another one takes over/)
  end

  describe "with an error that raises when it is looked at" do
    {
      "a class without permanent? of its own" => odd,
      "permanent? with a StandardError" => raises_when_looked_at.call(:permanent?, ArgumentError),
      "permanent? with another Exception" => raises_when_looked_at.call(:permanent?, NotImplementedError),
      "message" => raises_when_looked_at.call(:message, NotImplementedError),
      "backtrace" => raises_when_looked_at.call(:backtrace, NotImplementedError),
      "class" => raises_when_looked_at.call(:class, NotImplementedError)
    }.each do |name, error|
      it "fails transiently; other handlers are not disturbed; the log names the class: #{name}" do
        started, handled, go_on = Array.new(3) { Thread::Queue.new }
        consume(mode: :best_effort) do |_, message|
          started << message.key
          if message.key == "waits"
            go_on.pop
            handled << message.key
          elsif message.payload == 1
            raise error
          else
            handled << message.key
          end
        end
        produce("waits", 1)
        pop(started)
        2.times { |number| produce("fails", number + 1) }

        expect(pop(handled)).to eq("fails")
        expect(log.wait_for(/transient failure, message is done.*topic=#{topic}/)).to match(/ Odd: /).and match(/offset=\d+ key="fails"/)
        go_on << true
        expect(pop(handled)).to eq("waits")
        # Nobody was started again.
        expect(pops(started, 2)).to eq(%w[fails fails])
        expect(started).to be_empty
      end
    end
  end

  describe "in one of its child tasks" do
    %i[pipeline best_effort].each do |mode|
      it "so that the thread of all handlers ends: all of them are handled again, none is done because of it (#{mode})" do
        started, handled = Array.new(2) { Thread::Queue.new }
        first = true
        keys = %w[a b c]
        consume(mode: mode) do |_, message|
          started << message.key
          if first
            sleep(60) unless message.key == "fails"
            Async do |task|
              first = false
              task.yield
              raise NoMemoryError, "no"
            end
            sleep(60)
          end
          handled << message.key
        end
        keys.each { |key| produce(key, 1) }
        expect(pops(started, 3)).to match_array(keys)
        produce("fails", 1)

        expect(pops(handled, 4)).to contain_exactly("fails", *keys)
        expect(log.wait_for(/raised NoMemoryError, which ends the thread of all handlers: no/)).to start_with("ERROR")
        expect(log.grep(/message is done/)).to be_empty
      end
    end
  end
end
