# frozen_string_literal: true

desc "Every check of the Rust side"
task rust: ["rust:fmt", "rust:clippy", "rust:test"]

namespace :rust do
  # The extension's package has no tests of its own: what it does shows in spec/.
  tested = %w[--workspace --exclude prosody --locked]

  # A minimal toolchain has neither; that is no fault of this checkout.
  there = lambda do |component, name|
    Project::Shell.run("cargo", component, "--version") { nil }.ok? ||
      Project::Report.skip(name, "not installed (rustup component add rustfmt clippy)")
  end

  task :fmt do
    Project::Report.command("cargo fmt", "cargo", "fmt", "--all", "--check") if there.call("fmt", "cargo fmt")
  end

  task :clippy do
    next unless there.call("clippy", "cargo clippy")

    Project::Report.cargo("cargo clippy", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings")
  end

  desc "cargo test, with a real Kafka"
  task :test do
    # Kafka starts while the tests compile.
    Project::Broker.start
    next unless Project::Report.cargo("cargo test: compilation", "test", *tested, "--no-run", count_success: false)

    broker = Project::Broker.address
    Project::Report.heading("cargo test")
    # The script is for tests that crash a broker of their own.
    env = {"PROSODY_TEST_BROKER" => broker, "PROSODY_TEST_KAFKA" => Project::Broker::SCRIPT}
    result = Project::Cargo.run("test", *tested, "--no-fail-fast", env: env, timeout_s: 1800)
    Project::Report.cargo_tests(result)
  end
end
