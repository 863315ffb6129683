# frozen_string_literal: true

# seconds: 300

# Case 25: a million events of 100 keys, without ids, from a broker: each once, those of a key in order, and with flat
# memory, as long as no state is kept.
require_relative "../support/scenario"

EVENTS = 1_000_000
KEYS = 100
GROWTH_BYTES_MAX = 10 * 1024 * 1024

# Counts, and looks whether the numbers of each key go up as they were sent.
class Counting < Prosody::EventHandler
  attr_reader :sizes, :wrong, :progress

  def initialize
    super
    @count = 0
    @next = Array.new(KEYS) { |number| number }
    @sizes = []
    @wrong = []
    @progress = Thread::Queue.new
  end

  def on_message(_context, message)
    number = message.payload["number"]
    lane = number % KEYS
    @wrong << "#{number} in place of #{@next[lane]}" unless @next[lane] == number && message.key == "key-#{lane}"
    @next[lane] = number + KEYS
    @count += 1
    return unless @count % (EVENTS / 100) == 0

    # In a thread of its own: async 2 cannot read a file on Ruby 3.1.
    @sizes << Thread.new { resident_bytes }.value
    @progress << @count
  end
end

def fill(topic)
  client = Prosody::Client.new(bootstrap_servers: broker, source_system: "filler", send_timeout: 60)
  payload = {"text" => "x" * 70}
  client.send_messages((0...EVENTS).lazy.map { |number| {topic: topic, key: "key-#{number % KEYS}", payload: payload.merge("number" => number)} })
end

broker
Prosody.logger = Logger.new($stdout, level: Logger::ERROR)
topic = make_topic
filler = fork { fill(topic) }
at_exit { Process.kill(:KILL, filler) if filler }
client = kafka_client(topic: topic)
handler = Counting.new
client.subscribe(handler)
nil until pop(handler.progress, 60) == EVENTS
Process.wait(filler)
filler = nil
check("all #{EVENTS} are acknowledged") { $?.success? }
check("each comes once, those of a key in order #{handler.wrong.first(3)}") { handler.wrong.empty? }
kib = handler.sizes.map { |bytes| bytes / 1024 }
growth = handler.sizes.last - handler.sizes[24]
check("memory is flat: #{kib[24]} KiB after a quarter, #{kib.last} KiB at the end, at most #{kib.max} KiB") { growth < GROWTH_BYTES_MAX }
client.unsubscribe
