# frozen_string_literal: true

# For specs of the pure Ruby part: they run without the native extension.
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))

require "prosody/version"
require "prosody/errors"
require "prosody/logging"
require "prosody/error_classification"
require "prosody/event_handler"
require "prosody/state_definition"
require "prosody/definitions"
require "prosody/configuration"

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.expect_with(:rspec) { |expectations| expectations.include_chain_clauses_in_custom_matcher_descriptions = true }
end

# ActiveSupport::Duration as far as prosody looks at it: no Numeric, but answers for the number inside.
class FakeDuration
  def initialize(seconds)
    @seconds = seconds
  end

  def is_a?(type)
    @seconds.is_a?(type)
  end

  def to_f
    @seconds.to_f
  end

  def to_r
    @seconds.to_r
  end

  def real?
    true
  end
end
