# frozen_string_literal: true

module Prosody
  # The thread of a subscribed client: one fiber scheduler on which all of its handlers run.
  #
  # The pump, its first task, hands out what the core has queued: attempts to workers, stops to the workers that
  # run them, ends of operations to the fibers that wait. It sleeps until the core rings (a byte in a pipe, one
  # for however many things came) or a worker does.
  #
  # @api private
  class Reactor
    # How long warm work may go on before other fibers get a turn.
    SLICE_SECONDS = 0.001
    # Ready operations and events between two looks at the clock.
    TICKS = 8
    FOREVER_SECONDS = 1_000_000_000
    private_constant :SLICE_SECONDS, :TICKS, :FOREVER_SECONDS

    class << self
      # The reactor that the current thread runs.
      #
      # @return [Reactor, nil]
      def current
        Thread.current.thread_variable_get(:prosody_reactor)
      end

      # Counts an operation that did not wait; yields the fiber when its slice is over.
      def tick
        current&.tick
      end
    end

    # @return [Native::Reactor]
    attr_reader :native

    def initialize(handler, collections)
      @handler = handler
      @collections = collections
      @native, descriptor = Native::Reactor.open
      @process_id = Process.pid
      @bell = IO.for_fd(descriptor, "rb")
      @ticks = 0
      @slice_ends = 0.0
      @closed = false
      @collapsing = false
      @abandoned = false
    end

    # Starts the thread.
    def start
      thread = @thread = Thread.new { run }
      thread.name = "prosody-reactor"
      thread.report_on_exception = false
      self
    end

    # Whether this is a child of the process in which its thread runs.
    def foreign?
      @process_id != Process.pid
    end

    # Whether the current thread is this reactor's.
    def current?
      equal?(Reactor.current)
    end

    # Whether the scheduler is going down, for something that a handler or one of its tasks has done: other handlers
    # are stopped with it.
    def collapsing?
      @collapsing
    end

    # Whether it is closed and no handler runs any more.
    def gone?
      @closed && !@thread&.alive?
    end

    # Ends the thread: handlers that still run are stopped, and after `limit` seconds killed; it waits
    # as long again for that.
    def close(limit)
      @closed = true
      @native.wake
      thread = @thread
      return dispose if thread.nil? || ended?(thread, limit)

      @abandoned = true
      thread.kill
      return dispose if ended?(thread, limit)

      Prosody.logger.error("a handler cannot be interrupted, its thread is abandoned: #{thread.backtrace&.first(5)&.join(" < ")}")
    end

    # The next attempt for a worker that has nothing to do; nil if there is none.
    def next_attempt
      tick
      attempt = @native.take
      # Should this one wait, somebody must hand out those behind it.
      ring if attempt && @pump_sleeps && @native.attempts?
      attempt
    end

    def park(worker)
      @idle << worker
    end

    def leave(worker)
      @workers.delete(worker)
      @idle.delete(worker)
    end

    def tick
      return if (@ticks += 1) < TICKS

      @ticks = 0
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      return if now < @slice_ends

      sleep(0) if Bridge.may_yield?
      @slice_ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SLICE_SECONDS
    end

    private

    # The collector may take its time, and clients that often start and stop would run out of descriptors.
    def dispose
      @native.close
      @bell.close
    end

    # Blocks: `limit` is short, and not every fiber can wait (see {Bridge.may_yield?}).
    def ended?(thread, limit)
      Fiber.new(blocking: true) { thread.join(limit) }.resume
    end

    def run
      Thread.current.thread_variable_set(:prosody_reactor, self)
      @workers = {}
      @idle = []
      @pump_sleeps = false
      @collapsing = false
      @rung = Async::Condition.new
      Async { |task| work(task) }
    rescue SystemExit, SignalException => error
      # From a task that a handler has started.
      ProcessEnd.request(error)
    rescue Exception => error # standard:disable Lint/RescueException
      Prosody.logger.error("a task of a handler raised #{error.class}, which ends the thread of all handlers: #{error.message}") unless @closed
    ensure
      restart unless @closed
    end

    # The thread ended although nobody closed it. What it ran is handled again.
    def restart
      Prosody.logger.error("the thread of the handlers has ended, another one takes over") unless ProcessEnd.begun?
      start
    end

    def work(task)
      complete(Fiber.scheduler)
      let_go_of_fibers(task.reactor)
      listener = task.async { listen }
      pump(task) until @closed
    ensure
      @collapsing = true
      listener&.stop
      @workers.each_value(&:stop)
    end

    def listen
      loop do
        @bell.wait_readable
        @bell.read_nonblock(64, exception: false)
        ring
      end
    end

    def ring
      @pump_sleeps = false
      @rung.signal
    end

    def pump(task)
      deliver_notices if @native.notices?
      if @native.attempts?
        employ(task)
        # Whoever was woken runs now; it comes back here when it waits or is done.
        task.yield
      elsif @native.sleep?
        @pump_sleeps = true
        @rung.wait
      end
    end

    def employ(task)
      if (worker = @idle.pop)
        worker.wake
      else
        worker = Worker.new(self, @handler, @collections)
        @workers[worker] = task.async { |own| worker.run(own) }
      end
    end

    def deliver_notices
      stops, tickets = @native.take_notices
      tickets.each { |ticket| Bridge.done(ticket) }
      stops.each do |id|
        worker, = @workers.find { |candidate, _| candidate.attempt&.id == id }
        worker&.stop
      end
    end

    # async before 2 lacks hooks: with it, Ruby's Timeout would raise in whichever fiber runs, and `sleep` without
    # an argument in the one that calls it.
    def complete(scheduler)
      if !scheduler.respond_to?(:timeout_after)
        supply_timeout(scheduler)
      elsif !IO.method_defined?(:timeout)
        supply_io_wait(scheduler)
      end
      return unless scheduler.method(:kernel_sleep).arity == 1

      scheduler.define_singleton_method(:kernel_sleep) { |seconds = nil| scheduler.block(nil, seconds) }
    end

    # A handler that takes no stop for an answer would go on while the scheduler closes: when the thread is killed,
    # its fiber never gets another turn. Nor when Ruby kills all threads at the end of the process.
    def let_go_of_fibers(scheduler)
      is_abandoned = -> { @abandoned || ProcessEnd.over? }
      scheduler.define_singleton_method(:terminate) { is_abandoned.call || super() }
      return unless scheduler.respond_to?(:scheduler_close)

      scheduler.define_singleton_method(:scheduler_close) { |*error| is_abandoned.call ? scheduler.close : super(*error) }
    end

    # async 2 asks every IO for its `timeout`, which Ruby 3.1 does not have, unless it is told how long to wait.
    def supply_io_wait(scheduler)
      scheduler.define_singleton_method(:io_wait) { |io, events, seconds = nil| super(io, events, seconds || FOREVER_SECONDS) }
      # Without this hook Ruby reads where it stands, and calls the one above.
      scheduler.singleton_class.undef_method(:io_read) if scheduler.respond_to?(:io_read)
    end

    def supply_timeout(scheduler)
      scheduler.define_singleton_method(:timeout_after) do |seconds, error, message, &block|
        # standard:disable Lint/InheritException
        expired = Class.new(Exception) #: singleton(Exception)
        # standard:enable Lint/InheritException
        begin
          Async::Task.current.with_timeout(seconds, expired) { block.call(seconds) }
        rescue expired
          raise error, message
        end
      end
    end
  end
  private_constant :Reactor
end
