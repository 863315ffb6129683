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
    # Where a fiber that async did not make can wait as well: its scheduler transfers between fibers.
    TRANSFERS = Async::Scheduler.method_defined?(:transfer)
    # By severity, for loggers that do no more.
    LEVELS = %i[debug info warn error].freeze
    # What the last lines may take.
    FLUSH_SECONDS = 0.5
    # Up to 3.2, Ruby delivers no signal while all of its threads are in native calls: the main thread looks for them
    # so often.
    LOOK_EVERY_SECONDS = (0.05 if RUBY_VERSION < "3.3")
    private_constant :TRANSFERS, :LEVELS, :FLUSH_SECONDS, :LOOK_EVERY_SECONDS

    @queues = {}
    @starting = Mutex.new

    class << self
      # Waits for what a native call answered.
      #
      # @param answer [Object] a result, or the Integer ticket of one
      # @return [Object] the result
      def await(answer)
        return answer unless answer.is_a?(Integer)

        begin
          may_yield? ? wait_in_fiber(answer) : Native.wait(answer, look_every)
          Native.take(answer)
        ensure
          Native.forget(answer)
        end
      end

      # Whether the current fiber can let others go on. In async 1 one that is not a task's own would yield to
      # whoever resumed it instead: there it blocks its thread, as it does in a child that a handler forked, and in a
      # signal handler.
      #
      # @return [Boolean]
      def may_yield?
        scheduler = Fiber.current_scheduler
        return false if scheduler.nil? || Reactor.current&.foreign? || SignalHandler.running?

        TRANSFERS || !scheduler.is_a?(Async::Scheduler) || !Async::Task.current?.nil?
      end

      # Does not wait any more for what a native call has started.
      #
      # @param ticket [Integer]
      # @return [void]
      def forget(ticket)
        Native.forget(ticket)
      end

      # The reactor that the current thread runs, if it is one of ours and of this process: in a child that a
      # handler forked it is neither.
      #
      # @return [Native::Reactor, nil]
      def native_reactor
        reactor = Reactor.current
        reactor.native unless reactor.nil? || reactor.foreign?
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
      # @raise [Error] in a signal handler, unless it runs already
      def start
        return if started?

        SignalHandler.refuse("the first Prosody::Client.new of a process")
        @starting.synchronize { start_dispatcher unless started? }
      end

      # Writes what Rust has logged and nobody has written yet, at the end of the process. A logger that blocks does
      # not hold the end up for long.
      #
      # @return [void]
      def flush_log
        Thread.new { drain }.join(FLUSH_SECONDS) if @process_id == Process.pid
      end

      private

      def started?
        @dispatcher&.alive? && @process_id == Process.pid
      end

      def start_dispatcher
        @queues = {} unless @process_id == Process.pid
        @process_id = Process.pid
        @writing = Mutex.new
        Native.start_logging(ENV.fetch("PROSODY_LOG", "info"))
        @dispatcher = dispatcher
      end

      def look_every
        LOOK_EVERY_SECONDS if Thread.current.equal?(Thread.main)
      end

      def wait_in_fiber(ticket)
        queue = @queues[ticket] = Thread::Queue.new
        # Done before the queue was there, or woken for another reason: only the state counts.
        queue.pop until Native.done?(ticket)
      ensure
        @queues.delete(ticket)
      end

      def dispatcher
        thread = Thread.new do
          loop do
            Native.wait_dispatch
            drain
          end
        end
        thread.name = "prosody-dispatcher"
        thread.report_on_exception = false
        thread
      end

      # One at a time: whoever flushes knows that nobody else holds lines that are not written.
      def drain
        @writing.synchronize { dispatch(Native.drain_dispatch) }
      end

      def dispatch(waiting)
        lines, dropped_lines, tickets = waiting
        tickets.each { |ticket| done(ticket) }
        lines.each { |severity, target, text| log(severity, text, target) }
        log(::Logger::WARN, "#{dropped_lines} log lines were dropped, the logger is too slow", "prosody") if dropped_lines > 0
      end

      def log(severity, text, target)
        logger = Prosody.logger
        return logger.public_send(:add, severity, text, target) if logger.respond_to?(:add)

        logger.public_send(LEVELS.fetch(severity), text)
      rescue Exception => error # standard:disable Lint/RescueException
        # A logger that raises must not end the thread that others wait for.
        warn "prosody: the logger raised #{error.class}, lost: #{text}"
      end
    end
  end
  private_constant :Bridge
end
