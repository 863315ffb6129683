# frozen_string_literal: true

# scenario: every ruby

# Case 26b: 100,000 sends from 64 concurrent tasks, and 100,000 from handlers at full concurrency, in mock mode and
# on a broker. Every one is acknowledged and in the log once; memory stays flat on the broker (the log of mock mode is
# memory).
require_relative "../support/scenario"

SENDS = 100_000
TASKS = 64
PER_HANDLER = 100
GROWTH_BYTES_MAX = 16 * 1024 * 1024

# Notes every number that comes, and how often.
class Tally < Prosody::EventHandler
  def initialize
    super
    @counts = Array.new(SENDS, 0)
    @handled = 0
    @all = Thread::Queue.new
  end

  def on_message(_context, message)
    @counts[message.payload] += 1
    @all << true if (@handled += 1) == SENDS
  end

  # What came not once, when as many have come as were sent.
  def wrong
    pop(@all, 120)
    @counts.each_with_index.reject { |count, _| count == 1 }
  end
end

# Each message has it send as many.
class Sender < Prosody::EventHandler
  attr_reader :ends, :most_at_once

  def initialize(target)
    super()
    @target = target
    @ends = Thread::Queue.new
    @at_once = @most_at_once = 0
  end

  def on_message(_context, message)
    @most_at_once = [@most_at_once, @at_once += 1].max
    first = message.payload * PER_HANDLER
    # In mock mode sends do not wait.
    sleep(0.01)
    PER_HANDLER.times { |index| @client.send_message(@target, "key-#{index}", first + index) }
    @ends << message.payload
  ensure
    @at_once -= 1
  end

  def run(client)
    @client = client
    client.subscribe(self)
  end
end

def send_from_tasks(client, topic)
  sizes = []
  next_number = acknowledged = 0
  Async do |task|
    Array.new(TASKS) do
      task.async do
        while next_number < SENDS
          number = (next_number += 1) - 1
          client.send_message(topic, "key-#{number % 100}", number)
          acknowledged += 1
          # In a thread of its own: async 2 cannot read a file on Ruby 3.1.
          sizes << Thread.new { resident_bytes }.value if number % (SENDS / 4) == SENDS / 4 - 1
        end
      end
    end.each(&:wait)
  end
  [acknowledged, sizes.last.to_i - sizes.first.to_i]
end

def read_back(name, make, topic)
  reader = make.call(topic: topic)
  tally = Tally.new
  reader.subscribe(tally)
  check("#{name}: each is in the log once") { tally.wrong == [] }
  reader.unsubscribe
end

def from_tasks(name, make, topic)
  acknowledged, growth = send_from_tasks(make.call(topic: topic), topic)
  check("#{name}: all #{SENDS} sends of #{TASKS} tasks are acknowledged") { acknowledged == SENDS }
  read_back("#{name}, tasks", make, topic)
  growth
end

def from_handlers(name, make, trigger, target)
  client = make.call(topic: trigger, max_concurrency: TASKS, max_uncommitted: 1_000, send_timeout: 30)
  sender = Sender.new(target)
  client.send_messages(Array.new(SENDS / PER_HANDLER) { |number| {topic: trigger, key: "key-#{number}", payload: number} })
  sender.run(client)
  ends = Array.new(SENDS / PER_HANDLER) { pop(sender.ends, 60) }
  check("#{name}: each handler comes to its end once") { ends.tally.values == [1] * (SENDS / PER_HANDLER) }
  check("#{name}: #{TASKS} handlers run at once") { sender.most_at_once == TASKS }
  client.unsubscribe
  read_back("#{name}, handlers", make, target)
end

in_mock = ->(**options) { mock_client(group_id: new_name("group"), **options) }
from_tasks("mock", in_mock, "numbers")
from_handlers("mock", in_mock, "triggers", "from-handlers")
Prosody.reset_mock

if Broker.address
  on_broker = ->(**options) { kafka_client(send_timeout: 30, **options) }
  growth = from_tasks("broker", on_broker, make_topic)
  check("broker: memory is flat (grew by #{growth / 1024} KiB)") { growth < GROWTH_BYTES_MAX }
  from_handlers("broker", on_broker, make_topic, make_topic)
end
