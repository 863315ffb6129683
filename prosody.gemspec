# frozen_string_literal: true

require_relative "lib/prosody/version"

Gem::Specification.new do |spec|
  spec.name = "prosody"
  spec.version = Prosody::VERSION
  spec.authors = ["prosody contributors"]
  spec.summary = "Kafka consumers with keyed state, timers and retries, on a Rust core"
  spec.description = "A Kafka consumer framework: events of one key in order, keys side by side on fibers, " \
    "durable state and timers for each key, retries and deferral; the core is written in Rust."
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  # The first one that builds an extension with cargo.
  spec.required_rubygems_version = ">= 3.3.11"
  spec.metadata = {"rubygems_mfa_required" => "true"}

  # Not `git ls-files`: a build from an unpacked archive has to work. Cargo wants every member of
  # the workspace, and nothing compiled may be in the package.
  spec.files = Dir.chdir(__dir__) do
    Dir[
      "exe/*",
      "lib/**/*.rb",
      "sig/**/*.rbs",
      "{ext,crates}/**/{Cargo.toml,build.rs,README.md}",
      "{ext,crates}/*/{src,benches}/**/*",
      "Cargo.{toml,lock}",
      "{README,CHANGELOG,ARCHITECTURE}.md",
      "LICENSE"
    ].select { |path| File.file?(path) }.sort
  end
  spec.bindir = "exe"
  spec.executables = ["prosody-info"]
  spec.extensions = ["ext/prosody/Cargo.toml"]

  # Debian 12 has 1.30; Ruby 3.3 and later get 2.x.
  spec.add_dependency "async", ">= 1.30", "< 3"
  # Default gems today; each Ruby may stop to ship them.
  spec.add_dependency "json", ">= 2.6", "< 4"
  spec.add_dependency "logger", ">= 1.5", "< 2"
end
