# frozen_string_literal: true

require_relative "state_definition"

module Prosody
  class << self
    # Defines one JSON value per key.
    #
    # @param name [String] the collection's name, at most 255 bytes; unique in a client
    # @param ttl [Numeric, ActiveSupport::Duration, nil] lifetime of each write in whole seconds, 1 to 10
    #   years; nil: no end
    # @param read_uncommitted [Boolean, nil] true: written after the handler succeeds, before the event is
    #   recorded as handled
    # @return [StateDefinition]
    # @raise [ArgumentError] naming the collection, the argument, its value and what is allowed
    #
    # @example
    #   VISITS = Prosody.value("visits", ttl: 86_400)
    #   client = Prosody::Client.new(state_collections: [VISITS])
    #   # in a handler
    #   visits = context.state(VISITS)
    #   visits.set((visits.get || 0) + 1)
    def value(name, ttl: nil, read_uncommitted: nil)
      define(name, "value", "json", ttl_seconds: ttl, read_uncommitted: read_uncommitted)
    end

    # Defines an ordered map per key, from Strings to JSON values.
    #
    # @param (see #value)
    # @param keyset_limit [Integer, nil] up to how many entries the map is kept complete locally for scans,
    #   0 to 4096; nil: 128
    # @return [StateDefinition]
    # @raise (see #value)
    #
    # @example
    #   CARTS = Prosody.map("carts", keyset_limit: 500)
    def map(name, ttl: nil, keyset_limit: nil, read_uncommitted: nil)
      define(name, "map", "json", ttl_seconds: ttl, read_uncommitted: read_uncommitted, keyset_limit: keyset_limit)
    end

    # Defines a deque of JSON values per key.
    #
    # @param (see #value)
    # @param capacity [Integer, nil] at least 1: a push beyond it drops from the other end; nil: unbounded
    # @return [StateDefinition]
    # @raise (see #value)
    #
    # @example
    #   LATEST = Prosody.deque("latest", capacity: 10)
    def deque(name, ttl: nil, capacity: nil, read_uncommitted: nil)
      define(name, "deque", "json", ttl_seconds: ttl, read_uncommitted: read_uncommitted, capacity: capacity)
    end

    # Defines one {Message} per key. What is stored are its coordinates; reading loads it from Kafka.
    #
    # @param (see #value)
    # @return [StateDefinition]
    # @raise (see #value)
    #
    # @example
    #   LAST_ORDER = Prosody.message_value("last-order")
    def message_value(name, ttl: nil, read_uncommitted: nil)
      define(name, "value", "message", ttl_seconds: ttl, read_uncommitted: read_uncommitted)
    end

    # Defines an ordered map per key, from Strings to {Message}s.
    #
    # @param (see #map)
    # @return [StateDefinition]
    # @raise (see #value)
    #
    # @example
    #   ORDERS = Prosody.message_map("orders")
    def message_map(name, ttl: nil, keyset_limit: nil, read_uncommitted: nil)
      define(name, "map", "message", ttl_seconds: ttl, read_uncommitted: read_uncommitted, keyset_limit: keyset_limit)
    end

    # Defines a deque of {Message}s per key.
    #
    # @param (see #deque)
    # @return [StateDefinition]
    # @raise (see #value)
    #
    # @example
    #   BACKLOG = Prosody.message_deque("backlog", capacity: 1_000)
    def message_deque(name, ttl: nil, capacity: nil, read_uncommitted: nil)
      define(name, "deque", "message", ttl_seconds: ttl, read_uncommitted: read_uncommitted, capacity: capacity)
    end

    private

    def define(name, kind, payload, **settings)
      StateDefinition.new(name: name, kind: kind, payload: payload, **settings)
    end
  end
end
