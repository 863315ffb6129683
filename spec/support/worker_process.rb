# frozen_string_literal: true

require "json"
require "rbconfig"
require "set"
require "tempfile"

# A member of a group in a process of its own (rebalance_worker.rb), and what it tells of its handlers.
class WorkerProcess
  PROGRAM = File.join(__dir__, "rebalance_worker.rb")
  SECONDS = 30

  class << self
    # Ends those that an example has left behind.
    def end_all
      all.each(&:destroy)
      all.clear
    end

    # What all of them tell, in one place to wait at.
    def monitor
      @monitor ||= [Mutex.new, ConditionVariable.new]
    end

    # Waits until the block is true. It is asked whenever a worker has told something.
    def wait_until(what, seconds = SECONDS)
      mutex, changed = monitor
      give_up_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      mutex.synchronize do
        until yield
          left = give_up_at - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          raise "no #{what} within #{seconds} s\n#{all.map(&:log_tail).join("\n")}" if left <= 0

          changed.wait(mutex, left)
        end
      end
    end

    def next_number
      @number = (@number || 0) + 1
    end

    def all
      @all ||= []
    end
  end

  # @return [Set<Array>] what it has started and ended: topic, partition, offset
  attr_reader :started, :ended
  # @return [Hash{Integer => Integer}] how many runs have ended, by partition
  attr_reader :progress
  # @return [Integer]
  attr_reader :pid
  # @return [String] by what its handlers name it: process ids come again in long runs
  attr_reader :name
  # @return [String] what it does at SIGTERM
  attr_reader :on_term

  # @param path [String] where its handlers write
  # @param on_term [String] what it does at SIGTERM: "unsubscribe", "exit" without that, or "default": nothing of its own
  # @param client [Hash] options of Prosody::Client
  def initialize(path:, client:, kafka_config: {}, on_term: "unsubscribe")
    @started = Set.new
    @ended = Set.new
    @progress = Hash.new(0)
    @on_term = on_term
    @name = "p#{WorkerProcess.next_number}"
    arguments = JSON.generate(name: @name, path: path, on_term: on_term, client: client, kafka_config: kafka_config)
    @log = Tempfile.new("prosody-worker")
    reader, writer = IO.pipe
    # It ends with us, whatever becomes of us.
    lifeline, @lifeline = IO.pipe
    @pid = Process.spawn(RbConfig.ruby, PROGRAM, arguments, in: lifeline, out: writer, err: @log.path)
    [lifeline, writer].each(&:close)
    @reader = Thread.new { reader.each_line { |line| read(line.split) } }
    @reader.report_on_exception = true
    @waiter = Process.detach(@pid)
    WorkerProcess.all << self
  end

  def ready?
    @ready
  end

  # Sends SIGTERM and waits for the end.
  #
  # @return [Process::Status]
  def terminate(seconds = SECONDS)
    signal(:TERM)
    wait(seconds)
  end

  # Kills it, and returns when it is gone and all that it told is read.
  #
  # @return [Process::Status]
  def kill
    signal(:KILL)
    wait
  end

  def signal(name)
    Process.kill(name, @pid)
  end

  # @return [Process::Status]
  def wait(seconds = SECONDS)
    raise "process #{@name} did not end within #{seconds} s\n#{log_tail}" unless @waiter.join(seconds)

    @reader.join
    @waiter.value
  end

  def destroy
    signal(:KILL) if @waiter.alive?
    @waiter.join
    @reader.join
    @lifeline.close
    @log.close!
  rescue Errno::ESRCH
    nil
  end

  def log_text
    @log.path ? File.read(@log.path) : ""
  end

  def log_tail
    "process #{@name}:\n#{log_text.lines.last(15).join}"
  end

  private

  def read(words)
    mutex, changed = WorkerProcess.monitor
    mutex.synchronize do
      case words
      in ["ready"] then @ready = true
      in ["start", _, topic, partition, offset, _] then @started << [topic, Integer(partition), Integer(offset)]
      in ["end", _, topic, partition, offset, _]
        @ended << [topic, Integer(partition), Integer(offset)]
        @progress[Integer(partition)] += 1
      else nil
      end
      changed.broadcast
    end
  end
end
