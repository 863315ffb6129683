# frozen_string_literal: true

require "pp"
require "stringio"
require_relative "../unit_helper"

RSpec.describe Prosody::Configuration do
  def problem_of
    yield
    nil
  rescue ArgumentError, Prosody::Error => error
    error.message
  end

  describe ".new" do
    it "takes a Hash with Symbol or String keys, keywords, a Configuration and a block, a later one winning" do
      hash = described_class.new({"group_id" => "a", :mode => :best_effort}, group_id: "b") { |config| config.timeout = 5 }

      expect(hash.to_hash).to eq(group_id: "b", mode: "best_effort", timeout: 5.0)
      expect(described_class.new(hash, mode: nil).to_hash).to eq(group_id: "b", mode: nil, timeout: 5.0)
      expect(described_class.new.to_hash).to eq({})
      expect(described_class.new(nil).to_hash).to eq({})
    end

    it "lists everything that is wrong" do
      message = problem_of { described_class.new({:max_concurrency => 0, "timeuot" => 1}, mode: "fast", group_id: "ok") }

      expect(message).to start_with("invalid configuration, 3 problems:\n")
      expect(message.lines.drop(1)).to contain_exactly(
        a_string_including("max_concurrency: got 0, expected an Integer from 1"),
        a_string_including("timeuot: no such option; did you mean timeout?"),
        a_string_including('mode: got "fast", expected one of pipeline, low_latency, best_effort')
      )
    end

    it "does not mind a value that a later source overrides" do
      expect(described_class.new({"mode" => "fast"}, mode: "pipeline").mode).to eq("pipeline")
    end

    it "raises the first problem of a block at once" do
      seen = []
      expect {
        described_class.new do |config|
          config.mode = "fast"
          seen << :after
        end
      }.to raise_error(ArgumentError, /\Ainvalid configuration: mode: got "fast"/)
      expect(seen).to be_empty
    end

    it "refuses names that are no names, and sources that are no options" do
      expect { described_class.new({5 => 1}) }.to raise_error(ArgumentError, /option name 5, expected a Symbol or a String/)
      expect { described_class.new("group") }.to raise_error(ArgumentError, /got a String, expected a Hash of options or a Prosody::Configuration/)
    end

    it "has no method for an unknown option" do
      expect { described_class.new { |config| config.max_concurency = 1 } }.to raise_error(NoMethodError)
    end

    it "knows the nearest name without DidYouMean, and none for what is like nothing" do
      hide_const("DidYouMean")

      expect(problem_of { described_class.new(max_concurency: 1) }).to include("did you mean max_concurrency?")
      expect(problem_of { described_class.new(MODE: 1) }).to include("did you mean mode?")
      expect(problem_of { described_class.new(qqqqqqqqqqqq: 1) }).to include("Prosody::Configuration names them all")
    end
  end

  describe "a value that is long" do
    it "is cut in the message" do
      expect(problem_of { described_class.new(mode: "x" * 10_000) }.length).to be < 300
    end
  end

  describe "as an object" do
    let(:configuration) { described_class.new(group_id: "a", timeout: nil) }

    it "is equal by what was set" do
      expect(configuration).to eq(described_class.new(timeout: nil, group_id: "a"))
      expect(configuration).to eql(described_class.new(timeout: nil, group_id: "a"))
      expect(configuration.hash).to eq(described_class.new(timeout: nil, group_id: "a").hash)
      expect(configuration).not_to eq(described_class.new(group_id: "a"))
      expect(configuration).not_to eq(configuration.to_hash)
    end

    it "gives away no way to change it but its writers" do
      configuration.to_hash[:group_id] = "b"
      copy = configuration.dup
      copy.group_id = "c"

      expect(configuration.group_id).to eq("a")
      expect(copy.group_id).to eq("c")
      expect(described_class.new(subscribed_topics: ["a"]).subscribed_topics).to be_frozen
    end

    it "is a Hash where one is asked for" do
      expect({**configuration}).to eq(group_id: "a", timeout: nil)
      expect(configuration.to_h).to eq(configuration.to_hash)
    end
  end

  describe "secrets" do
    let(:secret) { "hunter2" }

    it "are not in inspect, to_s and pp" do
      configuration = described_class.new(cassandra_password: secret, cassandra_user: "me", kafka_config: {
        "sasl.password" => secret, "ssl.key.password" => secret, "ssl.key.pem" => secret, "sasl.jaas.config" => secret,
        "sasl.oauthbearer.client.secret" => secret, "sasl.oauthbearer.config" => secret, "security.protocol" => "ssl"
      })

      [configuration.inspect, configuration.to_s, PP.pp(configuration, +"")].each do |shown|
        expect(shown).not_to include(secret)
        expect(shown).to include('cassandra_user="me"', "cassandra_password=[redacted]", '"security.protocol"=>"ssl"')
      end
      expect(described_class.new(cassandra_password: nil).inspect).to eq("#<Prosody::Configuration cassandra_password=nil>")
    end

    it "are in no error" do
      given = {cassandra_password: [secret], kafka_config: "sasl.password=#{secret}", group_id: 5}
      expect(problem_of { described_class.new(given) }).to include("group_id").and not_including(secret)
      expect(problem_of { described_class.new(kafka_config: {"sasl.password" => [secret]}) }).to not_including(secret)
      expect(problem_of { described_class.new(cassandra_nodes: "me:#{secret}@host") }).to not_including(secret)

      env = {"PROSODY_CASSANDRA_PASSWORD" => "#{secret}\xff", "PROSODY_KAFKA_SASL_PASSWORD" => "#{secret}\xff", "PROSODY_KAFKA_ACKS" => secret}
      expect(problem_of { described_class.resolve({bootstrap_servers: "u:#{secret}@host"}, env: env) })
        .to include("PROSODY_CASSANDRA_PASSWORD", "PROSODY_KAFKA_SASL_PASSWORD", "PROSODY_KAFKA_ACKS", "bootstrap_servers")
        .and not_including(secret)
    end
  end

  RSpec::Matchers.define_negated_matcher :not_including, :include

  describe "#kafka_config" do
    it "keeps properties as Strings" do
      configuration = described_class.new(kafka_config: {
        :"security.protocol" => :ssl, "linger.ms" => 0, "enable.gapless.guarantee" => true, "x_y.z" => 1.5
      })

      expect(configuration.kafka_config)
        .to eq("security.protocol" => "ssl", "linger.ms" => "0", "enable.gapless.guarantee" => "true", "x_y.z" => "1.5")
      expect(configuration.kafka_config).to be_frozen
    end

    %w[bootstrap.servers metadata.broker.list group.id enable.auto.commit enable.auto.offset.store enable.idempotence acks
      request.required.acks partition.assignment.strategy].each do |property|
      it "refuses #{property} by name, from options and environment" do
        expect { described_class.new(kafka_config: {property => "x"}) }
          .to raise_error(ArgumentError, /kafka_config: #{Regexp.escape(property)} is managed by prosody and cannot be set; /)
        variable = "PROSODY_KAFKA_#{property.upcase.tr(".", "_")}"
        expect { described_class.resolve({mock: true}, env: {variable => "x"}) }
          .to raise_error(ArgumentError, /#{variable}: #{Regexp.escape(property)} is managed by prosody/)
      end
    end

    it "refuses them as Symbol and in capitals too" do
      expect { described_class.new(kafka_config: {"Group.ID": "x"}) }.to raise_error(ArgumentError, /Group.ID is managed/)
    end

    it "refuses what is no Hash, no name and no value, each" do
      expect { described_class.new(kafka_config: [1]) }.to raise_error(ArgumentError, /kafka_config: got Array, expected a Hash/)
      message = problem_of { described_class.new(kafka_config: {"a b" => "1", 5 => "x", "c" => nil, "d" => Float::NAN, "e" => "a\0"}) }
      expect(message.lines.size).to eq(6)
      expect(message).to include('got the name "a b"', "got the name 5", "c: got NilClass", "d: got Float", "e: got String")
    end

    it "is read from PROSODY_KAFKA_*, property by property" do
      env = {"PROSODY_KAFKA_SECURITY_PROTOCOL" => "ssl", "PROSODY_KAFKA_SASL_PASSWORD" => " p ", "PROSODY_KAFKA_LINGER_MS" => "", "OTHER" => "1"}
      given = ->(options) { described_class.resolve({mock: true, **options}, env: env)[:kafka_config] }

      expect(given.call({})).to eq("security.protocol" => "ssl", "sasl.password" => " p ")
      expect(given.call({kafka_config: {"security.protocol" => "plaintext", "x" => 1}}))
        .to eq("security.protocol" => "plaintext", "sasl.password" => " p ", "x" => "1")
      expect(given.call({kafka_config: nil})).to eq({})
      expect(given.call({})).to be_frozen
    end

    it "has no variable of its own name: one warning says so" do
      log = StringIO.new
      Prosody.logger = Logger.new(log)
      env = {"PROSODY_KAFKA_CONFIG" => "a=b", "PROSODY_STATE_COLLECTIONS" => "x"}

      expect(described_class.resolve({mock: true}, env: env)).to include(kafka_config: {}, state_collections: [])
      expect(log.string.lines).to contain_exactly(/PROSODY_KAFKA_CONFIG is not read/, /PROSODY_STATE_COLLECTIONS is not read/)
    ensure
      Prosody.logger = nil
    end
  end

  describe "#state_collections" do
    let(:visits) { Prosody.value("visits") }

    it "takes definitions, hashes, to_state_config, one alone, and nil" do
      other = Struct.new(:to_state_config).new({"name" => "other", "kind" => "deque", "payload" => "json"})
      configuration = described_class.new(state_collections: [visits, visits.to_state_config.merge(name: "again"), other])

      expect(configuration.state_collections).to eq([visits, Prosody.value("again"), Prosody.deque("other")])
      expect(described_class.new(state_collections: visits).state_collections).to eq([visits])
      expect(described_class.new(state_collections: visits.to_state_config).state_collections).to eq([visits])
      expect(described_class.new(state_collections: nil).state_collections).to be_nil
      expect(described_class.resolve({mock: true, state_collections: nil}, env: {})[:state_collections]).to eq([])
      expect(described_class.resolve({mock: true}, env: {})[:state_collections]).to eq([])
    end

    it "lists everything that is wrong with them" do
      message = problem_of { described_class.new(state_collections: [visits, {name: "x"}, nil, "name"]) }

      expect(message.lines.drop(1)).to contain_exactly(/state_collections: .*"x": missing field/, /got NilClass/, /got String/)
    end
  end
end
