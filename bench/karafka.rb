# frozen_string_literal: true

# The peer that our users run today: Karafka in its best batch mode, counting and parsing the same messages, in the
# same run as prosody. Needs the gem karafka (KARAFKA_GEMS names a GEM_HOME that has it); nothing depends on it.

require "open3"
require "rbconfig"
require_relative "support"

MESSAGES = Integer(ENV.fetch("MESSAGES", 300_000))
ROUNDS = 3
GEMS = ENV.fetch("KARAFKA_GEMS") { abort "KARAFKA_GEMS names a GEM_HOME that has karafka" }

KARAFKA = <<~'RUBY'
  require "karafka"
  MESSAGES = Integer(ARGV[2])
  class Counting < Karafka::BaseConsumer
    def consume
      $first ||= Process.clock_gettime(Process::CLOCK_MONOTONIC)
      messages.each { |message| message.payload["number"] }
      $count = ($count || 0) + messages.size
      return if $count < MESSAGES
      puts MESSAGES / (Process.clock_gettime(Process::CLOCK_MONOTONIC) - $first)
      $stdout.flush
      exit!(0)
    end
  end
  class App < Karafka::App
    setup do |config|
      config.kafka = {"bootstrap.servers": ARGV[0], "auto.offset.reset": "earliest"}
      config.client_id = "bench"
      config.group_id = "karafka-#{Process.pid}"
      config.max_messages = 1_000
      config.logger = Logger.new(File::NULL)
    end
    routes.draw { topic(ARGV[1]) { consumer Counting } }
  end
  Karafka::Server.run
RUBY

class ParsingHandler < Prosody::EventHandler
  attr_reader :times

  def initialize
    super
    @count = 0
    @times = Thread::Queue.new
  end

  def on_message(_context, message)
    message.payload["number"]
    @count += 1
    @times << Bench.now if @count == 1 || @count == MESSAGES
  end
end

def prosody(topic, round)
  handler = ParsingHandler.new
  client = Bench.client(group_id: "#{topic}-#{round}", subscribed_topics: topic)
  client.subscribe(handler)
  first, last = handler.times.pop, handler.times.pop
  client.unsubscribe
  MESSAGES / (last - first)
end

def karafka(topic)
  environment = {"GEM_HOME" => GEMS, "GEM_PATH" => GEMS, "KARAFKA_ENV" => "production"}
  output, = Open3.capture2(environment, RbConfig.ruby, "--yjit", "-e", KARAFKA, Bench.broker, topic, MESSAGES.to_s)
  Float(output.lines.last)
end

Bench.header
topic = Bench.topic("karafka", 1)
Bench.peer("fill", topic, MESSAGES, 100)
rates = Array.new(ROUNDS) { |round| [karafka(topic), prosody(topic, round)] }
peer, own = rates.transpose.map { |values| Bench.median(values) }
puts format("payload parsed, 1 partition: prosody %d/s, Karafka %d/s: %.1f ×", own, peer, own / peer)
