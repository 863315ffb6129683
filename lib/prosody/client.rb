# frozen_string_literal: true

module Prosody
  # Sends messages, and while subscribed has a handler handle those of its topics.
  #
  # A client may be used from any thread and any fiber: calls that wait yield the fiber under a fiber scheduler,
  # and block only their own thread elsewhere. It belongs to the process in which it was made: in a forked child
  # every call raises {Error}; make a new one there.
  #
  # @example
  #   client = Prosody::Client.new(bootstrap_servers: "localhost:9092", group_id: "orders",
  #     subscribed_topics: "orders", store: :memory)
  #   client.subscribe(OrderHandler.new)
  #   client.send_message("orders", "order-1", {"total" => 5})
  class Client
    # What running clients get at the end of the process, of the 5 s in which it ends.
    EXIT_SECONDS = 4.0
    # What a stop may take beyond its limit: a second, less what it takes to return.
    GRACE_SECONDS = 0.95
    # For the reactor's thread to end after its handlers have, and again after it was killed. Idle threads need that
    # long where others want the processor; one that cannot end makes `unsubscribe` last so long.
    REACTOR_SECONDS = (0.02..0.5)
    # For a start that was interrupted to come to its end.
    ABANDON_SECONDS = 1.0
    private_constant :EXIT_SECONDS, :GRACE_SECONDS, :REACTOR_SECONDS, :ABANDON_SECONDS

    @running = {}.compare_by_identity
    @running_mutex = Mutex.new

    class << self
      # @api private
      def started(client, reactor)
        @running_mutex.synchronize do
          unless @at_exit_process == Process.pid
            # What a parent ran is not there in a forked child.
            @running = {}.compare_by_identity
            at_exit { shut_down_all } unless @at_exit_process
            @at_exit_process = Process.pid
          end
          @running[reactor] = client
        end
      end

      # @api private
      def stopped(reactor)
        # No Mutex: whoever holds it may be interrupted by a signal, and wait for us.
        @running.delete(reactor)
      end

      private

      def shut_down_all
        return unless @at_exit_process == Process.pid

        ProcessEnd.begin
        # A handler, or somebody at the keyboard, may ask for the end once more; it comes soon enough.
        Thread.handle_interrupt(SystemExit => :never, SignalException => :never) do # steep:ignore UnexpectedBlockGiven
          stop_all(now + EXIT_SECONDS + GRACE_SECONDS)
          Bridge.flush_log
        end
      ensure
        ProcessEnd.finish
      end

      def stop_all(ends_at)
        threads = @running.values.map { |client| Thread.new { client.__send__(:stop_at_exit) } }
        begin
          threads.each { |thread| thread.join([ends_at - now, 0].max) }
        rescue Interrupt
          # Ruby raises that of SIGINT whatever `handle_interrupt` says.
          retry
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end

    # Makes a client; nothing is contacted before it is used. Every option and every environment variable is
    # checked (see {Configuration}).
    #
    # @param source [Hash, Configuration, nil] the configuration, unless it is given as keywords
    # @param options [Hash] options of {Configuration}
    # @raise [ArgumentError] lists everything that is invalid
    # @raise [PermanentStateError] if collections contradict each other
    def initialize(source = nil, **options)
      settings = Configuration.resolve(options.empty? ? source : (source&.to_hash || {}).merge(options))
      Bridge.start
      @settings = settings
      @native = Native::Client.new(settings)
      @collections = settings.fetch(:state_collections)
      @lifecycle = Mutex.new
    end

    # Sends a message and waits until the brokers have it (all in-sync replicas).
    #
    # @param topic [String]
    # @param key [String, nil] nil sends a record without key
    # @param payload [Object] what JSON can represent; nil is sent as JSON `null`
    # @param headers [Hash{String, Symbol => String, nil}, nil]
    # @return [nil]
    # @raise [ArgumentError] if topic, key, payload or headers cannot be sent for what they are
    # @raise [Error] if broker or client refuse it, or it is not acknowledged within `send_timeout`; it may still
    #   arrive in the latter case
    def send_message(topic, key, payload, headers: nil)
      send_record(topic, key, json(payload, topic, key), headers)
    end

    # Sends a record without value, which removes the key from a compacted topic.
    #
    # @param topic [String]
    # @param key [String, nil]
    # @param headers [Hash{String, Symbol => String, nil}, nil]
    # @return [nil]
    # @raise (see #send_message)
    def send_tombstone(topic, key, headers: nil)
      send_record(topic, key, nil, headers)
    end

    # Sends many messages at once: they are handed over without waiting for each other, and keep their order within
    # a partition. Returns when all are acknowledged. The enumerable may be endless; at most 10,000 messages and 16 MiB
    # of payload wait for their acknowledgement at a time.
    #
    # @param messages [#each] Hashes with `topic:`, `key:`, `payload:` and, if wanted, `headers:`, as {#send_message}
    #   takes them
    # @return [nil]
    # @raise [SendError] if messages were not delivered, or cannot be for what they are; it lists them. After 1,000
    #   failures no more elements are taken.
    # @example
    #   client.send_messages(orders.lazy.map { |order| {topic: "orders", key: order.id, payload: order.to_h} })
    def send_messages(messages)
      SendBatch.new(method(:json), method(:start_record)).run(messages)
      nil
    end

    # Starts to consume in the background.
    #
    # @param handler [EventHandler, #on_message] handles the messages, on a thread of the client
    # @return [nil]
    # @raise [ArgumentError] if group_id, topics or a store are not configured, a topic does not exist, the client
    #   is subscribed already, or the handler does not define `on_message`
    # @raise [NameError] if the handler classifies errors of a method that it does not define
    # @raise [Error] if broker or store do not answer within 10 s, or in a signal handler (`trap`)
    def subscribe(handler)
      SignalHandler.refuse("subscribe")
      check_subscription
      check_handler(handler)
      reactor = Reactor.new(handler, @collections)
      begin
        reserve(reactor)
        reactor.start
        Bridge.await(@native.subscribe(reactor.native))
        subscribed = true
      rescue Error, ArgumentError
        release(reactor, GRACE_SECONDS)
        reactor = nil
        raise
      ensure
        # Interrupted, by Timeout or a kill: the start goes on without us, unless it is told to end.
        stop_in_background(reactor, 0.0).join(ABANDON_SECONDS) if reactor && !subscribed && reactor.equal?(@reactor)
      end
      nil
    end

    # Stops consuming: no further handler starts, running ones may end within `shutdown_timeout`, what is finished
    # is committed. Returns within `shutdown_timeout` plus a second, and no handler runs from then on. Does nothing
    # if the client is not subscribed. It may subscribe again afterwards. A signal handler (`trap`) may call it, too; the
    # main thread then stands still meanwhile.
    #
    # @return [nil]
    # @raise [Error] if called from a handler of this client, which it would wait for
    def unsubscribe
      if @reactor&.current?
        raise Error, "unsubscribe was called from a handler of the same client, and would wait for that handler to end: " \
          "call it from another thread, or exit the process"
      end
      limit = @settings.fetch(:shutdown_timeout)
      SignalHandler.running? ? SignalHandler.run(limit + 1) { stop(limit) } : stop(limit)
      nil
    end

    # What the client is doing.
    #
    # @return [Symbol] `:unconfigured` (no group_id or topics), `:configured`, or `:running`
    def consumer_state
      @native.consumer_state
    end

    # How many partitions are assigned to this client.
    #
    # @return [Integer]
    def assigned_partitions
      @native.assigned_partitions
    end

    # Whether a partition has unfinished messages of which none has ended for `stall_threshold`. The log names it.
    #
    # @return [Boolean]
    def is_stalled?
      @native.stalled?
    end
    alias_method :stalled?, :is_stalled?

    # What this client's messages have in the header `source-system`; a consumer skips those that name its own
    # group.
    #
    # @return [String, nil]
    def source_system
      @settings.fetch(:source_system)
    end

    # @return [String] without secrets
    def inspect
      "#<#{self.class} #{consumer_state} group_id=#{@settings.fetch(:group_id).inspect}>"
    rescue Error
      "#<#{self.class} made in another process group_id=#{@settings.fetch(:group_id).inspect}>"
    end

    private

    # The reactor is ours from before the native side starts until after it has stopped, so that nobody can start
    # another one meanwhile, however the calls are interrupted.
    def reserve(reactor)
      # Raises in a forked child, whatever the parent was doing.
      @native.consumer_state
      @lifecycle.synchronize do
        before = @reactor
        unless before.nil? || before.gone?
          raise ArgumentError, "client is subscribed already, or has not stopped yet: `unsubscribe` first, or make another client"
        end

        @reactor = reactor
      end
      Client.started(self, reactor)
      ProcessEnd.withdraw
    end

    def release(reactor, seconds)
      reactor.close((seconds / 2).clamp(REACTOR_SECONDS))
      # Nobody else may handle anything while a handler that cannot be ended is at it.
      Client.stopped(reactor) if reactor.gone?
    end

    def stop_at_exit
      stop([@settings.fetch(:shutdown_timeout), EXIT_SECONDS].min)
    end

    def stop(limit)
      return Bridge.await(@native.unsubscribe(limit)) unless (reactor = @reactor)

      begin
        stop_and_release(reactor, limit)
        reactor = nil
      rescue Error
        # Made in another process.
        reactor = nil
        raise
      ensure
        # Interrupted: it goes on, and the handlers' thread ends with it.
        stop_in_background(reactor, limit) if reactor
      end
    end

    def stop_in_background(reactor, limit)
      Thread.new { stop_and_release(reactor, limit) }
    end

    def stop_and_release(reactor, limit)
      from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Bridge.await(@native.unsubscribe(limit))
      release(reactor, from + limit + GRACE_SECONDS - Process.clock_gettime(Process::CLOCK_MONOTONIC))
    end

    def send_record(topic, key, payload, headers)
      Bridge.await(start_record(topic, key, payload, headers))
    rescue Error => error
      raise error.exception("message to topic #{topic.inspect}, key #{key.inspect}: #{error.message}")
    end

    def start_record(topic, key, payload, headers)
      topic = utf8("topic", topic)
      key = utf8("key", key) unless key.nil?
      pairs = headers && header_pairs(headers)
      @native.send_record(topic, key, payload, pairs, Bridge.native_reactor)
    end

    def json(payload, topic, key)
      JSONText.generate(payload)
    rescue JSONText::NotRepresentable => error
      raise ArgumentError, "payload of a message to topic #{topic.inspect}, key #{key.inspect} cannot be sent as JSON: #{error.message}"
    end

    def utf8(name, value)
      return value if value.is_a?(String) && value.encoding == Encoding::UTF_8 && value.valid_encoding?
      raise ArgumentError, "#{name} is #{value.inspect} (#{value.class}); expected a String#{" or nil" if name == "key"}" unless value.is_a?(String)

      Conversion.utf8(value) || raise(ArgumentError, "#{name} #{value.inspect} (#{value.encoding}) is not UTF-8, and cannot be converted to it")
    end

    def header_pairs(headers)
      raise ArgumentError, "headers is a #{headers.class}; expected a Hash of names to Strings or nil" unless headers.is_a?(Hash)

      headers.map do |name, value|
        if [String, Symbol].none? { |type| name.is_a?(type) } || [String, NilClass].none? { |type| value.is_a?(type) }
          raise ArgumentError, "header #{name.inspect} has a #{value.class}; expected a name and a String or nil"
        end
        [name.to_s, value]
      end
    end

    def check_subscription
      missing = []
      missing << "group_id (or PROSODY_GROUP_ID)" unless @settings.fetch(:group_id)
      missing << "subscribed_topics (or PROSODY_SUBSCRIBED_TOPICS)" if Array(@settings.fetch(:subscribed_topics)).empty?
      return if missing.empty?

      raise ArgumentError, "subscribe needs #{missing.join(" and ")}: give it to Client.new"
    end

    def check_handler(handler)
      unless handler.respond_to?(:on_message)
        raise ArgumentError, "#{handler.class} has no method on_message(context, message)"
      end
      if handler.is_a?(EventHandler) && handler.method(:on_message).owner == EventHandler
        raise ArgumentError, "#{handler.class} does not define on_message(context, message) itself"
      end

      undefined = ErrorClassification.undefined_methods(handler)
      return if undefined.empty?

      raise NameError, "#{handler.class} classifies errors of #{undefined.join(", ")}, but does not define #{undefined.one? ? "it" : "them"}"
    end
  end
end
