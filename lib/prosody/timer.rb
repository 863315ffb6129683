# frozen_string_literal: true

module Prosody
  # A timer that fires: what `on_timer` is given. Timers come with a later version; {Context#schedule} says so.
  class Timer
    # @return [String] the key that it was scheduled for
    attr_reader :key

    # @return [Time] when it was due, whole seconds
    attr_reader :time

    # @api private
    def initialize(key, time)
      @key = key
      @time = time
      freeze
    end
  end
end
