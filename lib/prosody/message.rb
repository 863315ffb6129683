# frozen_string_literal: true

module Prosody
  # A message of a Kafka topic. Handlers are given one; it stays readable after they have ended.
  #
  # @!method topic
  #   @return [String] name of the topic
  # @!method partition
  #   @return [Integer] number of the partition
  # @!method offset
  #   @return [Integer] offset within the partition
  # @!method key
  #   @return [String] the key, "" for a message without key
  class Message
    # When the message was produced, to the millisecond, by the producer's or the broker's clock as the topic
    # is configured.
    #
    # @return [Time]
    def timestamp
      Time.at(0, timestamp_ms, :millisecond)
    end

    # The payload, parsed from JSON: Hash with String keys, Array, String, Integer, Float, true, false or nil
    # (JSON `null` and tombstones). Parsed once per attempt, on first call; a handler may change it. Never
    # fails: what does not decode does not reach a handler.
    #
    # @return [Object]
    def payload
      return @payload if defined?(@payload)

      json = payload_json
      @payload = json && JSONText.parse(json)
    end

    # The headers, the last one where a name comes twice. Values are binary Strings, nil for a header without
    # value.
    #
    # @return [Hash{String => String, nil}] frozen
    def headers
      @headers ||= header_pairs.freeze
    end

    # Whether it is the same message: by topic, partition and offset.
    #
    # @param other [Object]
    # @return [Boolean]
    def ==(other)
      other.is_a?(Message) && offset == other.offset && partition == other.partition && topic == other.topic
    end
    alias_method :eql?, :==

    # @return [Integer]
    def hash
      [topic, partition, offset].hash
    end

    # Without the payload, which may be large or private.
    #
    # @return [String]
    def inspect
      "#<Prosody::Message topic=#{topic.inspect} partition=#{partition} offset=#{offset} key=#{key.inspect}>"
    end
    alias_method :to_s, :inspect

    # @!visibility private
    def initialize_copy(_other)
      raise TypeError, "Prosody::Message cannot be copied: it stands for one place in a log; copy its payload instead"
    end

    # @!visibility private
    def dup
      initialize_copy(self)
    end

    # @!visibility private
    def clone(freeze: nil)
      initialize_copy(self)
    end

    # @!visibility private
    def marshal_dump
      raise TypeError, "Prosody::Message cannot be marshalled: marshal topic, partition, offset, or its payload"
    end
  end
end
