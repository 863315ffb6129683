# frozen_string_literal: true

module Prosody
  # Many messages at once: each is handed over before those before it are acknowledged, within bounds that hold for
  # endless enumerables too.
  #
  # @api private
  class SendBatch
    # What may wait for its acknowledgement.
    IN_FLIGHT_MAX = 10_000
    BYTES_MAX = 16 * 1024 * 1024
    # After so many failures no more are taken (spec: ruby-api).
    FAILURES_MAX = 1_000
    private_constant :IN_FLIGHT_MAX, :BYTES_MAX, :FAILURES_MAX

    # A message that is on its way.
    Sent = Struct.new(:index, :topic, :key, :ticket, :bytes)
    private_constant :Sent

    # @param encode [#call] payload, topic, key → JSON
    # @param start [#call] topic, key, JSON, headers → a ticket, or nil if it is acknowledged already
    def initialize(encode, start)
      @encode = encode
      @start = start
      @in_flight = Thread::Queue.new
      @bytes = 0
      @failures = []
    end

    # @param messages [#each]
    # @return [void]
    # @raise [SendError] lists what was not delivered
    def run(messages)
      index = -1
      messages.each do |message|
        hand_over(index += 1, message)
        Reactor.tick
        await_oldest while full?
        break if @failures.size >= FAILURES_MAX
      end
      await_oldest until @in_flight.empty?
      raise SendError.new(failures: @failures.sort_by { |failure| failure[:index] }) unless @failures.empty?
    ensure
      Bridge.forget(@in_flight.pop.ticket) until @in_flight.empty?
    end

    private

    def full?
      @in_flight.size >= IN_FLIGHT_MAX || @bytes >= BYTES_MAX
    end

    def hand_over(index, message)
      raise ArgumentError, "element is a #{message.class}; expected a Hash with topic:, key:, payload:, headers:" unless message.is_a?(Hash)

      topic, key = message.values_at(:topic, :key)
      json = @encode.call(message[:payload], topic, key)
      ticket = @start.call(topic, key, json, message[:headers])
      return unless ticket

      @bytes += json.bytesize
      @in_flight << Sent.new(index, topic, key, ticket, json.bytesize)
    rescue ArgumentError, Error => error
      failed(index, topic, key, error)
    end

    def await_oldest
      sent = @in_flight.pop
      @bytes -= sent.bytes
      Bridge.await(sent.ticket)
    rescue Error => error
      failed(sent.index, sent.topic, sent.key, error) if sent
    end

    def failed(index, topic, key, error)
      @failures << {index: index, topic: topic, key: key, reason: error.message}
    end
  end
  private_constant :SendBatch
end
