# frozen_string_literal: true

require "open3"
require "prosody"

# What the benchmarks share: a topic, the raw peer, the clock.
module Bench
  ROOT = File.expand_path("..", __dir__)
  TARGET = ENV.fetch("CARGO_TARGET_DIR") { File.join(ENV.fetch("XDG_CACHE_HOME", File.join(Dir.home, ".cache")), "prosody/target") }

  module_function

  def broker
    ENV.fetch("PROSODY_TEST_BROKER") { abort "PROSODY_TEST_BROKER names the broker; `rake bench:NAME` starts one" }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # A new topic, made by the broker's own tool.
  def topic(name, partitions)
    topic = "bench-#{name}-#{Process.pid}"
    directory = ENV.fetch("PROSODY_TEST_BROKER_DIR") { abort "PROSODY_TEST_BROKER_DIR is the broker's directory; `rake bench:NAME` sets it" }
    system(File.join(ROOT, "bin/kafka"), "topic", directory, topic, partitions.to_s, out: File::NULL, exception: true)
    topic
  end

  def peer(command, *arguments)
    @peer ||= build_peer
    output, status = Open3.capture2(@peer, command, broker, *arguments.map(&:to_s))
    abort "raw_peer #{command} failed" unless status.success?
    output
  end

  def build_peer
    system({"CARGO_TARGET_DIR" => TARGET}, "cargo", "build", "--quiet", "--release", "-p", "prosody-kafka", "--example", "raw_peer",
      chdir: ROOT, exception: true)
    File.join(TARGET, "release/examples/raw_peer")
  end

  def client(**options)
    Prosody.logger = Logger.new($stderr, level: Logger::ERROR)
    Prosody::Client.new(bootstrap_servers: broker, source_system: "bench", store: :memory, **options)
  end

  def median(values)
    values.sort[values.size / 2]
  end

  def header
    puts "ruby #{RUBY_VERSION}#{" YJIT" if defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?}, async #{Async::VERSION}, json #{JSON::VERSION}, #{Etc.nprocessors} cores"
  end
end
require "etc"
