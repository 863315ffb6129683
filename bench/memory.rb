# frozen_string_literal: true

# Rate and resident memory with a backlog on 1 partition and on 1,000, default configuration, while the handler of one
# event never returns: no-op handlers, and slow ones (everything that may be taken is taken). Each row is a process of
# its own. Prints the highest resident memory of that process and how much of it there was before `subscribe`.

require "json"
require "rbconfig"
require_relative "support"

BACKLOGS = {100 => {1 => 1_000_000, 1000 => 2_000_000}, 100_000 => {1 => 6_000, 1000 => 12_000}}.freeze
SLOW_SECONDS = 0.05
# How long a row runs at most; slow handlers never come to the end.
ROW_SECONDS = 20

# Never returns from the first event, and takes its time for all others.
class OneNeverReturns < Prosody::EventHandler
  attr_reader :count

  def initialize(takes)
    super()
    @takes = takes
    @count = 0
  end

  def on_message(_context, _message)
    @count += 1
    sleep if @count == 1
    sleep(@takes) if @takes > 0
  end
end

def memory(name)
  Integer(File.read("/proc/self/status")[/^#{name}:\s+(\d+) kB/, 1]) / 1024.0
end

# In the row's own process, which ends here.
def consume(topic, takes)
  client = Bench.client(group_id: "#{topic}-#{Process.pid}", subscribed_topics: topic, shutdown_timeout: 1)
  handler = OneNeverReturns.new(takes)
  before = memory("VmRSS")
  client.subscribe(handler)
  sleep(0.005) until handler.count > 0
  from = Bench.now
  seen, seen_at = 0, from
  while Bench.now - from < ROW_SECONDS && Bench.now - seen_at < 3
    sleep(0.1)
    seen, seen_at = handler.count, Bench.now if handler.count > seen
  end
  puts JSON.generate(rate: seen / (seen_at - from), seen: seen, before: before, peak: memory("VmHWM"), now: memory("VmRSS"))
  # What never returns is not waited for.
  $stdout.flush
  exit!(0)
end

consume(ARGV[0], Float(ARGV[1])) unless ARGV.empty?

Bench.header
puts "payload   partitions   handler         events/s    handled   before, highest, at the end (MB)"
BACKLOGS.each do |bytes, backlogs|
  backlogs.each do |partitions, messages|
    topic = Bench.topic("memory-#{bytes}-#{partitions}", partitions)
    Bench.peer("fill", topic, messages, 10_000, *(bytes unless bytes == 100))
    [0, SLOW_SECONDS].each do |takes|
      row = IO.popen([RbConfig.ruby, *("--yjit" if defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?), "-Ilib", __FILE__, topic, takes.to_s], &:read)
      figures = JSON.parse(row.lines.last || abort("no figures: #{row}"), symbolize_names: true)
      puts format("%7d   %10d   %-13s %10d %10d   %5.0f %5.0f %5.0f", bytes, partitions, takes.zero? ? "no-op" : "sleeps #{takes}",
        figures[:rate], figures[:seen], *figures.values_at(:before, :peak, :now))
    end
  end
end
