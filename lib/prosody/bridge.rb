# frozen_string_literal: true

module Prosody
  # Waiting for native operations, from wherever Ruby code may run.
  #
  # A native call that is not done at once answers with a ticket, an Integer. Who waits is one of three: a
  # fiber of a {Reactor} (its pump hands tickets over), a fiber under somebody else's scheduler (the
  # dispatcher thread does), or a plain thread (blocks without Ruby's lock, and can be interrupted).
  #
  # @api private
  module Bridge
    @queues = {}

    class << self
      # Waits for what a native call answered.
      #
      # @param answer [Object] a result, or the Integer ticket of one
      # @return [Object] the result
      def await(answer)
        return answer unless answer.is_a?(Integer)

        begin
          Fiber.current_scheduler ? wait_in_fiber(answer) : Native.wait(answer)
          Native.take(answer)
        ensure
          Native.forget(answer)
        end
      end

      # The reactor that the current thread runs, if it is one of ours.
      #
      # @return [Native::Reactor, nil]
      def native_reactor
        Reactor.current&.native
      end

      # Wakes the fiber that waits for a ticket, if one does. From any thread.
      #
      # @param ticket [Integer]
      # @return [void]
      def done(ticket)
        @queues[ticket]&.push(true)
      end

      # Starts the process's dispatcher thread, which writes Rust's log lines and wakes fibers of foreign
      # schedulers. Called before anything native is used; again in a forked child.
      #
      # @return [void]
      def start
        return if @dispatcher&.alive? && @process_id == Process.pid

        @process_id = Process.pid
        @queues = {}
        Native.start_logging(ENV.fetch("PROSODY_LOG", "info"))
        @dispatcher = Thread.new { loop { dispatch(*Native.next_dispatch) } }
        @dispatcher.name = "prosody-dispatcher"
        @dispatcher.report_on_exception = false
      end

      # Writes what Rust has logged and nobody has written yet.
      #
      # @return [void]
      def flush_log
        dispatch(*Native.drain_dispatch) if @process_id == Process.pid
      end

      private

      def wait_in_fiber(ticket)
        queue = @queues[ticket] = Thread::Queue.new
        # Done before the queue was there, or woken for another reason: only the state counts.
        queue.pop until Native.done?(ticket)
      ensure
        @queues.delete(ticket)
      end

      def dispatch(lines, dropped_lines, tickets)
        tickets.each { |ticket| done(ticket) }
        lines.each { |severity, target, text| log(severity, text, target) }
        log(::Logger::WARN, "#{dropped_lines} log lines were dropped, the logger is too slow", "prosody") if dropped_lines > 0
      end

      def log(severity, text, target)
        Prosody.logger.add(severity, text, target)
      rescue Exception => error # rubocop:disable Lint/RescueException
        # A logger that raises must not end the thread that others wait for.
        warn "prosody: the logger raised #{error.class}, lost: #{text}"
      end
    end
  end
  private_constant :Bridge
end
