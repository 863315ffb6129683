# frozen_string_literal: true

# A member of a group in a process of its own; WorkerProcess starts it. Its handler does what the message says
# ("take": seconds, "cancel": until it is told to end, "forever") and writes down when it starts and ends, for
# DeliveryChecker. It tells WorkerProcess the same by standard output.

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))

require "json"
require "prosody"

class RebalanceWorker < Prosody::EventHandler
  def initialize(name, path)
    super()
    @name = name
    @file = File.open(path, File::WRONLY | File::APPEND | File::CREAT)
  end

  def on_message(context, message)
    event = "#{@name} #{message.topic} #{message.partition} #{message.offset} #{message.key}"
    age = Time.now - message.timestamp
    note("start #{event}", now - age)
    ending = "stop"
    work(context, message.payload.fetch("take"))
    ending = "end"
  ensure
    note("#{ending} #{event}")
  end

  # @param sent [Float, nil] when the message was sent, on the same clock
  def note(text, sent = nil)
    write(text, now, *sent)
    $stdout.syswrite("#{text}\n")
  end

  # The log is what tells whose a partition is.
  def note_owner(line)
    kind, places = line.match(/(assigned|given up): (.+)\z/)&.captures
    places&.split(", ")&.each { |place| write("#{(kind == "assigned") ? "got" : "gave"} #{@name} #{place.tr("/", " ")}", now) }
  end

  private

  # One write each: other processes append to the same file, and lines must not mix.
  def write(text, *clocks)
    @file.syswrite(format("%s#{" %.6f" * clocks.size}\n", text, *clocks))
  end

  def work(context, take)
    case take
    when "cancel" then context.on_cancel
    when "forever" then sleep
    else take_seconds(take)
    end
  end

  # As a call to a database that nothing interrupts: whoever gives the partition up too early is found out.
  def take_seconds(seconds)
    until_time = now + seconds
    begin
      left = until_time - now
      sleep(left) if left > 0
    rescue Async::Stop
      retry
    end
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

options = JSON.parse(ARGV.fetch(0), symbolize_names: true)
Thread.new { $stdin.read && exit!(1) }
signals = Thread::Queue.new
trap("TERM") { signals << :term } unless options[:on_term] == "default"

worker = RebalanceWorker.new(options.fetch(:name), options.fetch(:path))
Prosody.logger = Logger.new($stderr, level: Logger::INFO)
Prosody.logger.formatter = lambda do |severity, _time, _program, text|
  worker.note_owner(text)
  "#{severity} #{text}\n"
end
client = Prosody::Client.new(**options.fetch(:client), kafka_config: options.fetch(:kafka_config).transform_keys(&:to_s))
client.subscribe(worker)
$stdout.syswrite("ready\n")
signals.pop
client.unsubscribe unless options[:on_term] == "exit"
worker.note("exit #{options.fetch(:name)}") unless options[:on_term] == "exit"
exit
