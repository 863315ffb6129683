# frozen_string_literal: true

module Prosody
  # A JSON value of the key at hand. {Context#state} gives the handle of an attempt; it ends with the attempt.
  #
  # Changes are bound to the handler's success, together with what says that the message was handled: either
  # all of it is there afterwards, or nothing. All methods raise {TransientStateError} when the handle is used
  # after its attempt or from another thread.
  #
  # @example
  #   COUNT = Prosody.value("count")
  #   # in on_message:
  #   count = context.state(COUNT)
  #   count.set((count.get || 0) + 1)
  class ValueState
    # @api private
    def initialize(native, name)
      @native = native
      @name = name
    end

    # Reads the value, with this event's own changes.
    #
    # @return [Object, nil] a fresh object: changing it changes nothing until it is {#set}; nil if there is none
    # @raise [TransientStateError] if it cannot be read
    def get
      json = @native.get
      Reactor.tick
      json && JSONText.parse(json)
    end

    # Writes the value.
    #
    # @param value [Object] what JSON can represent (Symbols become Strings), not nil; at most 1 MiB as JSON
    # @return [nil]
    # @raise [NullValueError] if it is nil: {#clear} removes a value
    # @raise [TransientStateError] if JSON cannot represent it or it is too large; nothing is written then
    def set(value)
      if nil.equal?(value)
        raise NullValueError, "collection #{@name.inspect}: nil is not a value; `clear` removes one"
      end

      @native.set(encode(value))
      Reactor.tick
      nil
    end

    # Removes the value.
    #
    # @return [nil]
    def clear
      @native.clear
      Reactor.tick
      nil
    end

    # Publishes what this event has changed here, at once: it stays if the handler fails later, and a retry
    # starts from it. Waits until the store has it.
    #
    # @return [nil]
    # @raise [TransientStateError] if the store refuses it; nothing is published then
    def commit
      Bridge.await(@native.commit(Bridge.native_reactor))
    end

    # Drops what this event has changed here since the last {#commit}.
    #
    # @return [nil]
    def rollback
      @native.rollback
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@name.inspect}>"
    end

    private

    def encode(value)
      JSONText.generate(value)
    rescue JSONText::NotRepresentable => error
      raise TransientStateError, "collection #{@name.inspect}: the value cannot be stored as JSON: #{error.message}"
    end
  end
end
