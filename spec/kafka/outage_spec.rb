# frozen_string_literal: true

require_relative "../kafka_helper"

# In this order: the last example leaves it dead.
RSpec.describe "A broker that crashes", :kafka, order: :defined, seconds: 120 do
  before(:context) do
    @broker = Broker::Own.new
    Broker.warm_up(at: @broker.address)
  end

  after(:context) { @broker.remove }

  def address
    @broker.address
  end

  # What becomes of the numbers that a thread sends with a key of its own.
  let(:sending_class) { Struct.new(:key, :acknowledged, :failures, :outcomes) }

  def send_without_end(client, key)
    sending = sending_class.new(key, [], [], Thread::Queue.new)
    thread = Thread.new do
      (0..).each do |number|
        break if @enough

        from = monotonic
        begin
          client.send_message(topic, key, number)
          sending.acknowledged << number
          sending.outcomes << :acknowledged
        rescue Prosody::Error => error
          sending.failures << [monotonic - from, error.message]
          sending.outcomes << :failed
        end
      end
    end
    [sending, thread]
  end

  def await_outcome(sendings, outcome)
    sendings.each { |sending| nil until pop(sending.outcomes, 30) == outcome }
  end

  it "goes on after the restart: nothing acknowledged is lost, order is kept, and sends have failed in time" do
    handled = Thread::Queue.new
    consume { |_, message| handled << [message.key, message.payload] }
    client = Prosody::Client.new(bootstrap_servers: address, source_system: "spec", send_timeout: 1)
    sendings, threads = Array.new(4) { |number| send_without_end(client, "key-#{number}") }.transpose
    seen = pops(handled, 100)

    @broker.kill
    standstill = longest_standstill { await_outcome(sendings, :failed) }
    expect(standstill).to be < 1
    @broker.up
    sendings.each { |sending| sending.outcomes.clear }
    await_outcome(sendings, :acknowledged)
    @enough = true
    threads.each(&:join)

    missing = sendings.flat_map { |sending| sending.acknowledged.map { |number| [sending.key, number] } } - seen
    until missing.empty?
      seen << pop(handled, 30)
      missing.delete(seen.last)
    end
    seen.group_by(&:first).each_value { |pairs| expect(pairs.uniq).to eq(pairs.uniq.sort) }
    failures = sendings.flat_map(&:failures)
    expect(failures.map(&:first)).to all(be_between(0.9, 2.5))
    expect(failures.map(&:last)).to all(match(/not acknowledged within 1 s \(.*#{Regexp.escape(address)}.*\)/))
  end

  it "does not keep unsubscribe waiting, nor its Ruby threads" do
    handled = Thread::Queue.new
    client = consume(shutdown_timeout: 1) do |_, message|
      handled << message
      sleep
    end
    produce("key", 1)
    pop(handled)
    @broker.kill

    took = nil
    standstill = longest_standstill { took = seconds { client.unsubscribe } }
    expect(took).to be < 3
    expect(standstill).to be < 1
    expect(client.consumer_state).to eq(:configured)
  end
end
