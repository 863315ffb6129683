# frozen_string_literal: true

require "rbconfig"

# Ruby programs in processes of their own, for what one process cannot show: exits, signals, forks.
module ChildProcess
  ROOT = File.expand_path("../..", __dir__)

  Result = Struct.new(:status, :output, :seconds)

  PRELUDE = <<~RUBY
    require "prosody"
    require "timeout"
    $stdout.sync = true
    Prosody.logger = Logger.new($stderr, level: Logger::WARN)
    TOPIC = "topic"
    def new_client(**options)
      Prosody::Client.new(mock: true, group_id: "group", subscribed_topics: TOPIC, source_system: "spec", **options)
    end
    class BlockHandler < Prosody::EventHandler
      def initialize(&block)
        super()
        @block = block
      end

      def on_message(context, message)
        @block.call(context, message)
      end
    end
    # The exit code of a forked child that runs the block, ends as every process does, and must do so in time.
    def exit_code_of_child(seconds = 10, &block)
      child = fork(&block)
      Timeout.timeout(seconds) { Process.wait(child) }
      $?.exitstatus || "signal \#{$?.termsig}"
    rescue Timeout::Error
      Process.kill(:KILL, child)
      "did not end within \#{seconds} s"
    end
  RUBY

  # Runs a program and waits for its end. The block, if any, is given the process id and the output to read from.
  def ruby(program, seconds: 30, **environment)
    run_command([RbConfig.ruby, "-I#{ROOT}/lib", "-e", PRELUDE + program], seconds, environment)
  end

  def run_command(command, seconds, environment = {})
    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    reader, writer = IO.pipe
    pid = Process.spawn(environment.transform_keys(&:to_s), *command, out: writer, err: writer)
    writer.close
    output = +""
    status = Timeout.timeout(seconds) do
      while (part = reader.gets)
        output << part
        yield pid, part if block_given?
      end
      Process.wait2(pid).last
    end
    Result.new(status, output, Process.clock_gettime(Process::CLOCK_MONOTONIC) - from)
  rescue Timeout::Error
    Process.kill(:KILL, pid)
    Process.wait(pid)
    raise "process did not end within #{seconds} s; its output:\n#{output}"
  ensure
    reader&.close
  end
end
