# frozen_string_literal: true

# Counts the messages of each key, in memory that survives handler failures:
#   bin/quickstart                                         in mock mode, no broker needed
#   PROSODY_BOOTSTRAP_SERVERS=localhost:9092 bin/quickstart  on a real broker (topic "prosody-demo" must exist)

require "prosody"

COUNT = Prosody.value("count")
USERS = %w[ada grace edsger barbara].freeze
MESSAGES = 20

class CountingHandler < Prosody::EventHandler
  def initialize(done)
    super()
    @done = done
  end

  def on_message(context, message)
    count = context.state(COUNT)
    total = (count.get || 0) + 1
    count.set(total)
    puts "#{message.key}: #{message.payload["text"].ljust(12)} (message #{total} of this key, partition #{message.partition})"
    @done << true
  end
end

$stdout.sync = true
mock = !ENV.key?("PROSODY_BOOTSTRAP_SERVERS")
topic = ENV.fetch("PROSODY_DEMO_TOPIC", "prosody-demo")
client = Prosody::Client.new(mock: mock, store: :memory, group_id: "prosody-demo", source_system: "demo",
  subscribed_topics: topic, state_collections: COUNT)
done = Thread::Queue.new

puts mock ? "mock mode: everything happens in this process" : "broker: #{ENV["PROSODY_BOOTSTRAP_SERVERS"]}"
begin
  client.subscribe(CountingHandler.new(done))
  MESSAGES.times { |number| client.send_message(topic, USERS[number % USERS.size], {"text" => "greeting #{number}"}) }
  MESSAGES.times { done.pop }
  puts "all #{MESSAGES} messages handled"
rescue Interrupt
  puts "interrupted"
ensure
  client.unsubscribe
end
