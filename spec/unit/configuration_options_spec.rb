# frozen_string_literal: true

require "pathname"
require_relative "../unit_helper"

RSpec.describe Prosody::Configuration do
  duration = {
    accepts: {30 => 30.0, 0.5 => 0.5, Rational(3, 2) => 1.5, 0.001 => 0.001, FakeDuration.new(300) => 300.0, 315_569_520 => 315_569_520.0},
    refuses: [0, -1, 0.0001, 315_569_521, Float::NAN, Float::INFINITY, Complex(1, 1), "30", true, Object.new],
    reads: {"500ms" => 0.5, "30s" => 30.0, "5m" => 300.0, "1h 30m" => 5400.0, "1h30m" => 5400.0, "7d" => 604_800.0,
            "1w" => 604_800.0, "1y" => 31_556_952.0, " 1.5s " => 1.5, ".5s" => 0.5, "2 m" => 120.0},
    malformed: ["30", "0", "0s", "-5s", "5 parsecs", "s", "5M", "1s 2s", "1h,30m", "11y", "1e3s", "", "  "],
    says: "1 ms"
  }
  from_second = duration.merge(
    accepts: {1 => 1.0, 1.5 => 1.5}, refuses: [0, 0.999, 315_569_521, "1"], reads: {"1s" => 1.0}, malformed: ["999ms", "1", ""], says: "1 s"
  )
  flag = {
    accepts: {true => true, false => false}, refuses: ["true", 1, :true], # standard:disable Lint/BooleanSymbol
    reads: {"true" => true, "TRUE" => true, "1" => true, "yes" => true, " Yes " => true, "false" => false, "0" => false, "No" => false},
    malformed: ["on", "2", "", "y"], says: "true or false"
  }
  count = ->(min, max = 2**31 - 1) {
    {accepts: {min => min, max => max}, refuses: [min - 1, max + 1, 1.5, 1.0, "5", true],
     reads: {min.to_s => min, " #{max} " => max, "007" => 7}, malformed: [(min - 1).to_s, (max + 1).to_s, "1.5", "1_0", "0x1", "many", ""],
     says: "Integer from #{min} to #{max}"}
  }
  ratio = ->(max) {
    {accepts: {0 => 0.0, max => max.to_f, 0.25 => 0.25, Rational(1, 4) => 0.25}, refuses: [-0.1, max + 0.1, Float::NAN, "0.5", true],
     reads: {"0" => 0.0, "0.25" => 0.25, ".5" => 0.5, "1e-1" => 0.1, max.to_s => max.to_f}, malformed: ["-0.1", (max + 1).to_s, "half", "50%", "NaN", ""],
     says: "number from 0 to #{max}"}
  }
  words = ->(*allowed) {
    {accepts: allowed.flat_map { |word| [[word, word], [word.to_sym, word]] }.to_h, refuses: ["other", :other, allowed.first.upcase, 1, true],
     reads: allowed.to_h { |word| [" #{word.upcase} ", word] }, malformed: ["other", ""], says: "one of #{allowed.join(", ")}"}
  }
  text = {
    accepts: {"abc" => "abc", "caf\u00e9".encode("ISO-8859-1") => "café", "caf\u00e9".b => "café"},
    refuses: ["", "a\0b", "\xff", :abc, 5, ["a"]], reads: {"abc" => "abc"}, malformed: ["\xff"], unset: ["", "  "], says: "non-empty String"
  }
  list = text.merge(
    accepts: {"a" => %w[a], "a, b" => %w[a b], %w[a b a] => %w[a b]},
    refuses: ["a,,b", "a,", [""], [:a], ["a", nil], 5, {a: 1}, "", ["a\0"]], reads: {"a , b" => %w[a b], "a" => %w[a]}, malformed: ["a,,b", "a,", ","], says: ""
  )
  topic = text.merge(
    accepts: {"orders.v1_x-Y" => "orders.v1_x-Y", "a" * 249 => "a" * 249}, refuses: ["", "a b", "a/b", "a\n", ".", "..", "a" * 250, "é", :orders],
    reads: {"orders" => "orders"}, malformed: ["a b"], says: "topic name"
  )
  path = text.merge(
    accepts: {"/tmp/x" => "/tmp/x", Pathname("/tmp/y") => "/tmp/y"}, refuses: ["", "a\0b", 5, :tmp],
    reads: {"/tmp/x" => "/tmp/x"}, says: "Pathname"
  )
  without_default = {unset: [], malformed: ["", " "]}

  # For each option its default and what it takes; `unset` are texts of the variable that mean "not set".
  options = {
    bootstrap_servers: [["mock"], list.merge(accepts: list[:accepts].merge("any name" => ["any name"]), refuses: list[:refuses] + [[]])],
    group_id: [nil, text],
    subscribed_topics: [[], list.merge(
      accepts: list[:accepts].merge([] => [], "^orders-.*" => ["^orders-.*"], ["^a{1,2}", "b"] => ["^a{1,2}", "b"]),
      refuses: list[:refuses] + ["a b", "^(", "^a{1,2}", "^a\\d", "^(?=a)", "^a+?", "^a*+", ["a,b"], [".."]], reads: {"a,^b.*" => ["a", "^b.*"]}, malformed: ["a b", "^(", "^a{1,2}", ","]
    )],
    allowed_events: [nil, list.merge(refuses: list[:refuses] + [[]])],
    source_system: [nil, text],
    mock: [true, flag],
    mode: ["pipeline", words.call("pipeline", "low_latency", "best_effort")],
    max_concurrency: [32, count.call(1)],
    max_uncommitted: [64, count.call(1)],
    timeout: [240.0, duration],
    commit_interval: [1.0, duration],
    poll_interval: [0.1, duration],
    shutdown_timeout: [30.0, duration.merge(
      accepts: duration[:accepts].merge(0 => 0.0), refuses: duration[:refuses] - [0, 0.0001], reads: {"0s" => 0.0}, malformed: ["0", "-1s"], says: "0 s"
    )],
    stall_threshold: [300.0, duration],
    probe_port: [nil, count.call(0, 65_535).merge(
      accepts: {0 => 0, 8000 => 8000, false => nil, :disabled => nil, "disabled" => nil, nil => nil}, refuses: [-1, 65_536, "8000", true, :off, 1.5],
      reads: {"none" => nil, "0" => 0, "8080" => 8080}, malformed: ["65536", "no", ""], says: "port from 0"
    )],
    failure_topic: [nil, topic],
    idempotence_cache_size: [8192, count.call(1).merge(says: "deduplication cannot be switched off")],
    idempotence_version: ["1", text.merge(accepts: {"2" => "2", 3 => "3"}, refuses: ["", 1.5, :two], reads: {"2" => "2"}, **without_default)],
    idempotence_field: ["id", text.merge(
      accepts: {"uuid" => "uuid", :uuid => "uuid", nil => nil}, refuses: ["", 5, "a\0"], reads: {"uuid" => "uuid", "none" => nil, "None" => "None"}, **without_default
    )],
    idempotence_ttl: [604_800.0, from_second],
    slab_size: [3600.0, from_second],
    message_spans: ["child", words.call("child", "follows_from")],
    timer_spans: ["follows_from", words.call("child", "follows_from")],
    state_spans: ["store", words.call("store", "all", "none")],
    send_timeout: [1.0, duration],
    max_retries: [3, count.call(0)],
    retry_base: [0.02, duration],
    max_retry_delay: [300.0, duration],
    defer_enabled: [true, flag],
    defer_base: [1.0, duration],
    defer_max_delay: [86_400.0, duration],
    defer_failure_threshold: [0.9, ratio.call(1)],
    defer_failure_window: [300.0, duration],
    defer_cache_size: [1024, count.call(1)],
    defer_store_cache_size: [8192, count.call(0)],
    defer_seek_timeout: [30.0, duration],
    defer_discard_threshold: [100, count.call(0)],
    monopolization_enabled: [true, flag],
    monopolization_threshold: [0.9, ratio.call(1)],
    monopolization_window: [300.0, duration],
    monopolization_cache_size: [8192, count.call(1)],
    scheduler_failure_weight: [0.3, ratio.call(1)],
    scheduler_max_wait: [120.0, duration],
    scheduler_wait_weight: [200.0, ratio.call(1_000_000)],
    scheduler_cache_size: [8192, count.call(1)],
    cassandra_nodes: [[], list.merge(
      accepts: {"a:9042,b" => %w[a:9042 b], ["[::1]:9042", "10.0.0.1"] => ["[::1]:9042", "10.0.0.1"], [] => []},
      refuses: ["a b", "a:0", "a:65536", "a:x", "::1", "[zz]:1", ":9042", "a,,b", [5]], reads: {"a:1, b" => %w[a:1 b]}, malformed: ["a:b", ","]
    )],
    cassandra_keyspace: ["prosody", text.merge(
      accepts: {"my_Keyspace1" => "my_Keyspace1"}, refuses: ["", "1a", "a-b", "a;b", "a" * 49, :a], reads: {"ks" => "ks"}, says: "at most 48", **without_default
    )],
    cassandra_user: [nil, text],
    cassandra_password: [nil, text],
    cassandra_datacenter: [nil, text],
    cassandra_rack: [nil, text],
    cassandra_retention: [31_556_952.0, from_second],
    cassandra_tls: [false, flag],
    cassandra_ca_file: [nil, path],
    cassandra_replication: [1, count.call(1)],
    state_cache_dir: [nil, path.merge(without_default)],
    state_cache_size_bytes: [67_108_864, count.call(1, 2**63 - 1)],
    state_recovery_delay: [30.0, from_second.merge(accepts: {1 => 1.0, 5.0 => 5.0}, refuses: [0, 1.5, 0.5, "1"], malformed: ["1500ms", ""], says: "whole seconds")],
    state_cache_disk_bytes: [1_073_741_824, count.call(1, 2**63 - 1)],
    telemetry_enabled: [false, flag],
    telemetry_topic: ["prosody.telemetry-events", topic.merge(without_default)],
    store: ["memory", words.call("memory", "local", "cassandra")],
    store_dir: [nil, path],
    store_sync: [false, flag]
  }
  variables = Hash.new { |_, name| "PROSODY_#{name.to_s.upcase}" }.merge(max_retry_delay: "PROSODY_RETRY_MAX_DELAY")

  # What other options an option needs to be accepted, and in which setting its variable is read.
  companions = Hash.new { |_, _| {mock: true} }
  companions[:mock] = {bootstrap_servers: "localhost"}
  companions[:store] = {bootstrap_servers: "localhost", store_dir: "/tmp/x", cassandra_nodes: "localhost"}
  companions[:mode] = {mock: true, failure_topic: "failed"}
  companions[:cassandra_nodes] = {bootstrap_servers: "localhost"}
  options.each_key { |name| companions[name] = {bootstrap_servers: "localhost"} if name.start_with?("cassandra_") }

  it "is all covered below" do
    known = described_class.const_get(:OPTIONS).keys
    expect(options.keys + %i[state_collections kafka_config]).to match_array(known)
  end

  def resolved(name, given, env)
    described_class.resolve(given, env: env).fetch(name)
  end

  options.each do |name, (default, cases)|
    describe "##{name}" do
      variable = variables[name]
      companion = companions[name]

      it "is #{default.inspect} by default, and when set to nil, in mock mode" do
        expect(resolved(name, {mock: true}, {})).to eql(default)
        expect(described_class.new.public_send(name)).to be_nil
        next if %i[idempotence_field mock].include?(name)

        env = {variable => cases[:reads].keys.first}
        expect(resolved(name, {:mock => true, name => nil}, env)).to eql(default)
      end

      it "is read back as it is kept" do
        cases[:accepts].each do |given, kept|
          configuration = described_class.new
          configuration.public_send(:"#{name}=", given)

          expect(configuration.public_send(name)).to eql(kept)
          expect(configuration.to_hash).to eq(name => kept)
          expect(described_class.new(name.to_s => given)).to eq(configuration)
          expect(described_class.new(configuration)).to eq(configuration)
        end
      end

      it "refuses what is not allowed, naming option, value and what is allowed" do
        cases[:refuses].each do |given|
          configuration = described_class.new

          expect { configuration.public_send(:"#{name}=", given) }
            .to raise_error(ArgumentError, /\Ainvalid configuration: #{name}: got .*expected .*#{Regexp.escape(cases[:says])}/m), "for #{given.inspect}"
          expect(configuration.to_hash).to eq({})
          expect { described_class.new(name => given) }.to raise_error(ArgumentError, /#{name}: got/)
        end
      end

      it "is read from #{variable}" do
        cases[:reads].each do |text, value|
          expect(resolved(name, companion, {variable => text})).to eql(value), "for #{text.inspect}"
        end
        cases.fetch(:unset, []).each do |text|
          expect(resolved(name, companion, {variable => text})).to eql(resolved(name, companion, {}))
        end
      end

      it "names #{variable} when it is malformed, even if the option is given" do
        given = cases[:accepts].to_a.first.first
        cases[:malformed].each do |text|
          [companion, companion.merge(name => given)].each do |explicit|
            expect { described_class.resolve(explicit, env: {variable => text}) }
              .to raise_error(ArgumentError, /#{variable}: (got|it|its)/), "for #{text.inspect}"
          end
        end
      end

      it "beats the variable" do
        given, kept = cases[:accepts].to_a.first
        expect(resolved(name, companion.merge(name => given), {variable => cases[:reads].keys.last})).to eql(kept)
      end
    end
  end
end
