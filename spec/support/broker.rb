# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "kafka_protocol"

# The Kafka that specs share, and brokers of their own for specs that crash one.
module Broker
  ROOT = File.expand_path("../..", __dir__)
  # Another script with the same verbs may stand in.
  SCRIPT = ENV.fetch("PROSODY_TEST_KAFKA_SCRIPT", File.join(ROOT, "bin/kafka"))

  # A broker of its own, in a temporary folder and on a free port; dies with this process.
  class Own
    # @return [String]
    attr_reader :address

    def initialize
      @folder = Dir.mktmpdir("prosody-spec-kafka-")
      up
    end

    # Starts it, again after {#kill}, and returns when it serves.
    def up
      @address = run("up", *("auto" unless @address)).lines.last.strip
    end

    # Crashes it.
    def kill
      run("kill")
    end

    def remove
      run("kill")
      FileUtils.rm_rf(@folder)
    end

    private

    def run(verb, *arguments)
      # A file, not a pipe: the broker inherits it and would keep a pipe open.
      output = File.join(@folder, "output")
      done = system({"KAFKA_OWNER_PID" => Process.pid.to_s}, SCRIPT, verb, @folder, *arguments, out: output, err: %i[child out])
      text = File.read(output)
      raise "#{SCRIPT} #{verb} failed: #{text}" unless done

      text
    end
  end

  class << self
    def address
      ENV["PROSODY_TEST_BROKER"]
    end

    def protocol(at: address)
      KafkaProtocol.new(at)
    end

    def create_topics(topics, settings = {}, at: address)
      KafkaProtocol.new(at).create_topics(topics, settings)
    end

    # A broker that has just started takes seconds before it acknowledges the first record and has the first group.
    def warm_up(at: address)
      @warm ||= {}
      @warm[at] ||= begin
        topic = "warm-up-#{Process.pid}"
        create_topics({topic => 1}, at: at)
        client = Prosody::Client.new(bootstrap_servers: at, group_id: topic, subscribed_topics: topic, store: :memory,
          source_system: "spec", send_timeout: 60)
        client.send_message(topic, "key", {})
        handled = Thread::Queue.new
        handler = Object.new
        handler.define_singleton_method(:on_message) { |_, message| handled << message }
        client.subscribe(handler)
        Timeout.timeout(60) { handled.pop }
        client.unsubscribe
        true
      end
    end
  end
end
