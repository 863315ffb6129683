# frozen_string_literal: true

# scenario: every ruby

# Case 26b: what prosody needs of a fiber's stack is little. Sends, state and waiting work on the smallest stacks that
# Ruby gives fibers, and on ordinary ones they touch hardly more than a fiber that only sleeps.
require_relative "../support/scenario"

SMALLEST = {"RUBY_FIBER_VM_STACK_SIZE" => "16384", "RUBY_FIBER_MACHINE_STACK_SIZE" => "131072"}.freeze
FIBERS = 64
KIB_MAX = 32
TOTAL = Prosody.value("total")

# Everything that a handler can ask of us.
class Everything < Prosody::EventHandler
  attr_reader :ends

  def initialize(target)
    super()
    @target = target
    @ends = Thread::Queue.new
  end

  def on_message(context, message)
    total = context.state(TOTAL)
    total.set((total.get || 0) + 1)
    total.commit
    Async::Task.current.async { context.on_cancel }
    @client.send_message(@target, message.key, message.payload)
    @client.send_messages([{topic: @target, key: message.key, payload: [[[[total.get]]]]}])
    sleep(0.01)
    raise "try again" if total.get.odd?

    @ends << message.key
  end

  def run(client)
    @client = client
    client.subscribe(self)
  end
end

def send_in_fibers(client, topic)
  in_fibers { |number| 10.times { client.send_message(topic, "key-#{number}", {"text" => "x" * 100}) } }
end

def in_fibers
  ended = 0
  Async do |task|
    Array.new(FIBERS) do |number|
      task.async do
        yield number
        ended += 1
      end
    end.each(&:wait)
  end
  check("#{FIBERS} fibers come to their end") { ended == FIBERS }
end

# How much of the fibers' stacks was ever touched, in KiB. They are the mappings of which there are most of one size;
# a few others may have that size by chance.
def touched_stacks
  mappings = File.read("/proc/self/smaps").split(/^(?=\h+-\h+ )/).select { |mapping| mapping.match?(/\A\h+-\h+ rw-p 0+ /) }
  by_size = mappings.group_by { |mapping| mapping[/^Size: +(\d+)/, 1] }
  stacks = by_size.values.max_by(&:size).map { |mapping| mapping[/^Rss: +(\d+)/, 1].to_i }
  (stacks.size < FIBERS / 2) ? skip("the stacks of fibers cannot be told from other memory here") : stacks.sort[-4]
end

def depth
  Fiber.new { descend(0) }.resume
end

def descend(level)
  descend(level + 1)
rescue SystemStackError
  level
end

def work(make, topic, target)
  client = make.call(topic: topic, state_collections: TOTAL, retry_base: 0.01)
  send_in_fibers(client, topic)
  handler = Everything.new(target)
  handler.run(client)
  keys = Array.new(FIBERS * 10) { pop(handler.ends, 30) }
  check("handlers come to their end") { keys.uniq.size == FIBERS }
  client.unsubscribe
  check("so do fibers that do not run on our scheduler") do
    sender = make.call(topic: topic)
    Fiber.new { sender.send_message(topic, "key", 1) }.resume
    true
  end
end

if ARGV == ["work"]
  puts "fibers recurse to #{depth} levels"
  Prosody.logger = Logger.new(nil)
  work(->(**options) { mock_client(group_id: new_name("group"), **options) }, "topic", "target")
  work(->(**options) { kafka_client(send_timeout: 30, **options) }, make_topic, make_topic) if Broker.address
  exit
end

levels = [{}, SMALLEST].map do |stacks|
  output = IO.popen([stacks, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", __FILE__, "work"], &:read)
  check("everything works with #{stacks.empty? ? "ordinary stacks" : stacks}:\n#{output.gsub(/^/, "    ")}") { $?.success? }
  output[/to (\d+) levels/, 1].to_i
end
check("the smallest are small") { levels[1] * 3 < levels[0] }

skip("no /proc/self/smaps on this system, the rest holds") unless File.readable?("/proc/self/smaps")
client, topic = Broker.address ? [kafka_client(topic: make_topic, send_timeout: 30), make_topic] : [mock_client, "topic"]
client.send_message(topic, "key", 1)
in_fibers { sleep(0.01) }
asleep = touched_stacks
send_in_fibers(client, topic)
sending = touched_stacks
check("a fiber that sends touches #{sending} KiB of its stack, one that sleeps #{asleep} KiB") { sending - asleep <= KIB_MAX }
