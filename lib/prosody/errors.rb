# frozen_string_literal: true

module Prosody
  # Ancestor of everything that prosody raises of its own accord. Mistakes in configuration and in
  # arguments are `ArgumentError`, not this.
  class Error < StandardError; end

  # Raised by {Client#send_messages} when messages of the batch were not delivered.
  #
  # @example
  #   client.send_messages(batch)
  # rescue Prosody::SendError => error
  #   error.failures.each { |failure| retry_later(batch[failure[:index]]) }
  class SendError < Error
    # What was not delivered, in the order of the batch. Each entry is a Hash with `:index` (Integer,
    # position in the batch), `:topic`, `:key` and `:reason`.
    #
    # @return [Array<Hash{Symbol => Object}>] frozen
    attr_reader :failures

    # @param message [String, nil] nil for a summary of the failures
    # @param failures [Array<Hash{Symbol => Object}>] see {#failures}
    def initialize(message = nil, failures: [])
      @failures = failures.dup.freeze
      super(message || summary)
    end

    private

    def summary
      first = @failures.first
      return "messages were not delivered" unless first

      "#{@failures.size} message(s) were not delivered; the first is number #{first[:index]} of the batch, " \
        "to topic #{first[:topic].inspect}: #{first[:reason]}"
    end
  end

  # What a handler raises to say how its failure is to be treated. Abstract: raise {TransientError} or
  # {PermanentError}, or define {#permanent?} in a class of your own (any exception that responds to
  # `permanent?` is asked).
  class EventHandlerError < Error
    # @return [Boolean] true if another attempt would fail as well
    # @raise [NotImplementedError] always, in this abstract class
    def permanent?
      ::Kernel.raise ::NotImplementedError, "#{self.class} must define permanent?: " \
        "true if another attempt would fail as well, false if it may succeed"
    end
  end

  # A failure that may pass: the event is handled again, as the client's mode says.
  class TransientError < EventHandlerError
    # @return [Boolean] false
    def permanent?
      false
    end
  end

  # A state call that failed, or that was called wrongly. Caller mistakes are transient on purpose:
  # outside best_effort mode the message is handled again and stays visible, instead of being dropped.
  class TransientStateError < TransientError; end

  # `nil` was written into a collection. The message says which verb deletes instead.
  class NullValueError < TransientStateError; end

  # A failure that another attempt would meet again: the event is not retried.
  #
  # @example
  #   raise Prosody::PermanentError, "unknown customer #{id}"
  class PermanentError < EventHandlerError
    # @return [Boolean] true
    def permanent?
      true
    end
  end

  # Raised by {Client#initialize} for a collection that is registered twice or whose TTL is not above
  # `state_recovery_delay`, and by {Context#state} for one that is not registered, or that was recorded
  # with another kind or payload.
  class PermanentStateError < PermanentError; end

  # An item of a message collection that Kafka no longer has, because of retention or compaction.
  class MessageGoneError < PermanentStateError
    # @return [String]
    attr_reader :topic
    # @return [Integer]
    attr_reader :partition
    # @return [Integer]
    attr_reader :offset

    # @param topic [String]
    # @param partition [Integer]
    # @param offset [Integer]
    def initialize(topic, partition, offset)
      @topic = topic
      @partition = partition
      @offset = offset
      super("Kafka no longer has the message at topic #{topic.inspect}, partition #{partition}, offset #{offset} " \
        "(retention or compaction); `delete` or `clear` removes the item that points to it")
    end
  end
end
