# frozen_string_literal: true

require "logger"

# A logger that can be waited for.
class LogLines < Logger
  LEVELS = %w[DEBUG INFO WARN ERROR FATAL ANY].freeze

  def initialize
    super(nil)
    @lines = []
    @mutex = Mutex.new
    @changed = ConditionVariable.new
  end

  def add(severity, message = nil, progname = nil)
    message = block_given? ? yield : progname if message.nil?
    @mutex.synchronize do
      @lines << "#{LEVELS.fetch(severity)} #{message}"
      @changed.broadcast
    end
    true
  end

  def to_a
    @mutex.synchronize { @lines.dup }
  end

  # Forgets what was said so far.
  def clear
    @mutex.synchronize { @lines.clear }
  end

  def grep(pattern)
    to_a.grep(pattern)
  end

  # The first line that matches, as soon as it is there.
  def wait_for(pattern, seconds = Waiting::SECONDS)
    wait_for_count(pattern, 1, seconds).first
  end

  # The lines that match, as soon as there are so many.
  def wait_for_count(pattern, count, seconds = Waiting::SECONDS)
    give_up_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    @mutex.synchronize do
      loop do
        found = @lines.grep(pattern)
        return found if found.size >= count

        left = give_up_at - Process.clock_gettime(Process::CLOCK_MONOTONIC)
        raise "no #{count} log lines #{pattern.inspect} within #{seconds} s in:\n#{@lines.last(30).join("\n")}" if left <= 0

        @changed.wait(@mutex, left)
      end
    end
  end
end
