# frozen_string_literal: true

require_relative "../kafka_helper"

RSpec.describe "Bad input from a real broker", :kafka do
  let(:handled) { Thread::Queue.new }
  let(:topic) { make_topic(partitions: 1) }

  before { consume { |_, message| handled << message } }

  # The messages that a handler is given of the record and a good one behind it.
  def messages_of(key, payload, headers = nil)
    produce_raw(key, payload, headers)
    produce("next", "good")
    messages = [pop(handled)]
    messages << pop(handled) until messages.last.payload == "good"
    expect(messages.last.offset).to eq(1)
    messages[0..-2]
  end

  def expect_refusal(reason, key, payload, headers = nil)
    expect(messages_of(key, payload, headers)).to eq([])
    line = log.wait_for(/ERROR message does not decode/)
    expect(line).to include("topic=#{topic} partition=0 offset=0").and match(/key=/).and match(reason)
  end

  nested = ->(depth) { "[" * depth + "]" * depth }

  {
    "a payload that is not JSON" => [/JSON|expected|column/i, "key", "no json"],
    "an empty payload" => [/empty|EOF|JSON/i, "key", ""],
    "a payload that is not UTF-8" => [/UTF-8|unicode|JSON/i, "key", "\"\xFF\""],
    "JSON that is nested 101 deep" => [/deep|depth|nest/i, "key", nested.call(101)],
    "a key that is not UTF-8" => [/key.*UTF-8|UTF-8.*key/i, "\xFFkey", "1"],
    "a key of more than 60,000 bytes" => [/key.*60,?000|60,?000.*key/i, "k" * 60_001, "1"]
  }.each do |what, (reason, key, payload)|
    it "names #{what}, skips it, and goes on" do
      expect_refusal(reason, key, payload)
    end
  end

  it "handles a record without key" do
    expect(messages_of(nil, "1")).to match([have_attributes(key: "", payload: 1, partition: 0, offset: 0)])
  end

  it "handles a record with an empty key" do
    expect(messages_of("", "1")).to match([have_attributes(key: "", payload: 1)])
  end

  it "handles a record without payload" do
    expect(messages_of("key", nil)).to match([have_attributes(key: "key", payload: nil)])
  end

  it "handles JSON that is nested 100 deep" do
    expect(messages_of("key", nested.call(100)).first.payload.flatten).to eq([])
  end

  it "handles a payload of 990 kB" do
    text = "x" * (990_000 - 2)

    expect(messages_of("key", "\"#{text}\"").map { |message| message.payload == text }).to eq([true])
  end

  it "refuses to send a payload over message.max.bytes, and says so" do
    expect { produce("key", "x" * 1_100_000) }.to raise_error(Prosody::Error, /too large.*message\.max\.bytes/m)
    expect { produce_raw("key", "x" * 1_100_000) }.to raise_error(Prosody::Error, /message\.max\.bytes/)
    produce("next", "good")
    expect(pop(handled)).to have_attributes(payload: "good", offset: 0)
  end

  it "hears from the broker that a payload is over the topic's limit" do
    small = make_topic(partitions: 1, settings: {"max.message.bytes" => "2000"})

    expect { sender.send_message(small, "key", "x" * 5000) }.to raise_error(Prosody::Error, /too large for topic #{small}.*message\.max\.bytes/)
    expect(sender.send_message(small, "key", "x")).to be_nil
  end

  it "handles headers without value, twice, binary, without name, and not of UTF-8" do
    binary = "\x00\xFF\x80".b
    headers = [["none", nil], ["twice", "1"], ["twice", "2"], ["binary", binary], ["empty", ""], ["gone", "1"], ["gone", nil], ["", "nameless"]]
    message = messages_of("key", "1", headers).first

    expect(message.headers).to eq("none" => nil, "twice" => "2", "binary" => binary, "empty" => "", "gone" => nil,
      "" => "nameless", "source-system" => "spec")
    expect(message.headers.values.compact.map(&:encoding)).to all(eq(Encoding::BINARY))
  end
end
