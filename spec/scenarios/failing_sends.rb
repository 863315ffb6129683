# frozen_string_literal: true

# scenario: every ruby

# Case 25: 100,000 sends that the client refuses at once, and 5,000 that time out because the broker is gone, 1,000 of
# them in flight at a time. Each is answered with an error that says where the message was to go, and memory stays
# flat. When the broker is back, sends work.
require_relative "../support/scenario"

REFUSED = 100_000
TIMED_OUT = 5_000
IN_FLIGHT = 1_000
SEND_TIMEOUT = 2
GROWTH_BYTES_MAX = 10 * 1024 * 1024
TOO_LARGE = "x" * 2_000

# Errors of the block, called so often by so many tasks at once, by number; and how memory grew after a quarter.
def errors_of(count, tasks)
  errors = {}
  sizes = []
  number = -1
  Async do |task|
    Array.new(tasks) do
      task.async do
        while (own = number += 1) < count
          errors[own] = error_of { yield own }
          # In a thread of its own: async 2 cannot read a file on Ruby 3.1.
          sizes << Thread.new { resident_bytes }.value if [count / 4, count - 1].include?(own)
        end
      end
    end.each(&:wait)
  end
  [errors, sizes.last - sizes.first]
end

# Only what is looked at: what is kept is not to count as a leak.
def error_of
  yield
  nil
rescue => error
  # An object for each text would be growth of our own.
  (@texts ||= Hash.new { |hash, text| hash[text] = text })["#{error.class}: #{error.message}"]
end

def check_all(what, errors, count, pattern)
  check("#{count} sends are #{what}") { errors.size == count }
  wrong = errors.reject { |number, text| text&.match?(pattern) && text.include?("key \"key-#{number % 100}\"") }
  check("each error says why, and where the message was to go: #{errors[7]} #{wrong.first(3)}") { wrong.empty? }
end

def check_flat(what, growth)
  check("memory is flat with sends that are #{what} (grew by #{growth / 1024} KiB)") { growth < GROWTH_BYTES_MAX }
end

skip("no Kafka here (PROSODY_TEST_BROKER is not set)") unless Broker.address
own = Broker::Own.new
at_exit { own.remove }
Prosody.logger = Logger.new(nil)
topic = new_name("topic")
Broker.create_topics({topic => 4}, at: own.address)
Broker.warm_up(at: own.address)
client = Prosody::Client.new(bootstrap_servers: own.address, source_system: "scenario", send_timeout: SEND_TIMEOUT,
  kafka_config: {"message.max.bytes" => 1_500})
client.send_message(topic, "key", 1)

errors, growth = errors_of(REFUSED, 16) { |number| client.send_message(topic, "key-#{number % 100}", TOO_LARGE) }
check_all("refused", errors, REFUSED, /\AProsody::Error: message to topic "#{topic}", .*too large/)
check_flat("refused", growth)
check("others are sent") { client.send_message(topic, "key", 2).nil? }

own.kill
errors = growth = nil
standstill = longest_standstill do
  errors, growth = errors_of(TIMED_OUT, IN_FLIGHT) { |number| client.send_message(topic, "key-#{number % 100}", "text") }
end
check_all("not acknowledged", errors, TIMED_OUT, /\AProsody::Error: message to topic "#{topic}", .*not acknowledged within #{SEND_TIMEOUT} s/o)
check_flat("not acknowledged", growth)
check("other threads go on meanwhile (longest standstill: #{standstill.round(3)} s)") { standstill < 2 }

own.up
wait_until("sends work again", 60) { error_of { client.send_message(topic, "key", 3) }.nil? }
puts "ok: when the broker is back, sends work"
