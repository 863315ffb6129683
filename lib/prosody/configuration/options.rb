# frozen_string_literal: true

require_relative "option"
require_relative "types"
require_relative "duration"
require_relative "kafka_properties"

module Prosody
  # The table of options. Each has a reader, which gives what was set (nil if nothing was), and a writer,
  # which raises ArgumentError for what is not allowed. The environment variable is `PROSODY_` and the name
  # in upper case, where nothing else is said.
  class Configuration
    OPTIONS = {}
    private_constant :OPTIONS

    TOPIC_EXPECTED = "a topic name of letters, digits, `.`, `_` and `-`, at most 249 characters"
    TOPIC = Types::Text.new(TOPIC_EXPECTED, pattern: Types::TopicPattern::NAME)
    KEYSPACE = Types::Text.new("a letter, then letters, digits and `_`, at most 48", pattern: /\A[a-zA-Z][a-zA-Z0-9_]{0,47}\z/)
    ENDPOINT = Types::Endpoint.new
    SPAN_RELATION = Types::Enumeration.new("child", "follows_from")
    BYTES = Types::Count.new(1, max: 9_223_372_036_854_775_807)
    KAFKA_TYPE = Types::KafkaProperties.new
    COLLECTIONS = Types::Collections.new
    DEFAULT_STORE = lambda do |values|
      next "memory" if values[:mock]

      "cassandra" unless values[:cassandra_nodes].empty?
    end
    private_constant :TOPIC_EXPECTED, :TOPIC, :KEYSPACE, :ENDPOINT, :SPAN_RELATION, :BYTES, :KAFKA_TYPE, :COLLECTIONS, :DEFAULT_STORE

    def self.option(name, type, **settings)
      option = Option.new(name, type, **settings)
      OPTIONS[name] = option
      define_method(name) { @values[name] }
      define_method(:"#{name}=") do |value|
        # @type self: Configuration
        write(option, value)
      end
    end
    private_class_method :option

    # @!group Core

    # @!attribute [rw] bootstrap_servers
    #   Kafka's brokers as `host:port`, an Array or a comma-separated String. Required unless {#mock}; in
    #   mock mode any name, and the clients of a process with the same name share one log.
    #   @return [Array<String>, nil]
    option :bootstrap_servers, Types::List.new(Types::Text.new, empty: false), default: ->(values) { ["mock"] if values[:mock] }, blank: :unset

    # @!attribute [rw] group_id
    #   The consumer group. Required to consume.
    #   @return [String, nil]
    option :group_id, Types::Text.new, blank: :unset

    # @!attribute [rw] subscribed_topics
    #   Topics to consume, an Array or a comma-separated String. A leading `^` makes a regular expression;
    #   one that contains a comma needs an Array.
    #   @return [Array<String>, nil]
    option :subscribed_topics, Types::List.new(Types::TopicPattern.new), default: [].freeze, blank: :unset

    # @!attribute [rw] allowed_events
    #   Prefixes of the payload's `type`: messages of other types are skipped, those without `type` always
    #   pass. All pass by default.
    #   @return [Array<String>, nil]
    option :allowed_events, Types::List.new(Types::Text.new, empty: false), blank: :unset

    # @!attribute [rw] source_system
    #   The `source-system` header of what is sent; {#group_id} by default. Without both no header is sent.
    #   @return [String, nil]
    option :source_system, Types::Text.new, default: ->(values) { values[:group_id] }, blank: :unset

    # @!attribute [rw] mock
    #   In-process log and memory store: nothing else is needed or contacted. Off by default.
    #   @return [Boolean, nil]
    option :mock, Types::Flag.new, default: false

    # @!attribute [rw] mode
    #   What becomes of failures: `pipeline` (default) retries for ever, `low_latency` gives up into
    #   {#failure_topic}, `best_effort` logs.
    #   @return [String, nil]
    option :mode, Types::Enumeration.new("pipeline", "low_latency", "best_effort"), default: "pipeline"

    # @!attribute [rw] kafka_config
    #   Further properties of librdkafka. In the environment each has a variable of its own,
    #   `PROSODY_KAFKA_` and the property in upper case with `_` for `.`; an option beats the variable
    #   property by property, nil clears all. A property whose name contains `_` itself can be given here
    #   only. Properties that prosody manages are refused.
    #   @return [Hash{String => String}, nil]
    option :kafka_config, KAFKA_TYPE, default: {}.freeze, variable: nil, secret: true

    # @!group Consumer

    # @!attribute [rw] max_concurrency
    #   How many events are handled at once. 32 by default.
    #   @return [Integer, nil]
    option :max_concurrency, Types::Count.new(1), default: 32

    # @!attribute [rw] max_uncommitted
    #   How many events of a partition are taken and not finished, at most. 64 by default.
    #   @return [Integer, nil]
    option :max_uncommitted, Types::Count.new(1), default: 64

    # @!attribute [rw] timeout
    #   Seconds that a handler may take. 80 % of {#stall_threshold} by default.
    #   @return [Float, nil]
    option :timeout, Types::Duration.new, default: ->(values) { values[:stall_threshold] * 0.8 }

    # @!attribute [rw] commit_interval
    #   Seconds between commits of offsets. 1 by default.
    #   @return [Float, nil]
    option :commit_interval, Types::Duration.new, default: 1.0

    # @!attribute [rw] poll_interval
    #   The longest wait of one poll, in seconds. 0.1 by default.
    #   @return [Float, nil]
    option :poll_interval, Types::Duration.new, default: 0.1

    # @!attribute [rw] shutdown_timeout
    #   Seconds that running handlers have at shutdown and revocation; may be 0. 30 by default.
    #   @return [Float, nil]
    option :shutdown_timeout, Types::Duration.new(min: 0), default: 30.0

    # @!attribute [rw] stall_threshold
    #   Seconds without progress after which a partition counts as stalled. 300 by default.
    #   @return [Float, nil]
    option :stall_threshold, Types::Duration.new, default: 300.0

    # @!attribute [rw] probe_port
    #   Port of the probe server, 0 for any free one; nil, false, :disabled, or `none` in the environment,
    #   for no server. 8000 by default, none in mock mode.
    #   @return [Integer, nil]
    option :probe_port, Types::Port.new, default: ->(values) { values[:mock] ? nil : 8000 }, off: true

    # @!attribute [rw] failure_topic
    #   Where messages go that failed for good. Required in low_latency mode.
    #   @return [String, nil]
    option :failure_topic, TOPIC, blank: :unset

    # @!attribute [rw] idempotence_cache_size
    #   How many handled ids are held in memory. 8192 by default.
    #   @return [Integer, nil]
    option :idempotence_cache_size, Types::Count.new(1, why: "deduplication cannot be switched off"), default: 8192

    # @!attribute [rw] idempotence_version
    #   A changed one makes every earlier mark invalid. "1" by default.
    #   @return [String, nil]
    option :idempotence_version, Types::Version.new, default: "1"

    # @!attribute [rw] idempotence_field
    #   The payload's field that identifies a message; nil, or `none` in the environment, to go by position
    #   only. "id" by default.
    #   @return [String, nil]
    option :idempotence_field, Types::Text.new("a non-empty String, or nil for none", symbols: true), default: "id", off: true

    # @!attribute [rw] idempotence_ttl
    #   Seconds for which a handled id is remembered, at least 1. 7 days by default.
    #   @return [Float, nil]
    option :idempotence_ttl, Types::Duration.new(min: 1), default: 604_800.0

    # @!attribute [rw] slab_size
    #   Length of a slab of wake-up entries in seconds, at least 1. An hour by default.
    #   @return [Float, nil]
    option :slab_size, Types::Duration.new(min: 1), default: 3_600.0

    # @!attribute [rw] message_spans
    #   How the span of a message relates to its producer's: `child` (default) or `follows_from`.
    #   @return [String, nil]
    option :message_spans, SPAN_RELATION, default: "child"

    # @!attribute [rw] timer_spans
    #   How the span of a timer relates to the one that scheduled it: `follows_from` (default) or `child`.
    #   @return [String, nil]
    option :timer_spans, SPAN_RELATION, default: "follows_from"

    # @!attribute [rw] state_spans
    #   Which state calls get a span: `store` (default; those that reach the durable store), `all` or
    #   `none`.
    #   @return [String, nil]
    option :state_spans, Types::Enumeration.new("store", "all", "none"), default: "store"

    # @!group Producer

    # @!attribute [rw] send_timeout
    #   Seconds after which a send that was not acknowledged raises. 1 by default.
    #   @return [Float, nil]
    option :send_timeout, Types::Duration.new, default: 1.0

    # @!group Retry

    # @!attribute [rw] max_retries
    #   How often a message is retried in place in low_latency mode. 3 by default.
    #   @return [Integer, nil]
    option :max_retries, Types::Count.new(0), default: 3

    # @!attribute [rw] retry_base
    #   Seconds before the first retry; doubles with each. 0.02 by default.
    #   @return [Float, nil]
    option :retry_base, Types::Duration.new, default: 0.02

    # @!attribute [rw] max_retry_delay
    #   Longest wait between retries in seconds. 300 by default. Its environment variable is
    #   PROSODY_RETRY_MAX_DELAY.
    #   @return [Float, nil]
    option :max_retry_delay, Types::Duration.new, default: 300.0, variable: "PROSODY_RETRY_MAX_DELAY"

    # @!group Deferral

    # @!attribute [rw] defer_enabled
    #   Whether a failed key waits in the deferred queue while others go on (pipeline mode). On by default.
    #   @return [Boolean, nil]
    option :defer_enabled, Types::Flag.new, default: true

    # @!attribute [rw] defer_base
    #   Seconds before the first deferred retry; doubles with each. 1 by default.
    #   @return [Float, nil]
    option :defer_base, Types::Duration.new, default: 1.0

    # @!attribute [rw] defer_max_delay
    #   Longest wait between deferred retries in seconds. A day by default.
    #   @return [Float, nil]
    option :defer_max_delay, Types::Duration.new, default: 86_400.0

    # @!attribute [rw] defer_failure_threshold
    #   Failure rate, 0 to 1, from which no further message is deferred. 0.9 by default.
    #   @return [Float, nil]
    option :defer_failure_threshold, Types::Ratio.new(0, 1), default: 0.9

    # @!attribute [rw] defer_failure_window
    #   Seconds over which the failure rate is taken. 300 by default.
    #   @return [Float, nil]
    option :defer_failure_window, Types::Duration.new, default: 300.0

    # @!attribute [rw] defer_cache_size
    #   How many messages loaded for a retry are held in memory. 1024 by default.
    #   @return [Integer, nil]
    option :defer_cache_size, Types::Count.new(1), default: 1024

    # @!attribute [rw] defer_store_cache_size
    #   Accepted, without effect. 8192 by default.
    #   @return [Integer, nil]
    option :defer_store_cache_size, Types::Count.new(0), default: 8192

    # @!attribute [rw] defer_seek_timeout
    #   Seconds within which a deferred message must be found in Kafka. 30 by default.
    #   @return [Float, nil]
    option :defer_seek_timeout, Types::Duration.new, default: 30.0

    # @!attribute [rw] defer_discard_threshold
    #   How many messages are read past rather than sought over. 100 by default.
    #   @return [Integer, nil]
    option :defer_discard_threshold, Types::Count.new(0), default: 100

    # @!group Monopolization

    # @!attribute [rw] monopolization_enabled
    #   Whether a key that takes most of the time is deferred (pipeline mode). On by default.
    #   @return [Boolean, nil]
    option :monopolization_enabled, Types::Flag.new, default: true

    # @!attribute [rw] monopolization_threshold
    #   Share of the window, 0 to 1, from which a key counts as monopolizing. 0.9 by default.
    #   @return [Float, nil]
    option :monopolization_threshold, Types::Ratio.new(0, 1), default: 0.9

    # @!attribute [rw] monopolization_window
    #   Seconds over which the share is taken. 300 by default.
    #   @return [Float, nil]
    option :monopolization_window, Types::Duration.new, default: 300.0

    # @!attribute [rw] monopolization_cache_size
    #   How many keys are watched. 8192 by default.
    #   @return [Integer, nil]
    option :monopolization_cache_size, Types::Count.new(1), default: 8192

    # @!group Fair scheduling

    # @!attribute [rw] scheduler_failure_weight
    #   Share of time that retries get, 0 to 1. 0.3 by default.
    #   @return [Float, nil]
    option :scheduler_failure_weight, Types::Ratio.new(0, 1), default: 0.3

    # @!attribute [rw] scheduler_max_wait
    #   Seconds of waiting at which an event's urgency is at its highest. 120 by default.
    #   @return [Float, nil]
    option :scheduler_max_wait, Types::Duration.new, default: 120.0

    # @!attribute [rw] scheduler_wait_weight
    #   How much waiting counts against time used, 0 to 1,000,000. 200 by default.
    #   @return [Float, nil]
    option :scheduler_wait_weight, Types::Ratio.new(0, 1_000_000), default: 200.0

    # @!attribute [rw] scheduler_cache_size
    #   Of how many keys the virtual time is remembered. 8192 by default.
    #   @return [Integer, nil]
    option :scheduler_cache_size, Types::Count.new(1), default: 8192

    # @!group Cassandra

    # @!attribute [rw] cassandra_nodes
    #   Contact points as `host:port`, an Array or a comma-separated String.
    #   @return [Array<String>, nil]
    option :cassandra_nodes, Types::List.new(ENDPOINT), default: [].freeze, blank: :unset

    # @!attribute [rw] cassandra_keyspace
    #   Letters, digits and `_`, at most 48. "prosody" by default.
    #   @return [String, nil]
    option :cassandra_keyspace, KEYSPACE, default: "prosody"

    # @!attribute [rw] cassandra_user
    #   Name to log in with.
    #   @return [String, nil]
    option :cassandra_user, Types::Text.new, blank: :unset

    # @!attribute [rw] cassandra_password
    #   Password to log in with. Never shown in errors, logs and {#inspect}.
    #   @return [String, nil]
    option :cassandra_password, Types::Text.new, blank: :unset, secret: true

    # @!attribute [rw] cassandra_datacenter
    #   Datacenter that queries prefer. Required where the cluster has more than one.
    #   @return [String, nil]
    option :cassandra_datacenter, Types::Text.new, blank: :unset

    # @!attribute [rw] cassandra_rack
    #   Rack that queries prefer.
    #   @return [String, nil]
    option :cassandra_rack, Types::Text.new, blank: :unset

    # @!attribute [rw] cassandra_retention
    #   Seconds for which an idle key's position is remembered at least; at least 1. A year by default.
    #   @return [Float, nil]
    option :cassandra_retention, Types::Duration.new(min: 1), default: Conversion::YEAR_SECONDS.to_f

    # @!attribute [rw] cassandra_tls
    #   Whether connections are encrypted. Off by default.
    #   @return [Boolean, nil]
    option :cassandra_tls, Types::Flag.new, default: false

    # @!attribute [rw] cassandra_ca_file
    #   Certificate authorities in PEM format; those of the system by default.
    #   @return [String, nil]
    option :cassandra_ca_file, Types::FilePath.new, blank: :unset

    # @!attribute [rw] cassandra_replication
    #   Replication factor of a keyspace that prosody creates. 1 by default.
    #   @return [Integer, nil]
    option :cassandra_replication, Types::Count.new(1), default: 1

    # @!group Keyed state

    # @!attribute [rw] state_collections
    #   The collections of keyed state: definitions, their hashes, anything with `to_state_config`, or one
    #   alone.
    #   @return [Array<StateDefinition>, nil]
    option :state_collections, COLLECTIONS, default: [].freeze, variable: nil

    # @!attribute [rw] state_cache_dir
    #   Directory of the local cache, locked while in use. A temporary one per client by default.
    #   @return [String, nil]
    option :state_cache_dir, Types::FilePath.new

    # @!attribute [rw] state_cache_size_bytes
    #   Memory for warm state in bytes. 64 MiB by default.
    #   @return [Integer, nil]
    option :state_cache_size_bytes, BYTES, default: 67_108_864

    # @!attribute [rw] state_recovery_delay
    #   Whole seconds, at least 1, that every collection's TTL must exceed. 30 by default.
    #   @return [Float, nil]
    option :state_recovery_delay, Types::Duration.new(min: 1, whole: true), default: 30.0

    # @!attribute [rw] state_cache_disk_bytes
    #   Disk for warm state in bytes. 1 GiB by default.
    #   @return [Integer, nil]
    option :state_cache_disk_bytes, BYTES, default: 1_073_741_824

    # @!group Telemetry

    # @!attribute [rw] telemetry_enabled
    #   Whether telemetry is emitted. On by default, off in mock mode.
    #   @return [Boolean, nil]
    option :telemetry_enabled, Types::Flag.new, default: ->(values) { !values[:mock] }

    # @!attribute [rw] telemetry_topic
    #   Where telemetry goes. "prosody.telemetry-events" by default.
    #   @return [String, nil]
    option :telemetry_topic, TOPIC, default: "prosody.telemetry-events"

    # @!group Where ledgers live

    # @!attribute [rw] store
    #   Where ledgers live: `memory`, `local` or `cassandra`. By default memory in mock mode, else cassandra
    #   where {#cassandra_nodes} are given, else nowhere: then the client can send, not consume.
    #   @return [String, nil]
    option :store, Types::Enumeration.new("memory", "local", "cassandra"), default: DEFAULT_STORE

    # @!attribute [rw] store_dir
    #   Directory of the local store. Required with `store: :local`.
    #   @return [String, nil]
    option :store_dir, Types::FilePath.new, blank: :unset

    # @!attribute [rw] store_sync
    #   Whether the local store waits for the disk at every write. Off by default.
    #   @return [Boolean, nil]
    option :store_sync, Types::Flag.new, default: false

    # @!endgroup

    OPTIONS.freeze
  end
end
