# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe Prosody::Configuration do
  def resolve(options = {}, env = {})
    described_class.resolve(options, env: env)
  end

  def problems(options = {}, env = {})
    resolve(options, env)
    []
  rescue ArgumentError => error
    lines = error.message.lines(chomp: true)
    (lines.size > 1) ? lines.drop(1).map { |line| line.delete_prefix("  - ") } : [error.message.delete_prefix("invalid configuration: ")]
  end

  let(:broker) { {bootstrap_servers: "localhost:9092"} }

  it "gives every option, frozen, in the order of the table" do
    values = resolve(broker)

    expect(values).to be_frozen
    expect(values.keys).to eq(described_class.const_get(:OPTIONS).keys)
    expect(values).to include(bootstrap_servers: ["localhost:9092"], mock: false, probe_port: 8000, telemetry_enabled: true, store: nil)
  end

  it "gives the same for options, keywords, a configuration and its own method" do
    options = {bootstrap_servers: "a:1", timeout: 5, kafka_config: {"linger.ms" => 1}, probe_port: false, state_collections: Prosody.map("m")}
    env = {"PROSODY_GROUP_ID" => "g", "PROSODY_PROBE_PORT" => "9"}
    expected = resolve(options, env)

    expect(described_class.resolve(env: env, **options)).to eq(expected)
    expect(described_class.resolve(described_class.new(options), env: env)).to eq(expected)
    expect(described_class.new(options).resolve(env: env)).to eq(expected)
    expect(described_class.resolve(described_class.new(options), timeout: 6, env: env)).to eq(expected.merge(timeout: 6.0))
    expect(expected).to include(group_id: "g", probe_port: nil)
  end

  it "reads the process's environment by default" do
    before = ENV["PROSODY_MAX_RETRIES"]
    ENV["PROSODY_MAX_RETRIES"] = "17"

    expect(described_class.resolve(broker)[:max_retries]).to eq(17)
    expect(described_class.new(broker).resolve[:max_retries]).to eq(17)
  ensure
    ENV["PROSODY_MAX_RETRIES"] = before
  end

  it "lists in one error what is wrong with options, environment and both together" do
    found = problems(
      {:max_concurrency => 0, "grup_id" => "g", :mode => :low_latency, :store => :local},
      {"PROSODY_TIMEOUT" => "30", "PROSODY_KAFKA_GROUP_ID" => "x", "PROSODY_BOOTSTRAP_SERVERS" => "a:0"}
    )

    expect(found).to contain_exactly(
      /\Amax_concurrency: got 0/, /\Agrup_id: no such option; did you mean group_id/, /\APROSODY_TIMEOUT: got "30", expected a number with its unit/,
      /\APROSODY_KAFKA_GROUP_ID: group.id is managed/, /\APROSODY_BOOTSTRAP_SERVERS: got "a:0", expected host or host:port/,
      /\Afailure_topic: missing; set the option or PROSODY_FAILURE_TOPIC/, /\Astore_dir: missing; set the option or PROSODY_STORE_DIR/
    )
  end

  it "draws no conclusions from what is invalid, but from what beats it" do
    expect(problems({**broker, mode: "fast"}, {"PROSODY_MODE" => "low_latency"})).to contain_exactly(/\Amode: got "fast"/)
    expect(problems({mock: "yes", store: :local})).to contain_exactly(/\Amock/)
    expect(problems({**broker, mode: :low_latency}, {"PROSODY_MODE" => "fast"})).to contain_exactly(/\APROSODY_MODE: got "fast"/, /\Afailure_topic/)
  end

  it "knows `none` only where something can be switched off" do
    expect(resolve(broker, {"PROSODY_GROUP_ID" => "none"})[:group_id]).to eq("none")
  end

  it "does not look at other variables" do
    expect(problems(broker, {"PROSODY_" => "x", "PROSODY_NONSENSE" => "y", "prosody_timeout" => "z"})).to be_empty
  end

  it "reads variables of any encoding" do
    expect(resolve(broker, {"PROSODY_GROUP_ID" => "caf\u00e9".b.force_encoding("US-ASCII")})[:group_id]).to eq("café")
  end

  describe "defaults that depend on other options" do
    it "makes timeout 80 % of stall_threshold" do
      expect(resolve({**broker, stall_threshold: 10})[:timeout]).to eq(8.0)
      expect(resolve(broker, {"PROSODY_STALL_THRESHOLD" => "100s"})[:timeout]).to eq(80.0)
      expect(resolve({**broker, stall_threshold: 10, timeout: 9})[:timeout]).to eq(9.0)
    end

    it "makes source_system the group_id" do
      expect(resolve(broker)[:source_system]).to be_nil
      expect(resolve(broker, {"PROSODY_GROUP_ID" => "g"})[:source_system]).to eq("g")
      expect(resolve({**broker, group_id: "g", source_system: nil}, {"PROSODY_SOURCE_SYSTEM" => "s"})[:source_system]).to eq("g")
      expect(resolve({**broker, group_id: "g", source_system: "s"})[:source_system]).to eq("s")
    end

    it "makes store cassandra where nodes are given, else none" do
      expect(resolve(broker)[:store]).to be_nil
      expect(resolve({**broker, cassandra_nodes: "a"})[:store]).to eq("cassandra")
      expect(resolve(broker, {"PROSODY_CASSANDRA_NODES" => "a,b"})[:store]).to eq("cassandra")
      expect(resolve({**broker, cassandra_nodes: "a", store: :memory})[:store]).to eq("memory")
      expect(resolve({**broker, cassandra_nodes: nil}, {"PROSODY_CASSANDRA_NODES" => "a"})[:store]).to be_nil
    end
  end

  describe "bootstrap_servers" do
    it "are required" do
      expect(problems).to contain_exactly("bootstrap_servers: missing; set the option or PROSODY_BOOTSTRAP_SERVERS, required unless mock is true")
      expect(problems({bootstrap_servers: nil}, {"PROSODY_BOOTSTRAP_SERVERS" => "a"})).to contain_exactly(/missing/)
      expect(problems({}, {"PROSODY_BOOTSTRAP_SERVERS" => ""})).to contain_exactly(/missing/)
    end

    it "are host or host:port" do
      %w[a a:1 a.b-c_d:65535 10.0.0.1:9092 [::1]:9092 [fe80::1%eth0] SSL://a:9092].each { |server| expect(problems({bootstrap_servers: server})).to be_empty }
      %w[a: a:0 a:65536 a:b :1 ::1 [] http://a:1/x a/b].each do |server|
        expect(problems({bootstrap_servers: server})).to contain_exactly(/\Abootstrap_servers: got #{Regexp.escape(server.inspect)}, expected host/)
      end
    end

    it "are asked for only once mock is known" do
      expect(problems({mock: "yes"})).to contain_exactly(/\Amock/)
      expect(problems({}, {"PROSODY_MOCK" => "maybe"})).to contain_exactly(/\APROSODY_MOCK/)
      expect(problems({bootstrap_servers: 5})).to contain_exactly(/\Abootstrap_servers: got 5/)
    end
  end

  describe "mock mode" do
    it "needs nothing else" do
      expect(resolve({mock: true})).to include(bootstrap_servers: ["mock"], store: "memory", probe_port: nil, telemetry_enabled: false)
      expect(resolve({}, {"PROSODY_MOCK" => "true"})).to include(mock: true, store: "memory")
    end

    it "takes any name, and what is asked for" do
      given = {mock: true, bootstrap_servers: "any log: at all", probe_port: 0, telemetry_enabled: true}

      expect(resolve(given)).to include(bootstrap_servers: ["any log: at all"], probe_port: 0, telemetry_enabled: true)
      expect(resolve({mock: true}, {"PROSODY_PROBE_PORT" => "9000"})[:probe_port]).to eq(9000)
    end

    it "ignores what the environment says about storage, malformed or not" do
      env = {"PROSODY_CASSANDRA_NODES" => "a:b:c", "PROSODY_CASSANDRA_REPLICATION" => "many", "PROSODY_CASSANDRA_KEYSPACE" => "k", "PROSODY_STORE" => "cassandra"}

      expect(resolve({mock: true}, env)).to include(store: "memory", cassandra_nodes: [], cassandra_keyspace: "prosody")
      expect(resolve({}, env.merge("PROSODY_MOCK" => "1"))).to include(store: "memory")
      expect(resolve({mock: true}, {"PROSODY_STORE" => "nonsense"})).to include(store: "memory")
      expect(problems({**broker, mock: false}, env.merge("PROSODY_MOCK" => "1")).size).to eq(2)
    end

    it "keeps its ledgers in memory" do
      expect(problems({mock: true, store: :memory})).to be_empty
      expect(problems({mock: true, store: nil})).to be_empty
      expect(problems({mock: true, store: :local, store_dir: "/x"})).to contain_exactly(/\Astore: got "local", expected "memory".*mock/)
      expect(problems({mock: true, store: :cassandra})).to contain_exactly(/\Astore: got "cassandra", expected "memory".*mock/)
    end

    it "reads the rest of the environment" do
      expect(problems({mock: true}, {"PROSODY_TIMEOUT" => "soon"})).to contain_exactly(/PROSODY_TIMEOUT/)
    end
  end

  describe "store" do
    it "requires store_dir when it is local" do
      expect(problems({**broker, store: :local})).to contain_exactly(/\Astore_dir: missing; set the option or PROSODY_STORE_DIR, required when store is local/)
      expect(problems(broker, {"PROSODY_STORE" => "LOCAL"})).to contain_exactly(/\Astore_dir/)
      expect(problems({**broker, store: :local}, {"PROSODY_STORE_DIR" => "/x"})).to be_empty
      expect(problems({**broker, store: :local, store_dir: ""})).to contain_exactly(/\Astore_dir: got ""/)
    end

    it "requires cassandra_nodes when it is cassandra" do
      expect(problems({**broker, store: :cassandra})).to contain_exactly(/\Acassandra_nodes: missing; set the option or PROSODY_CASSANDRA_NODES/)
      expect(problems({**broker, store: :cassandra, cassandra_nodes: []})).to contain_exactly(/\Acassandra_nodes: missing/)
      expect(problems({**broker, store: :cassandra, cassandra_nodes: "a"})).to be_empty
    end

    it "may be memory with a real broker" do
      expect(problems({**broker, store: :memory})).to be_empty
    end
  end

  it "requires failure_topic in low_latency mode only" do
    expect(problems({**broker, mode: :low_latency})).to contain_exactly(/\Afailure_topic: missing.*low_latency/)
    expect(problems(broker, {"PROSODY_MODE" => "low_latency"})).to contain_exactly(/\Afailure_topic/)
    expect(problems({**broker, mode: :low_latency, failure_topic: "f"})).to be_empty
    expect(problems({**broker, mode: :low_latency, failure_topic: "a b"})).to contain_exactly(/\Afailure_topic: got "a b"/)
    expect(problems({**broker, mode: :best_effort})).to be_empty
  end

  describe "collections" do
    def collection_error(options)
      resolve({mock: true, **options})
      nil
    rescue Prosody::PermanentStateError => error
      error.message
    end

    it "may not have the same name" do
      message = collection_error(state_collections: [Prosody.value("a"), Prosody.map("a"), Prosody.map("b")])

      expect(message).to match(/state_collections: the name "a" is there 2 times/)
      expect(message).not_to include('"b"')
    end

    it "must live longer than state_recovery_delay" do
      expect(collection_error(state_collections: [Prosody.value("a", ttl: 30)])).to match(/ttl of "a": got 30 s, expected more than state_recovery_delay \(30 s\)/)
      expect(collection_error(state_collections: [Prosody.value("a", ttl: 31), Prosody.value("b")])).to be_nil
      expect(collection_error(state_collections: [Prosody.value("a", ttl: 5)], state_recovery_delay: 4)).to be_nil
      expect(collection_error(state_collections: [Prosody.value("a", ttl: 4)], state_recovery_delay: 4)).to match(/4 s/)
    end

    it "are all listed" do
      message = collection_error(state_collections: [Prosody.value("a", ttl: 1), Prosody.map("a"), Prosody.map("b", ttl: 1)])
      expect(message.lines.size).to eq(4)
    end

    it "are looked at only if nothing else is wrong" do
      expect(problems({mock: true, timeout: 0, state_collections: [Prosody.value("a"), Prosody.value("a")]})).to contain_exactly(/\Atimeout/)
    end
  end
end
