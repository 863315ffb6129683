# frozen_string_literal: true

require_relative "error_classification"

module Prosody
  # Base class for what handles messages and timers. Any object with `on_message` (and `on_timer`, if it
  # uses timers) is accepted by {Client#subscribe}; this class adds {ErrorClassification}.
  #
  # One handler object serves all events of its client: many at once, in fibers, but never two of the same
  # key. What it returns is ignored. What it raises decides what becomes of the event: an error that
  # responds to `permanent?` is treated as it answers, any other is transient.
  #
  # @example
  #   class OrderHandler < Prosody::EventHandler
  #     permanent :on_message, KeyError
  #     transient :on_message, Net::OpenTimeout
  #
  #     def on_message(context, message)
  #       Billing.charge(message.payload.fetch("customer"), message.payload.fetch("amount"))
  #       context.schedule(Time.now + 3600)
  #     end
  #
  #     def on_timer(context, timer)
  #       Billing.remind(timer.key)
  #     end
  #   end
  class EventHandler
    extend ErrorClassification

    # What the base `on_timer` raises. It answers `permanent?`, so that a timer for a handler without
    # timers is not retried, also where `on_timer` calls `super`.
    class TimersNotHandled < NotImplementedError
      # @return [Boolean] true
      def permanent?
        true
      end
    end
    private_constant :TimersNotHandled

    # Handles a message. Must be defined by the handler.
    #
    # @param context [Context] timers, state and cancellation of this event
    # @param message [Message]
    # @return [void]
    # @raise [NotImplementedError] always, in this base class
    def on_message(context, message)
      ::Kernel.raise ::NotImplementedError,
        "#{self.class} does not handle messages: define on_message(context, message) in it"
    end

    # Handles a timer. Must be defined by a handler that schedules timers.
    #
    # @param context [Context] timers, state and cancellation of this event
    # @param timer [Timer]
    # @return [void]
    # @raise [NotImplementedError] always, in this base class; it counts as a permanent failure
    def on_timer(context, timer)
      ::Kernel.raise TimersNotHandled,
        "#{self.class} got a timer but does not handle timers: define on_timer(context, timer) in it, " \
        "or schedule none"
    end
  end
end
