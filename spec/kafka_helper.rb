# frozen_string_literal: true

# For specs of the whole gem on a real broker, whose address is in PROSODY_TEST_BROKER.
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

require "prosody"
require "timeout"
require_relative "support/waiting"
require_relative "support/log_lines"
require_relative "support/broker"
require_relative "support/kafka_mode"
require_relative "support/worker_process"

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.include(Waiting, :kafka)
  config.include(KafkaMode, :kafka)

  config.before(:context, :kafka) do
    skip("PROSODY_TEST_BROKER is not set: bin/test starts a broker and sets it") unless Broker.address
    Prosody.logger = Logger.new(nil)
    Broker.warm_up
  end

  # What hangs must not hang the suite.
  config.around(:each, :kafka) { |example| Timeout.timeout(example.metadata.fetch(:seconds, 60)) { example.run } }

  config.before(:each, :kafka) { Prosody.logger = log }

  config.after(:each, :kafka) do |example|
    unsubscribe_all
    WorkerProcess.end_all
    # Clients that are gone may still have something to say.
    Prosody.logger = Logger.new(nil)
    example.metadata[:extra_failure_lines] = ["log:", *log.to_a.last(30)] if example.exception
  end
end
