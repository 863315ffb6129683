# frozen_string_literal: true

require_relative "../kafka_helper"

RSpec.describe "Messages through a real broker", :kafka do
  let(:handled) { Thread::Queue.new }

  it "arrive with topic, partition, offset, key, payload and time" do
    consume { |_, message| handled << message }
    payload = {"id" => 1, "text" => "äöü \u0000 \u{1F600}", "numbers" => [2**70, -1, 0.1, 1e300], "nothing" => nil, "yes" => true}
    from = Time.now
    produce("schlüssel", payload)
    message = pop(handled)

    expect(message).to have_attributes(topic: topic, partition: be_between(0, 3), offset: 0, key: "schlüssel", payload: payload)
    expect(message.timestamp).to be_between(from - 0.001, Time.now)
    expect(message.timestamp.nsec % 1_000_000).to eq(0)
    expect(message.key.encoding).to eq(Encoding::UTF_8)
  end

  it "carry headers, and the sender's source-system" do
    consume { |_, message| handled << message }
    produce("key", 1, headers: {"a" => "1", :b => nil})

    expect(pop(handled).headers).to eq("a" => "1", "b" => nil, "source-system" => "spec")
  end

  it "carry no source-system where none is configured" do
    consume { |_, message| handled << message }
    Prosody::Client.new(bootstrap_servers: address, send_timeout: 10).send_message(topic, "key", 1)

    expect(pop(handled).headers).to eq({})
  end

  it "are not handled by the service that has sent them" do
    consume { |_, message| handled << message }
    own = Prosody::Client.new(bootstrap_servers: address, group_id: group, send_timeout: 10)
    expect(own.source_system).to eq(group)
    own.send_message(topic, "key", "own")
    produce("key", "foreign")

    expect(pop(handled).payload).to eq("foreign")
    expect(handled).to be_empty
  end

  it "tell a tombstone from the JSON null only by the record" do
    consume { |_, message| handled << message }
    sender.send_tombstone(topic, "key", headers: {"why" => "gone"})
    produce("key", nil)

    expect(pops(handled, 2)).to match([
      have_attributes(payload: nil, key: "key", headers: include("why" => "gone")),
      have_attributes(payload: nil, key: "key")
    ])
    expect(raw_values).to eq(["<none>", "null"])
  end

  # Another client's word for it.
  def raw_values
    skip("kcat is not there (Debian package kcat): tombstones are not looked at from outside") unless system("kcat -V", out: File::NULL, err: File::NULL)

    IO.popen(["kcat", "-C", "-b", address, "-t", topic, "-o", "beginning", "-e", "-q", "-Z", "-f", "%s\n"], &:readlines)
      .map(&:chomp).map { |value| (value == "NULL") ? "<none>" : value }
  end

  it "of a backlog are handled by a new group" do
    10.times { |number| produce("key", number) }
    consume { |_, message| handled << message }

    expect(pops(handled, 10).map(&:payload)).to eq((0...10).to_a)
  end

  it "with an id that was handled are skipped, by key" do
    consume { |_, message| handled << [message.key, message.payload.fetch("n")] }
    produce("a", {"id" => "x", "n" => 1})
    produce("a", {"id" => "x", "n" => 2})
    produce("a", {"id" => "y", "n" => 3})
    expect(pops(handled, 2)).to eq([["a", 1], ["a", 3]])

    produce("b", {"id" => "x", "n" => 4})
    expect(pop(handled)).to eq(["b", 4])
  end

  it "of a key are handled in order, while keys go side by side" do
    keys = %w[a b c d]
    running = Thread::Queue.new
    go = keys.to_h { |key| [key, Thread::Queue.new] }
    consume(max_concurrency: 8) do |_, message|
      running << [message.key, message.payload]
      go.fetch(message.key).pop
    end
    3.times { |number| keys.each { |key| produce(key, number) } }

    3.times do |number|
      expect(pops(running, 4)).to match_array(keys.map { |key| [key, number] })
      expect(running).to be_empty
      go.each_value { |queue| queue << true }
    end
  end
end
