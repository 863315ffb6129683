# frozen_string_literal: true

# scenario: every ruby

# Case 26c: a long run at full concurrency, with 32 (the default) and with 256 handlers at once that read and write state,
# publish it, send and wait, ends with every event handled, and with exactly what the events of each key add up to. In
# mock mode, there also on the store that delays and fails its calls, where that build is; and on a broker.
require_relative "../support/scenario"

EVENTS = 100_000
KEYS = 1_000
TOTAL = Prosody.value("total")
LAST = Prosody.value("last")
HOSTILE = File.exist?(File.join(__dir__, "../../lib/prosody", RUBY_VERSION[/\A\d+\.\d+/], "hostile/prosody.#{RbConfig::CONFIG["DLEXT"]}"))

# Adds up what comes, per key, in state; the last event of a key says what came out.
class Adding < Prosody::EventHandler
  attr_reader :ends, :most_at_once

  def initialize(events, max_concurrency, client, echo)
    super()
    @events = events
    @max_concurrency = max_concurrency
    @client = client
    @echo = echo
    @ends = Thread::Queue.new
    @at_once = @most_at_once = 0
  end

  def on_message(context, message)
    @most_at_once = [@most_at_once, @at_once += 1].max
    # The first ones wait for each other.
    sleep(0.005) until @most_at_once == @max_concurrency
    number = message.payload
    total = context.state(TOTAL)
    total.set((total.get || 0) + number)
    sleep(0.001) if number % 3 == 0
    context.state(LAST).tap { |last| last.set({"number" => number, "before" => last.get&.fetch("number")}) }
    context.state(LAST).commit if number % 7 == 0
    @client.send_message(@echo, message.key, number) if number % 5 == 0
    @ends << [message.key, (total.get if number >= @events - KEYS)] if number % 500 == 0 || number >= @events - KEYS
  ensure
    @at_once -= 1
  end
end

def run(events, max_concurrency, on_broker: false)
  Prosody.reset_mock
  topic, echo = on_broker ? Array.new(2) { make_topic } : %w[topic echo]
  options = {topic: topic, max_concurrency: max_concurrency, max_uncommitted: 2 * max_concurrency, state_collections: [TOTAL, LAST]}
  client = on_broker ? kafka_client(send_timeout: 30, **options) : mock_client(**options)
  handler = Adding.new(events, max_concurrency, client, echo)
  client.send_messages((0...events).lazy.map { |number| {topic: topic, key: "key-#{number % KEYS}", payload: number} })
  client.subscribe(handler)
  totals = {}
  while totals.size < KEYS
    # A busy machine may take long for all of them, but not for the next five hundred.
    key, total = pop(handler.ends, 60)
    totals[key] = total if total
  end
  expected = (0...events).group_by { |number| "key-#{number % KEYS}" }.transform_values(&:sum)
  check("#{max_concurrency} handlers at a time#{" on a broker" if on_broker}: #{events} events add up for each of #{KEYS} keys") { totals == expected }
  seconds = seconds { client.unsubscribe }
  check("the client stops (#{seconds.round(2)} s)") { seconds < 6 }
end

if ARGV == ["hostile"]
  # Every call of this store waits, and every tenth fails.
  log = Prosody.logger = LogLines.new
  [32, 256].each { |max_concurrency| run(EVENTS / 5, max_concurrency) }
  check("the store did make trouble") { log.wait_for(/sent again.*hostile store/) }
  exit
end

[32, 256].each { |max_concurrency| run(EVENTS, max_concurrency) }
[32, 256].each { |max_concurrency| run(EVENTS / 2, max_concurrency, on_broker: true) } if Broker.address
if HOSTILE
  done = system({"PROSODY_NATIVE_VARIANT" => "hostile"}, RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", __FILE__, "hostile")
  check("the same on a hostile store") { done }
else
  puts "the hostile build is not there: left out"
end
