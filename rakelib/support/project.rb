# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "shellwords"
require "tmpdir"

# What the rake tasks stand on: places, child processes, Rubies with their gems, cargo, the test
# broker and the sum of all checks.
module Project
  ROOT = File.expand_path("../..", __dir__)
  CACHE = File.join(ENV.fetch("XDG_CACHE_HOME", File.join(Dir.home, ".cache")), "prosody")
  # Gems and a second Ruby for machines that do not reach RubyGems; often it is not there.
  SHARED = File.expand_path(ENV.fetch("PROSODY_SHARED", File.join(ROOT, "../shared")))
  # Outside of the checkout, so that a fresh clone does not compile librdkafka again.
  TARGET = File.expand_path(ENV.fetch("CARGO_TARGET_DIR", File.join(CACHE, "target")))
end

require_relative "report"
require_relative "shell"
require_relative "runtime"
require_relative "cargo"
require_relative "broker"
require_relative "specs"
require_relative "scenarios"
require_relative "packaging"
