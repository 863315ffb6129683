# frozen_string_literal: true

# For specs of the whole gem in mock mode: each runs against the compiled extension, without broker or store.
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

require "prosody"
require "timeout"
require_relative "support/waiting"
require_relative "support/log_lines"
require_relative "support/mock_mode"
require_relative "support/child_process"

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.include(Waiting, :mock)
  config.include(MockMode, :mock)
  config.include(ChildProcess, :mock)

  # What hangs must not hang the suite.
  config.around(:each, :mock) { |example| Timeout.timeout(60) { example.run } }

  config.before(:each, :mock) { Prosody.logger = log }

  config.after(:each, :mock) do |example|
    unsubscribe_all
    Prosody.reset_mock
    # What this example logged belongs to its own logger.
    Prosody.const_get(:Bridge).flush_log
    Prosody.logger = nil
    example.metadata[:extra_failure_lines] = ["log:", *log.to_a.last(20).map { |line| line[0, 300] }] if example.exception
  end
end
