# frozen_string_literal: true

require_relative "conversion"

module Prosody
  # What a collection is called and how it behaves. Made by {Prosody.value}, {Prosody.map},
  # {Prosody.deque} and their message variants; given to a client as `state_collections:` and to
  # {Context#state}. Frozen, and equal to any other definition of the same content.
  #
  # @example
  #   VISITS = Prosody.value("visits", ttl: 86_400)
  #   VISITS == Prosody.value("visits", ttl: 86_400) # => true
  class StateDefinition
    # Every field of a registration hash.
    FIELDS = %i[name kind payload ttl_seconds read_uncommitted keyset_limit capacity].freeze
    # Fields without which a registration hash is refused.
    REQUIRED_FIELDS = %i[name kind payload].freeze
    KINDS = %w[value map deque].freeze
    PAYLOADS = %w[json message].freeze

    NAME_BYTES_MAX = 255
    KEYSET_LIMIT_MAX = 4096
    # What a signed 64-bit counter holds.
    CAPACITY_MAX = 9_223_372_036_854_775_807
    private_constant :NAME_BYTES_MAX, :KEYSET_LIMIT_MAX, :CAPACITY_MAX

    class << self
      # Reads a definition in any of its forms.
      #
      # @param source [StateDefinition, Hash, #to_state_config] a Hash has the fields of {#to_state_config},
      #   with Symbol or String keys; nil in an optional field means "not set"
      # @return [StateDefinition]
      # @raise [ArgumentError] naming each field that is unknown, missing or not valid
      def from(source)
        case source
        when StateDefinition then source
        when Hash then from_hash(source)
        else
          unless source.respond_to?(:to_state_config)
            raise ArgumentError, "state definition: got #{source.class}, expected a Prosody::StateDefinition (as from " \
              "Prosody.value), a Hash, or an object with to_state_config"
          end
          from_state_config(source)
        end
      end

      private

      def from_state_config(source)
        config = source.to_state_config
        case config
        when StateDefinition then config
        when Hash then from_hash(config)
        else
          raise ArgumentError, "state definition: #{source.class}#to_state_config returned #{config.class}, expected a Hash"
        end
      end

      def from_hash(hash)
        fields = hash.transform_keys { |key| key.respond_to?(:to_sym) ? key.to_sym : key }
        label = "state definition #{fields[:name].inspect}"
        unknown = fields.keys - FIELDS
        missing = REQUIRED_FIELDS.reject { |field| fields.key?(field) }
        problems = []
        problems << "unknown field #{unknown.map(&:inspect).join(", ")}" unless unknown.empty?
        problems << "missing field #{missing.map(&:inspect).join(", ")}" unless missing.empty?
        unless problems.empty?
          raise ArgumentError, "#{label}: #{problems.join("; ")}; expected #{REQUIRED_FIELDS.map(&:inspect).join(", ")}, " \
            "and optionally #{(FIELDS - REQUIRED_FIELDS).map(&:inspect).join(", ")}"
        end

        new(name: fields[:name], kind: fields[:kind], payload: fields[:payload], ttl_seconds: fields[:ttl_seconds],
          read_uncommitted: fields[:read_uncommitted], keyset_limit: fields[:keyset_limit], capacity: fields[:capacity])
      end
    end

    # @return [String] UTF-8
    attr_reader :name
    # @return [String] "value", "map" or "deque"
    attr_reader :kind
    # @return [String] "json" or "message"
    attr_reader :payload
    # @return [Integer, nil] lifetime of each write, in seconds; nil if items do not expire
    attr_reader :ttl_seconds
    # @return [Boolean, nil] nil if not set
    attr_reader :read_uncommitted
    # @return [Integer, nil] nil if not set; only in maps
    attr_reader :keyset_limit
    # @return [Integer, nil] nil if not set; only in deques
    attr_reader :capacity

    # @param name [String] non-empty, at most 255 bytes
    # @param kind [String, Symbol] value, map or deque
    # @param payload [String, Symbol] json or message
    # @param ttl_seconds [Numeric, ActiveSupport::Duration, nil] whole seconds, from 1 to 10 years
    # @param read_uncommitted [Boolean, nil]
    # @param keyset_limit [Integer, nil] 0 to 4096; maps only
    # @param capacity [Integer, nil] at least 1; deques only
    # @raise [ArgumentError] naming the collection and, for each field that is not valid, its value and what
    #   is allowed
    def initialize(name:, kind:, payload:, ttl_seconds: nil, read_uncommitted: nil, keyset_limit: nil, capacity: nil)
      problems = []
      @name = read_name(name, problems)
      @kind = read_choice(:kind, kind, KINDS, problems)
      @payload = read_choice(:payload, payload, PAYLOADS, problems)
      @ttl_seconds = read_ttl(ttl_seconds, problems)
      @read_uncommitted = read_flag(:read_uncommitted, read_uncommitted, problems)
      @keyset_limit = read_count(:keyset_limit, keyset_limit, "map", 0..KEYSET_LIMIT_MAX, problems)
      @capacity = read_count(:capacity, capacity, "deque", 1..CAPACITY_MAX, problems)
      raise ArgumentError, "state definition #{@name.inspect}: #{problems.join("; ")}" unless problems.empty?

      # Handlers look their collections up by it.
      @hash = to_state_config.hash
      freeze
    end

    # The registration of this collection.
    #
    # @return [Hash{Symbol => Object}] the fields that are set, of `:name`, `:kind`, `:payload`,
    #   `:ttl_seconds`, `:read_uncommitted`, `:keyset_limit` and `:capacity`
    def to_state_config
      FIELDS.to_h { |field| [field, public_send(field)] }.compact
    end

    # @param other [Object]
    # @return [Boolean] whether the other is a definition of the same content
    def ==(other)
      equal?(other) || (other.is_a?(StateDefinition) && other.to_state_config == to_state_config)
    end
    alias_method :eql?, :==

    # @return [Integer] equal for equal definitions
    attr_reader :hash

    # @return [String]
    def inspect
      fields = to_state_config.map { |field, value| "#{field}=#{value.inspect}" }
      "#<#{self.class} #{fields.join(" ")}>"
    end

    private

    def read_name(value, problems)
      text = Conversion.utf8(value)
      return text if text && !text.empty? && text.bytesize <= NAME_BYTES_MAX

      shown = value.is_a?(String) ? "#{value.byteslice(0, 40).inspect} (#{value.bytesize} bytes)" : value.inspect
      problems << "name: got #{shown}, expected a non-empty String of valid characters and at most #{NAME_BYTES_MAX} bytes"
      nil
    end

    def read_choice(field, value, allowed, problems)
      text = value.is_a?(Symbol) ? value.name : value
      choice = allowed.find { |candidate| candidate == text }
      problems << "#{field}: got #{value.inspect}, expected one of #{allowed.join(", ")}" unless choice
      choice
    end

    def read_ttl(value, problems)
      return if value.nil?

      seconds = Conversion.real(value)
      whole = seconds && seconds.denominator == 1 && seconds.between?(1, Conversion::DURATION_SECONDS_MAX)
      return seconds.to_i if whole

      problems << "ttl: got #{value.inspect}, expected whole seconds (Numeric or ActiveSupport::Duration) from 1 to 10 years"
      nil
    end

    def read_flag(field, value, problems)
      return value if value.nil? || value == true || value == false

      problems << "#{field}: got #{value.inspect}, expected true, false or nil"
      nil
    end

    def read_count(field, value, owner, range, problems)
      return if value.nil?
      return value if @kind == owner && value.is_a?(Integer) && range.cover?(value)

      expected = "an Integer from #{range.begin} to #{range.end}"
      expected = "nil: only a #{owner} has it" if @kind && @kind != owner
      problems << "#{field}: got #{value.inspect}, expected #{expected}"
      nil
    end
  end
end
