# frozen_string_literal: true

require "securerandom"
require_relative "block_handler"

# Clients, topics and handlers on a real broker. Topic and group are new ones in each example.
module KafkaMode
  # Members hear of a rebalance at their next heartbeat, and crashed ones are missed after the session's timeout.
  QUICK_GROUP = {"session.timeout.ms" => 6000, "heartbeat.interval.ms" => 100}.freeze

  def log
    @log ||= LogLines.new
  end

  # Where the example's clients connect to.
  def address
    Broker.address
  end

  # The example's topic; made with 4 partitions when it is first asked for, unless {#make_topics} did.
  def topic
    @topic ||= make_topic
  end

  def make_topic(partitions: 4, settings: {})
    "topic-#{SecureRandom.hex(4)}".tap { |name| Broker.create_topics({name => partitions}, settings, at: address) }
  end

  def group
    @group ||= "group-#{SecureRandom.hex(4)}"
  end

  def handler(&block)
    BlockHandler.new(&block)
  end

  # What a consumer of the example is made with.
  def consumer_options
    {bootstrap_servers: address, group_id: group, store: :memory, source_system: "spec", retry_base: 0.005,
     shutdown_timeout: 2, commit_interval: 0.2, probe_port: nil, telemetry_enabled: false, kafka_config: QUICK_GROUP}
  end

  # A client that is configured to consume the example's topic, and is unsubscribed after the example.
  def consumer(**options)
    options = {subscribed_topics: topic}.merge(options) unless options.key?(:subscribed_topics)
    client = Prosody::Client.new(**consumer_options, **options)
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
    @sender ||= Prosody::Client.new(bootstrap_servers: address, source_system: "spec", send_timeout: 10)
  end

  def produce(key, payload, **options)
    sender.send_message(topic, key, payload, **options)
  end

  # Sends bytes as they are, which the public API never does.
  def produce_raw(key, payload, headers = nil, topic: self.topic, client: sender)
    bridge = Prosody.const_get(:Bridge)
    bridge.await(client.instance_variable_get(:@native).send_record(topic, key, payload, headers, nil))
  end

  def clients
    @clients ||= []
  end

  def unsubscribe_all
    clients.each(&:unsubscribe)
  end
end
