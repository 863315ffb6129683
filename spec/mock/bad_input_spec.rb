# frozen_string_literal: true

require_relative "../spec_helper"

# spec/delivery.md, "What does not decode".
RSpec.describe "bad input", :mock do
  def subscribe_all(**options)
    got = Thread::Queue.new
    consume(**options) { |_, message| got << [message.offset, message.key, message.payload, message.headers] }
    got
  end

  # A message to the same partition that is handled after whatever came before it.
  def expect_next_to_be_handled(got, key, offset)
    produce(key, "next")
    expect(pop(got)).to match([offset, key, "next", {}])
  end

  deep = ->(levels) { "[" * levels + "]" * levels }

  {
    "a payload that is not JSON" => ["{nope", /payload is not JSON: .*byte 1/],
    "a payload with something after its JSON" => ["1 2", /payload is not JSON/],
    "a payload with a comment" => ["/* c */ 1", /payload is not JSON/],
    "a payload of NaN" => ["NaN", /payload is not JSON/],
    "a payload that is not UTF-8" => ["\"\xFF\"", /payload is not UTF-8 \(byte 1\)/],
    "a payload of zero bytes" => ["", /payload has zero bytes/],
    "a payload of blanks" => ["  ", /payload is not JSON/],
    "JSON nested 101 deep" => [deep.call(101), /nests deeper than 100 levels \(byte 100\)/],
    "a lone surrogate escape" => ['"\ud800"', /lone surrogate escape \(byte 1\)/]
  }.each do |name, (payload, reason)|
    it "is logged with coordinates and done: #{name}" do
      got = subscribe_all
      produce_raw("bad", payload)
      line = log.wait_for(/does not decode.*topic=#{topic}/)

      expect(line).to match(/\AERROR .*permanent failure/).and match(reason)
        .and match(/topic=#{topic} partition=\d offset=0 key="bad"/)
      expect(line).not_to include("nope")
      expect_next_to_be_handled(got, "bad", 1)
    end
  end

  it "is logged with coordinates and done: a key that is not UTF-8" do
    got = subscribe_all
    produce_raw("\xFFkey", "1")

    expect(log.wait_for(/does not decode.*topic=#{topic}/)).to match(/key is not UTF-8 \(byte 0\)/)
      .and match(/topic=#{topic} partition=\d offset=0 key="\\xffkey"/)
    expect_next_to_be_handled_somewhere(got)
  end

  it "is logged with coordinates and done: a key over 60,000 bytes, of which 200 are shown" do
    got = subscribe_all
    produce_raw("k" * 60_001, "1")

    expect(log.wait_for(/does not decode.*topic=#{topic}/)).to match(/key has 60001 bytes, more than 60000/)
      .and match(/topic=#{topic} partition=\d offset=0 key="k{200}"/)
    expect_next_to_be_handled_somewhere(got)
  end

  # Sends to all partitions.
  def expect_next_to_be_handled_somewhere(got)
    keys_of_partitions.each { |key| produce(key, "next") }
    expect(pops(got, 4).map(&:first)).to contain_exactly(0, 0, 0, 1)
  end

  it "is not: a key of 60,000 bytes, JSON nested 100 deep, a pair of surrogates, a payload of 990 kB" do
    got = subscribe_all
    produce_raw("k" * 60_000, "1")
    produce_raw("k", deep.call(100))
    produce_raw("k", '"\ud83d\ude00"')
    produce("k", "x" * 989_998)
    found = pops(got, 4).map { |_, key, payload| [key.bytesize, payload] }

    expect(found).to include([60_000, 1], [1, "\u{1F600}"], [1, "x" * 989_998])
    expect(log.grep(/ERROR.*topic=#{topic}/)).to be_empty
  end

  [nil, ""].each do |key|
    name = key.nil? ? "a missing key" : "an empty key"

    it "is handled with the key \"\": #{name}; without order, deduplication and state" do
      definition = Prosody.value("count")
      got, errors = Array.new(2) { Thread::Queue.new }
      consume(state_collections: definition) do |context, message|
        context.state(definition)
      rescue Prosody::PermanentStateError => error
        errors << error
        got << [message.key, message.payload]
      end
      2.times { produce(key, {"id" => 7}) }

      expect(pops(got, 2)).to eq([["", {"id" => 7}]] * 2)
      expect(pop(errors).message).to match(/count.*no key/)
    end

    it "names coordinates when it fails: #{name}" do
      consume { raise Prosody::PermanentError, "no" }
      produce(key, 1)

      expect(log.wait_for(/permanent failure.*topic=#{topic}/)).to match(/topic=#{topic} partition=\d offset=0 key=(none|"")/)
    end
  end

  it "is handled as nil: a tombstone" do
    got = subscribe_all
    sender.send_tombstone(topic, "k")
    produce("k", nil)

    expect(pops(got, 2)).to eq([[0, "k", nil, {}], [1, "k", nil, {}]])
  end

  it "is refused before it is sent: a message over message.max.bytes" do
    got = subscribe_all
    expect { produce("bad", "x" * 999_999) }.to raise_error(Prosody::Error, /message has \d+ bytes .*more than 1000000/)
    expect { produce("bad", 1, headers: {"h" => "x" * 1_000_000}) }.to raise_error(Prosody::Error, /headers 1000001/)
    expect_next_to_be_handled(got, "bad", 0)
  end

  it "is handled: headers without value, twice, binary, of any name" do
    got = subscribe_all
    produce_raw("k", "1", [["none", nil], ["a", "1"], ["a", "2"], ["b", "\x00\xFF".b], ["\xFF".b, "n"], ["", "e"]])

    expect(pop(got).last).to eq("none" => nil, "a" => "2", "b" => "\x00\xFF".b, "\xFF".b => "n", "" => "e")
    expect_next_to_be_handled(got, "k", 1)
  end

  it "does not keep a client from doing its work when it comes in a crowd" do
    got = subscribe_all
    200.times { |number| produce_raw("k", number.even? ? "{" : number.to_s) }

    expect(pops(got, 100).map { |_, _, payload| payload }).to eq((1..199).step(2).to_a)
    log.wait_for_count(/does not decode.*topic=#{topic}/, 100)
  end
end
