# frozen_string_literal: true

module Project
  # The Kafka of the tests: the one that PROSODY_TEST_BROKER names, or one that is started at the
  # beginning, in the background, and stopped at the end.
  module Broker
    SCRIPT = File.join(ROOT, "bin/kafka")

    # Brokers that specs start for themselves, too, end with this run at the latest. Not PROSODY_KAFKA_…:
    # those are settings for librdkafka.
    ENV["KAFKA_OWNER_PID"] = Process.pid.to_s

    class << self
      def start
        return if ENV["PROSODY_TEST_BROKER"] || @starting

        @folder = Dir.mktmpdir("prosody-kafka-")
        @log = File.join(@folder, "start.log")
        # A group of its own: a Ctrl-C is ours to handle.
        @pid = Process.spawn(SCRIPT, "up", @folder, "auto", pgroup: true,
          in: File::NULL, out: File.join(@folder, "address"), err: @log)
        @starting = Process.detach(@pid)
        at_exit { stop }
      end

      # @return [String, nil] the bootstrap address; nil if Kafka did not start, which counts as failed
      def address
        start
        return ENV["PROSODY_TEST_BROKER"] if ENV["PROSODY_TEST_BROKER"]
        return if @failed

        puts "==> waiting for Kafka" if @starting.alive?
        @starting.value.success? ? announce : give_up
      end

      # @return [Boolean] false on a broker that is not ours
      def create_topic(name, partitions)
        return false unless @folder

        Shell.capture(SCRIPT, "topic", @folder, name, partitions.to_s)
        true
      end

      private

      def stop
        # A start that is still on its way would leave its broker behind.
        if @starting.alive?
          Process.kill(:TERM, -@pid)
          @starting.join
        end
        system(SCRIPT, "down", @folder)
        FileUtils.rm_rf(@folder)
      end

      def announce
        # For specs that crash the broker and start it again.
        ENV["PROSODY_TEST_BROKER_DIR"] = @folder
        ENV["PROSODY_TEST_BROKER"] = File.read(File.join(@folder, "address")).strip
      end

      def give_up
        @failed = true
        warn File.read(@log)
        Report.count("Kafka", failed: 1, note: "it did not start")
        nil
      end
    end
  end
end
