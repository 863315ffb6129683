# frozen_string_literal: true

require "securerandom"
require "zlib"
require_relative "block_handler"

# Clients, topics and handlers in mock mode. Topic and group are new ones in each example.
module MockMode
  # Whether the store of this build fails every tenth call.
  def self.hostile?
    ENV["PROSODY_NATIVE_VARIANT"] == "hostile"
  end

  def log
    @log ||= LogLines.new
  end

  def topic
    @topic ||= "topic-#{SecureRandom.hex(4)}"
  end

  def group
    @group ||= "group-#{SecureRandom.hex(4)}"
  end

  def handler(&block)
    BlockHandler.new(&block)
  end

  # A client that is configured to consume the example's topic, and is unsubscribed after the example.
  def consumer(**options)
    client = Prosody::Client.new(mock: true, group_id: group, subscribed_topics: topic, source_system: "spec",
      retry_base: 0.005, max_retry_delay: 0.1, shutdown_timeout: 2, **options)
    clients << client
    client
  end

  # A consumer that is subscribed with the block as its handler.
  def consume(**options, &block)
    client = consumer(**options)
    client.subscribe(handler(&block))
    client
  end

  # A client that only sends.
  def sender
    @sender ||= Prosody::Client.new(mock: true)
  end

  def produce(key, payload, **options)
    sender.send_message(topic, key, payload, **options)
  end

  # Sends bytes as they are, which the public API never does.
  def produce_raw(key, payload, headers = nil)
    bridge = Prosody.const_get(:Bridge)
    bridge.await(sender.instance_variable_get(:@native).send_record(topic, key, payload, headers, nil))
  end

  # The partition that the in-process log, as librdkafka's consistent partitioner, puts a key into.
  def partition_of(key)
    Zlib.crc32(key) % 4
  end

  # A key for each partition of a topic.
  def keys_of_partitions
    Array.new(4) { |partition| ("a".."z").find { |key| partition_of(key) == partition } }
  end

  def clients
    @clients ||= []
  end

  def unsubscribe_all
    clients.each(&:unsubscribe)
  end
end
