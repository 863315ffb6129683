# frozen_string_literal: true

module Prosody
  # What a handler is given beside its message: the key's state, and word of when to come to an end. One for
  # each attempt.
  class Context
    # @api private
    def initialize(attempt, collections)
      @attempt = attempt
      @collections = collections
    end

    # Whether the handler should come to an end: it ran longer than `timeout`, its partition is revoked, or the
    # client shuts down. A handler that goes on is stopped (`Async::Stop` at its next wait) at once after
    # `timeout`, else when 90 % of `shutdown_timeout` have passed.
    #
    # @return [Boolean]
    def should_cancel?
      Reactor.tick
      @attempt.should_cancel?
    end

    # Waits until {#should_cancel?} is true. Other handlers go on meanwhile.
    #
    # @return [nil]
    # @example
    #   Async::Task.current.async { context.on_cancel; connection.close }
    def on_cancel
      Bridge.await(@attempt.cancelled(Bridge.native_reactor))
    end

    # The key's state of one collection.
    #
    # @param definition [StateDefinition] one that the client was made with (`state_collections:`)
    # @return [ValueState] the same handle for the same definition
    # @raise [PermanentStateError] if the client does not know the definition, or the message has no key
    def state(definition)
      handles = (@handles ||= {})
      handles[definition] ||= handle_for(definition)
    end

    # Publishes everything that this event has buffered. Comes with all collections and timers; publish a single
    # collection with its own `commit`.
    #
    # @raise [NotImplementedError] in this version
    def commit
      not_yet("commit")
    end

    # Schedules a timer for the key.
    #
    # @param time [Time, DateTime, Numeric]
    # @raise [NotImplementedError] in this version
    def schedule(time)
      not_yet("schedule")
    end

    # Removes a timer of the key.
    #
    # @param time [Time, DateTime, Numeric]
    # @raise [NotImplementedError] in this version
    def unschedule(time)
      not_yet("unschedule")
    end

    # Removes all timers of the key.
    #
    # @raise [NotImplementedError] in this version
    def clear_scheduled
      not_yet("clear_scheduled")
    end

    # Removes all timers of the key and schedules one.
    #
    # @param time [Time, DateTime, Numeric]
    # @raise [NotImplementedError] in this version
    def clear_and_schedule(time)
      not_yet("clear_and_schedule")
    end

    # The timers of the key.
    #
    # @return [Array<Time>]
    # @raise [NotImplementedError] in this version
    def scheduled
      not_yet("scheduled")
    end

    # @return [String]
    def inspect
      "#<#{self.class} should_cancel=#{@attempt.should_cancel?}>"
    end

    private

    def handle_for(definition)
      known = @collections.include?(definition)
      raise PermanentStateError, unknown(definition) unless known
      unless @attempt.ledger?
        raise PermanentStateError, "collection #{definition.name.inspect}: the message has no key, and so no state"
      end

      unless definition.kind == "value" && definition.payload == "json"
        not_yet("state of a #{definition.payload} #{definition.kind}")
      end

      ValueState.new(@attempt.value_state(definition.name), definition.name)
    end

    def unknown(definition)
      names = @collections.map { |collection| collection.name.inspect }
      registered = names.empty? ? "none is" : "registered: #{names.join(", ")}"
      "#{definition.inspect} is not among the client's state_collections (#{registered}); give the same definition to Client.new"
    end

    def not_yet(what)
      raise NotImplementedError, "#{what} is not part of this version of prosody (#{VERSION}) yet"
    end
  end
end
