# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe "many messages at once", :mock do
  def message(number, **changes)
    {topic: topic, key: "key-#{number % 3}", payload: number}.merge(changes)
  end

  it "arrive in order, with their headers" do
    got = Thread::Queue.new
    consume { |_, message| got << [message.key, message.payload, message.headers["n"]] }
    sent = sender.send_messages(Array.new(30) { |number| message(number, headers: {"n" => number.to_s}) })
    received = pops(got, 30)

    expect(sent).to be_nil
    expect(received.map { |_, payload, header| [payload, header] }).to match_array(Array.new(30) { |number| [number, number.to_s] })
    received.group_by(&:first).each_value { |of_key| expect(of_key.map { |item| item[1] }).to eq(of_key.map { |item| item[1] }.sort) }
  end

  it "list what was not delivered, and deliver the rest" do
    got = Thread::Queue.new
    consume { |_, message| got << message.payload }
    batch = [message(0), message(1, payload: Float::NAN), message(2, topic: "no topic"), "three", message(4, key: 4), message(5)]

    expect { sender.send_messages(batch) }.to raise_error(Prosody::SendError) do |error|
      expect(error.failures.map { |failure| failure[:index] }).to eq([1, 2, 3, 4])
      expect(error.failures.map { |failure| failure[:reason] }).to match([/NaN/, /no topic/, /expected a Hash/, /expected a String/])
    end
    expect(pops(got, 2)).to contain_exactly(0, 5)
  end

  it "stop after a thousand failures, also of an endless enumerable" do
    taken = 0
    endless = Enumerator.new { |sink| loop { sink << message(taken += 1, payload: Float::NAN) } }

    expect { sender.send_messages(endless) }.to raise_error(Prosody::SendError) do |error|
      expect(error.failures.size).to eq(1_000)
    end
    expect(taken).to eq(1_000)
  end

  it "pass on what the enumerable raises" do
    raising = Enumerator.new { raise KeyError, "of the enumerable" }

    expect { sender.send_messages(raising) }.to raise_error(KeyError, "of the enumerable")
  end
  it "let other fibers of a handler's thread go on meanwhile" do
    turns = Thread::Queue.new
    consume do |_, _|
      sending = true
      count = 0
      other = Async::Task.current.async { (count += 1) && sleep(0) while sending }
      sender.send_messages(Array.new(20_000) { |number| message(number, topic: "others") })
      sending = false
      other.wait
      turns << count
    end
    produce("key", 0)

    expect(pop(turns)).to be > 3
  end
end
