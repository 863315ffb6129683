# frozen_string_literal: true

# What files of spec/scenarios share. Each is a program of its own: it ends with exit code 0 if all
# its checks held, with 1 at the first that did not, and with 77 if the machine lacks what it needs.
# How rake runs them, and what their first comments mean, is in rakelib/support/scenarios.rb.
$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
$stdout.sync = true

require "etc"
require "logger"
require "prosody"
require "securerandom"
require "timeout"
require_relative "block_handler"
require_relative "broker"
require_relative "log_lines"
require_relative "waiting"

# A scenario's vocabulary.
module Scenario
  include Waiting

  SKIPPED = 77
  # Groups notice members that come, go and crash quickly.
  QUICK_GROUP = {"session.timeout.ms" => 6000, "heartbeat.interval.ms" => 500}.freeze

  # Without any gem: a thread runs a fiber, another one forks, and the child's collector finds the stack of the first.
  RUBY_3_1_FORKS = "Ruby 3.1 crashes in children that are forked while a thread is in a fiber"

  # Programs that a scenario starts end when this does.
  LIFELINE = IO.pipe

  # A check that did not hold.
  class Failed < StandardError; end

  # Ends the program as skipped.
  def skip(reason)
    puts reason
    exit!(SKIPPED)
  end

  # @return [String] address of the broker that scenarios share
  def broker
    Broker.address || skip("no broker: PROSODY_TEST_BROKER is not set")
  end

  # Loads a gem that is not prosody's own.
  def need_gem(name)
    gem name
    require name
  rescue LoadError
    skip("the #{name} gem is not installed for this Ruby")
  end

  def check(what, holds = yield)
    raise Failed, "does not hold: #{what}" unless holds

    puts "ok: #{what}"
  end

  # @return [Object] what the block returns once it is true
  def wait_until(what, seconds = SECONDS)
    give_up_at = monotonic + seconds
    until (result = yield)
      raise Failed, "within #{seconds} s not: #{what}" if monotonic > give_up_at

      sleep(0.01)
    end
    result
  end

  # @return [Integer] this process's resident memory, in bytes
  def resident_bytes
    Integer(File.read("/proc/self/statm").split[1]) * Etc.sysconf(Etc::SC_PAGESIZE)
  end

  # @return [Integer] threads of this process, Ruby's and others
  def threads
    Dir.children("/proc/self/task").size
  end

  def new_name(kind)
    "#{kind}-#{SecureRandom.hex(4)}"
  end

  def make_topic(partitions: 4, settings: {})
    new_name("topic").tap { |name| Broker.create_topics({name => partitions}, settings) }
  end

  # A client in mock mode.
  def mock_client(topic: "topic", **options)
    Prosody::Client.new(mock: true, group_id: "group", subscribed_topics: topic, source_system: "scenario",
      probe_port: nil, **options)
  end

  # A client on the shared broker.
  def kafka_client(topic:, group: new_name("group"), **options)
    options = {kafka_config: QUICK_GROUP, shutdown_timeout: 5, send_timeout: 30}.merge(options)
    Prosody::Client.new(bootstrap_servers: broker, group_id: group, subscribed_topics: topic, store: :memory,
      source_system: "scenario", probe_port: nil, **options)
  end

  # Never returns, whatever interrupts it.
  def never_return
    sleep
  rescue Exception # rubocop:disable Lint/RescueException
    retry
  end

  # Starts a program that has this vocabulary. It ends with whoever started it.
  #
  # @return [Array(Integer, IO)] its process id, and what it writes
  def start_program(text, *arguments)
    reader, writer = IO.pipe
    text = "require #{__FILE__.dump}\nThread.new { $stdin.read && exit!(1) }\n#{text}"
    pid = spawn(RbConfig.ruby, "-e", text, *arguments, in: LIFELINE.first, out: writer, err: File::NULL)
    writer.close
    [pid, reader]
  end

  # @return [Integer, String] how a forked child that runs the block ended: exit code, or what else became of it
  def end_of_child(seconds = 10, &block)
    child = fork(&block)
    Timeout.timeout(seconds) { Process.wait(child) }
    $?.exitstatus || "signal #{$?.termsig}"
  rescue Timeout::Error
    Process.kill(:KILL, child)
    Process.wait(child)
    "did not end within #{seconds} s"
  end
end

include Scenario # rubocop:disable Style/MixinUsage
