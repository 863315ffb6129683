# frozen_string_literal: true

require "securerandom"

# Clients, topics and handlers in mock mode. Topic and group are new ones in each example.
module MockMode
  class BlockHandler < Prosody::EventHandler
    def initialize(&block)
      super()
      @block = block
    end

    def on_message(context, message)
      @block.call(context, message)
    end
  end

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
      retry_base: 0.005, shutdown_timeout: 2, **options)
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

  # Keys that go to different partitions of a topic (there are four).
  def keys_of_partitions
    seen = {}
    queue = Thread::Queue.new
    probe = "probe-#{SecureRandom.hex(4)}"
    client = consumer(group_id: "#{group}-probe", subscribed_topics: probe)
    client.subscribe(handler { |_, message| queue << message })
    24.times { |number| sender.send_message(probe, "key-#{number}", number) }
    pops(queue, 24).each { |message| seen[message.partition] ||= message.key }
    client.unsubscribe
    seen.values
  end

  def clients
    @clients ||= []
  end

  def unsubscribe_all
    clients.each(&:unsubscribe)
  end
end
