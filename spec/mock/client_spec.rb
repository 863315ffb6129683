# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe Prosody::Client, :mock do
  describe ".new" do
    it "takes a Hash, a Configuration or keywords" do
      hash = {mock: true, group_id: "g"}

      [described_class.new(hash), described_class.new(Prosody::Configuration.new(hash)), described_class.new(**hash)]
        .each { |client| expect(client.source_system).to eq("g") }
      expect(described_class.new(hash, group_id: "other").source_system).to eq("other")
    end

    it "lists everything that is wrong in one error" do
      expect { described_class.new(mock: true, max_concurrency: 0, timeout: -1, groupid: "g") }
        .to raise_error(ArgumentError, /max_concurrency.*timeout|timeout.*max_concurrency/m) { |error|
          expect(error.message).to include("groupid", "group_id")
        }
    end

    it "checks environment variables by name" do
      result = ruby(<<~RUBY, PROSODY_TIMEOUT: "soon", PROSODY_MODE: "fast")
        new_client
      RUBY

      expect(result.status.exitstatus).to eq(1)
      expect(result.output).to include("ArgumentError", "PROSODY_TIMEOUT", "PROSODY_MODE")
    end

    it "names PROSODY_LOG when it cannot be read" do
      result = ruby("new_client", PROSODY_LOG: "prosody=loud")

      expect(result.output).to match(/ArgumentError/).and match(/PROSODY_LOG is "prosody=loud"/)
    end

    it "refuses a collection that is there twice" do
      twice = [Prosody.value("count"), Prosody.value("count", ttl: 3600)]

      expect { described_class.new(mock: true, state_collections: twice) }.to raise_error(Prosody::PermanentStateError, /count/)
    end

    it "contacts nothing" do
      expect { described_class.new(bootstrap_servers: "127.0.0.1:1", group_id: group) }.not_to raise_error
    end
  end

  describe "#send_message" do
    it "returns nil, and has the message delivered as it was sent" do
      got = Thread::Queue.new
      consume { |_, message| got << [message.key, message.payload, message.headers] }

      expect(produce("k", {:symbol => :value, "list" => [1, 2.5, nil, true]}, headers: {"trace" => "a", "none" => nil})).to be_nil
      key, payload, headers = pop(got)
      expect(key).to eq("k")
      expect(payload).to eq("symbol" => "value", "list" => [1, 2.5, nil, true])
      expect(headers).to include("trace" => "a", "none" => nil)
    end

    [{}, [], "text", "", 0, -7, 2**80, 1.5, true, false, nil].each do |payload|
      it "sends #{payload.inspect}" do
        got = Thread::Queue.new
        consume { |_, message| got << [message.payload] }
        produce("k", payload)

        expect(pop(got)).to eq([payload])
      end
    end

    it "sends what responds to to_h or to_json" do
      got = Thread::Queue.new
      consume { |_, message| got << message.payload }
      produce("k", Struct.new(:a, :b).new(1, [2]))
      custom = Object.new
      def custom.to_json(*) = '{"made":"by hand"}'
      produce("k", {"inner" => custom})

      expect(pops(got, 2)).to eq([{"a" => 1, "b" => [2]}, {"inner" => {"made" => "by hand"}}])
    end

    it "says which header is wrong, and takes nothing else for a topic, key or headers" do
      expect { produce("k", 1, headers: {"n" => 1}) }.to raise_error(ArgumentError, /header "n" has a Integer/)
      expect { produce("k", 1, headers: []) }.to raise_error(ArgumentError, /headers is a Array/)
      expect { produce(:key, 1) }.to raise_error(ArgumentError, /key is :key \(Symbol\); expected a String or nil/)
      expect { sender.send_message(nil, "k", 1) }.to raise_error(ArgumentError, /topic is nil.*expected a String/)
    end

    it "does not send what JSON cannot represent" do
      cyclic = []
      cyclic << cyclic
      garbage = Object.new
      def garbage.to_json(*) = "{not json"
      [Float::NAN, Float::INFINITY, -Float::INFINITY, "\xFF", "\xFF".b, {"a" => ["\xC3"]}, {"\xFF" => 1}, {"\xE9".b => 1},
        (+"\xFF").force_encoding("US-ASCII"), cyclic, Object.new, BasicObject.new, [Object.new], garbage].each do |payload|
        expect { produce("k", payload) }
          .to raise_error(ArgumentError, /payload of a message to topic "#{topic}", key "k" cannot be sent as JSON: ./)
      end
    end

    it "sends topic and key of another encoding as UTF-8, and refuses what cannot be that" do
      got = Thread::Queue.new
      consume { |_, message| got << [message.topic, message.key] }
      sender.send_message(topic.encode("UTF-16LE"), "\u00E9".encode("ISO-8859-1"), 1)

      expect(pop(got)).to eq([topic, "\u00E9"])
      ["\xFF", "\xFF".b, (+"\x00").force_encoding("UTF-16LE")].each do |text|
        expect { produce(text, 1) }.to raise_error(ArgumentError, /key .* is not UTF-8/)
        expect { sender.send_message(text, "k", 1) }.to raise_error(ArgumentError, /topic .* is not UTF-8/)
        expect { sender.send_tombstone(topic, text) }.to raise_error(ArgumentError, /key .* is not UTF-8/)
      end
    end

    it "does not send what has a to_json that is not implemented, nor keeps it as state" do
      value = Object.new
      def value.to_json(*) = raise(NotImplementedError, "not yet")
      expect { produce("k", value) }.to raise_error(ArgumentError, /NotImplementedError: not yet/)

      definition = Prosody.value("v")
      errors = Thread::Queue.new
      consume(state_collections: definition) do |context, _|
        context.state(definition).set(value)
      rescue Prosody::TransientStateError => error
        errors << error.message
      end
      produce("k", 1)
      expect(pop(errors)).to match(/NotImplementedError: not yet/)
    end

    it "is refused with the reason: too large a payload, a topic that cannot be" do
      expect { produce("k", "x" * 1_000_000) }.to raise_error(Prosody::Error, /1000003 bytes.*more than 1000000/)
      expect { sender.send_message("no spaces", "k", 1) }.to raise_error(Prosody::Error, /no spaces/)
    end
  end

  describe "#send_tombstone" do
    it "sends a record without value" do
      got = Thread::Queue.new
      consume { |_, message| got << [message.payload, message.headers["why"]] }

      expect(sender.send_tombstone(topic, "k", headers: {"why" => "gone"})).to be_nil
      expect(pop(got)).to eq([nil, "gone"])
    end
  end

  describe "#source_system" do
    it "is the group, unless given; without both there is none" do
      expect(described_class.new(mock: true, group_id: "g").source_system).to eq("g")
      expect(described_class.new(mock: true, group_id: "g", source_system: "s").source_system).to eq("s")
      expect(described_class.new(mock: true).source_system).to be_nil
    end

    it "is a header of what is sent" do
      got = Thread::Queue.new
      consume { |_, message| got << message.headers["source-system"] }
      produce("k", 1)
      described_class.new(mock: true, source_system: "billing").send_message(topic, "k", 2)

      expect(pops(got, 2)).to eq([nil, "billing"])
    end
  end

  describe "#consumer_state" do
    it "is :unconfigured, :configured or :running" do
      expect(described_class.new(mock: true).consumer_state).to eq(:unconfigured)
      client = consumer
      expect(client.consumer_state).to eq(:configured)
      client.subscribe(handler {})
      expect(client.consumer_state).to eq(:running)
      client.unsubscribe
      expect(client.consumer_state).to eq(:configured)
    end
  end

  describe "#assigned_partitions" do
    it "counts the partitions, which members of a group share" do
      got = Thread::Queue.new
      client = consume { |_, message| got << message.payload }
      produce("k", 1)
      pop(got)
      expect(client.assigned_partitions).to eq(4)

      other = consume { |_, message| got << message.payload }
      log.wait_for_count(/assigned: /, 2)
      expect([client, other].sum(&:assigned_partitions)).to be <= 4
      client.unsubscribe
      expect(client.assigned_partitions).to eq(0)
    end
  end

  describe "#is_stalled?" do
    it "is true while a partition's events do not end for stall_threshold" do
      started, go_on = Array.new(2) { Thread::Queue.new }
      client = consume(stall_threshold: 0.2, timeout: 30) do |_, message|
        started << message
        go_on.pop
      end
      expect(client.is_stalled?).to be(false)
      produce("k", 1)
      message = pop(started)
      log.wait_for(/partition is stalled.*topic=#{topic} partition=#{message.partition} offset=0/)
      expect([client.is_stalled?, client.stalled?]).to eq([true, true])
      go_on << true
      produce("k", 2)
      pop(started)
      expect(client.stalled?).to be(false)
      go_on << true
    end
  end

  describe "#inspect" do
    it "says what the client is doing, and no secret" do
      client = described_class.new(mock: true, group_id: "g", cassandra_password: "hidden", kafka_config: {"sasl.password" => "hidden"})

      expect(client.inspect).to eq('#<Prosody::Client unconfigured group_id="g">')
    end
  end
end
