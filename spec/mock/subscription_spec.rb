# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe "a subscription", :mock do
  nothing = Class.new(Prosody::EventHandler)

  describe "is refused" do
    def refusal(client, handler = handler {})
      client.subscribe(handler)
    rescue ArgumentError, NameError => error
      expect(client.consumer_state).not_to eq(:running)
      error
    end

    it "without group_id or topics, and says which" do
      neither = refusal(Prosody::Client.new(mock: true))
      expect(neither).to be_a(ArgumentError).and have_attributes(message: /group_id.*subscribed_topics/)
      expect(refusal(Prosody::Client.new(mock: true, group_id: "g"))).to have_attributes(message: /needs subscribed_topics/)
      expect(refusal(Prosody::Client.new(mock: true, subscribed_topics: "t"))).to have_attributes(message: /needs group_id/)
    end

    it "without a store, and says all ways out" do
      client = Prosody::Client.new(bootstrap_servers: "127.0.0.1:1", group_id: "g", subscribed_topics: "t")

      expect(refusal(client)).to be_a(ArgumentError)
        .and have_attributes(message: /store is not configured.*mock: true.*:memory.*:local.*cassandra_nodes/)
    end

    [{store: :local, store_dir: "/nonexistent"}, {store: :cassandra, cassandra_nodes: "127.0.0.1:1"},
      {cassandra_nodes: "127.0.0.1:1"}].each do |options|
      it "with #{options.keys.join(" and ")} until that store is there: never with memory instead" do
        client = Prosody::Client.new(bootstrap_servers: "127.0.0.1:1", group_id: "g", subscribed_topics: "t", **options)

        expect(refusal(client)).to be_a(ArgumentError)
          .and have_attributes(message: /store "(local|cassandra)" is not part of this version.*never falls back to memory/)
      end
    end

    it "with a handler that does not define on_message itself" do
      expect(refusal(consumer, nothing.new)).to be_a(ArgumentError).and have_attributes(message: /does not define on_message/)
      expect(refusal(consumer, Object.new)).to be_a(ArgumentError).and have_attributes(message: /Object has no method on_message/)
    end

    it "with a handler that classifies errors of a method that it does not define" do
      handler = Class.new(Prosody::EventHandler) do
        permanent :on_mesage, KeyError
        def on_message(context, message)
        end
      end

      expect(refusal(consumer, handler.new)).to be_a(NameError).and have_attributes(message: /on_mesage/)
    end

    it "with a pattern that brokers' topics are not matched by, although Ruby's are" do
      ["^(?=ahead)", "^orders-\\d+$", "^a+?"].each do |pattern|
        expect { consumer(subscribed_topics: pattern) }.to raise_error(ArgumentError, /POSIX extended/)
      end
      expect(consumer(subscribed_topics: '^orders\.[0-9]+$')).to be_a(Prosody::Client)
    end

    it "while the client is subscribed" do
      client = consume {}

      expect { client.subscribe(handler {}) }.to raise_error(ArgumentError, /subscribed already/)
      expect(client.consumer_state).to eq(:running)
    end
  end

  it "returns nil, and takes any object with on_message" do
    got = Thread::Queue.new
    plain = Object.new
    plain.define_singleton_method(:on_message) { |_context, message| got << message.payload }

    expect(consumer.subscribe(plain)).to be_nil
    produce("k", 5)
    expect(pop(got)).to eq(5)
  end

  it "gives a handler the first message soon after subscribe" do
    produce("k", 1)
    times = Array.new(5) do |number|
      got = Thread::Queue.new
      client = consumer(group_id: "#{group}-#{number}")
      taken = seconds do
        client.subscribe(handler { got << true })
        pop(got)
      end
      client.unsubscribe
      taken
    end

    # 50 ms are specified; a busy machine gets a second.
    expect(times.min).to be < 1
    puts format("      first message after %.1f ms (best of 5)", times.min * 1000) if ENV["VERBOSE"]
  end

  it "takes messages that were there before, and topics that match a pattern" do
    got = Thread::Queue.new
    produce("k", 1)
    consumer(subscribed_topics: "^#{topic}.*").subscribe(handler { |_, message| got << [message.topic, message.payload] })
    sender.send_message("#{topic}-late", "k", 2)

    expect(pops(got, 2)).to contain_exactly([topic, 1], ["#{topic}-late", 2])
  end

  describe "ends" do
    it "once, again and never subscribed: unsubscribe is idempotent" do
      client = consumer
      expect(client.unsubscribe).to be_nil
      client.subscribe(handler {})
      expect(client.unsubscribe).to be_nil
      expect(client.unsubscribe).to be_nil
    end

    it "and may start again, where it left off" do
      got = Thread::Queue.new
      client = consume { |_, message| got << message.payload }
      produce("k", 1)
      pop(got)
      client.unsubscribe
      produce("k", 2)
      client.subscribe(handler { |_, message| got << [:second, message.payload] })

      expect(pop(got)).to eq([:second, 2])
    end

    it "after running handlers have ended, of which should_cancel? turns true; no other handler starts" do
      started, saw, ended = Array.new(3) { Thread::Queue.new }
      client = consume(max_concurrency: 1) do |context, message|
        started << message.payload
        context.on_cancel
        saw << context.should_cancel?
        sleep 0.05 # what a handler still has to do
        ended << message.payload
      end
      3.times { |number| produce("k", number) }
      pop(started)
      client.unsubscribe

      expect([pop(saw), pop(ended), started.size, ended.size]).to eq([true, 0, 0, 0])
      again = Thread::Queue.new
      client.subscribe(handler { |_, message| again << message.payload })
      expect(pops(again, 2)).to eq([1, 2])
    end

    it "within shutdown_timeout + 1 s, with Async::Stop for handlers that wait, whose events are handled again" do
      started, stopped = Array.new(2) { Thread::Queue.new }
      client = consume(shutdown_timeout: 0.5) do
        started << true
        sleep(60)
      rescue Async::Stop
        stopped << true
        raise
      end
      produce("k", 1)
      pop(started)

      expect(seconds { client.unsubscribe }).to be_between(0.4, 2)
      expect(stopped.size).to eq(1)
      again = Thread::Queue.new
      client.subscribe(handler { |_, message| again << message.payload })
      expect(pop(again)).to eq(1)
    end

    it "within that time with a handler that never yields, whose thread is killed" do
      started = Thread::Queue.new
      running = 0
      client = consume(shutdown_timeout: 0.3) do
        started << true
        loop { running += 1 }
      end
      produce("k", 1)
      pop(started)

      expect(seconds { client.unsubscribe }).to be < 2
      expect(log.wait_for(/given up although 1 of its handlers/)).to include("topic=#{topic}", "offset=0")
      stands_at = running
      Thread.pass
      again = Thread::Queue.new
      client.subscribe(handler { |_, message| again << message.payload })
      expect([pop(again), running]).to eq([1, stands_at])
    end

    it "within that time with a handler that takes no Async::Stop for an answer" do
      started = Thread::Queue.new
      client = consume(shutdown_timeout: 0.3) do
        started << true
        begin
          loop { sleep 0.01 }
        rescue Async::Stop
          retry
        end
      end
      produce("k", 1)
      pop(started)

      expect(seconds { client.unsubscribe }).to be < 2
      expect(client.consumer_state).to eq(:configured)
    end

    it "not from a handler of the same client, which it would wait for" do
      errors = Thread::Queue.new
      client = consume do
        client.unsubscribe
      rescue => error
        errors << error
      end
      produce("k", 1)

      expect(pop(errors)).to be_a(Prosody::Error).and have_attributes(message: /from a handler of the same client/)
      expect(client.consumer_state).to eq(:running)
    end

    it "from a handler of another client" do
      got = Thread::Queue.new
      other = consume(group_id: "#{group}-other") {}
      consume { got << other.unsubscribe.inspect }
      produce("k", 1)

      expect(pop(got)).to eq("nil")
      expect(other.consumer_state).to eq(:configured)
    end
  end

  it "is emptied by reset_mock: what was there is gone, what comes is handled" do
    got = Thread::Queue.new
    consume { |_, message| got << [message.offset, message.payload] }
    produce("k", 1)
    pop(got)

    expect(Prosody.reset_mock).to be_nil
    produce("k", 2)
    expect(pop(got)).to eq([0, 2])
  end
end
