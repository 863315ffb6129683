# frozen_string_literal: true

module Prosody
  # Handlers of `trap`: Ruby runs them on the main thread, in between whatever it was doing, and allows no Mutex there.
  #
  # @api private
  module SignalHandler
    class << self
      # Whether the current code runs in one. Ruby does not say; a Mutex does.
      #
      # @return [Boolean]
      def running?
        return false unless Thread.current.equal?(Thread.main)

        Mutex.new.synchronize { false }
      rescue ThreadError
        true
      end

      # @param call [String] what cannot be done there
      # @return [void]
      # @raise [Error] in a signal handler
      def refuse(call)
        return unless running?

        raise Error, "#{call} was called in a signal handler, where Ruby allows no Mutex: let the handler push to a " \
          "Thread::Queue, and call it from a thread that waits for that"
      end

      # Runs the block on a thread of its own, where everything is allowed, and waits for its end. Not for longer than
      # `limit` seconds: the code that the signal has interrupted may hold a lock that the block wants.
      #
      # @return [void]
      def run(limit, &block)
        thread = Thread.new(&block)
        thread.report_on_exception = false
        # The interrupted fiber must not yield to others of its scheduler.
        Fiber.new(blocking: true) { thread.join(limit) }.resume
      end
    end
  end
  private_constant :SignalHandler
end
