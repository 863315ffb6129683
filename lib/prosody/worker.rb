# frozen_string_literal: true

module Prosody
  # A task that runs handlers, one after the other, as long as each leaves nothing behind: no fiber-locals, no
  # fiber storage, no child tasks. One that was left dirty, or was stopped, ends, and its children with it.
  #
  # @api private
  class Worker
    # Where this Ruby has fiber storage.
    STORAGE = Fiber.method_defined?(:storage)
    BACKTRACE_FRAMES = 20
    # Errors may have a `class` method of their own.
    CLASS_OF = ::Kernel.instance_method(:class)
    private_constant :STORAGE, :BACKTRACE_FRAMES, :CLASS_OF

    # @return [Native::Attempt, nil] what it runs
    attr_reader :attempt

    def initialize(reactor, handler, collections)
      @reactor = reactor
      @handler = handler
      @collections = collections
      @wanted = Async::Condition.new
    end

    # Runs on a task of its own until it is dirty or stopped.
    def run(task)
      @task = task
      @locals = Thread.current.keys.size
      @storage = Fiber.current.storage if STORAGE
      loop do
        while (attempt = @reactor.next_attempt)
          return unless handle(attempt) && clean?
        end
        @reactor.park(self)
        @wanted.wait
      end
    ensure
      @reactor.leave(self)
      stop_children
    end

    # Lets a parked worker go on.
    def wake
      @wanted.signal
    end

    # Interrupts what it runs.
    def stop
      @task&.stop
    end

    private

    # Whether the worker may go on.
    def handle(attempt)
      @attempt = attempt
      settled = false
      @handler.on_message(Context.new(attempt, @collections), attempt.message)
      attempt.succeed
      settled = true
    rescue Async::Stop
      @reactor.collapsing? ? attempt.interrupted : attempt.stopped
      settled = true
      false
    rescue SystemExit, SignalException => error
      attempt.exit
      settled = true
      ProcessEnd.request(error)
      false
    rescue Exception => error # standard:disable Lint/RescueException
      report(attempt, error)
      settled = true
    ensure
      @attempt = nil
      # A kill of the thread, or a throw past us.
      attempt.stopped unless settled
    end

    # Errors are strangers' code: their methods may raise, and not only a StandardError.
    def report(attempt, error)
      frames = attempted([]) { error.backtrace&.first(BACKTRACE_FRAMES) || [] }
      permanent = attempted(false) { error.respond_to?(:permanent?) && error.permanent? }
      message = attempted("(its message cannot be read)") { utf8(error.message.to_s) }
      attempt.fail(permanent ? true : false, utf8(CLASS_OF.bind_call(error).to_s), message, frames.map { |frame| utf8(frame) })
    end

    def attempted(otherwise)
      yield
    rescue Exception => failure # standard:disable Lint/RescueException
      Prosody.logger.error("an error of a handler raised #{CLASS_OF.bind_call(failure)} when it was looked at")
      otherwise
    end

    def utf8(text)
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    rescue EncodingError
      text.b.inspect
    end

    def clean?
      return false unless Thread.current.keys.size == @locals
      return false if STORAGE && Fiber.current.storage != @storage

      children = @task&.children
      children ? children.empty? : true
    end

    def stop_children
      children = []
      @task&.children&.each { |child| children << child }
      children.each(&:stop)
    end
  end
  private_constant :Worker
end
