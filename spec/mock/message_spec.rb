# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe Prosody::Message, :mock do
  def handled(key = "k", payload = {"a" => 1}, **options)
    got = Thread::Queue.new
    consume { |_, message| got << message }
    produce(key, payload, **options)
    pop(got)
  end

  it "says where it stands and when it was produced" do
    from = Time.now
    message = handled
    till = Time.now

    expect([message.topic, message.partition.class, message.offset, message.key]).to eq([topic, Integer, 0, "k"])
    expect(message.timestamp).to be_a(Time).and be_between(Time.at(0, (from.to_r * 1000).floor, :millisecond), till)
    expect(message.timestamp.subsec % Rational(1, 1000)).to eq(0)
    expect([message.topic, message.key].map(&:encoding).uniq).to eq([Encoding::UTF_8])
  end

  it "parses its payload once, into objects that may be changed" do
    payload = handled.payload

    expect(payload).to eq("a" => 1)
    payload["b"] = 2
    expect(payload).to eq("a" => 1, "b" => 2)
  end

  it "never shares its payload between attempts" do
    seen = Thread::Queue.new
    attempts = 0
    consume do |_, message|
      seen << message.payload.dup
      message.payload["a"] += 1
      raise "once more" if (attempts += 1) == 1
    end
    produce("k", {"a" => 1})

    expect(pops(seen, 2)).to eq([{"a" => 1}, {"a" => 1}])
  end

  it "keeps the value of numbers, and takes the last of duplicate names" do
    got = Thread::Queue.new
    consume { |_, message| got << message.payload }
    produce_raw("k", '{"big":123456789012345678901234567890,"small":-0.1,"exp":1e3,"twice":1,"twice":2}')

    expect(pop(got)).to eq("big" => 123456789012345678901234567890, "small" => -0.1, "exp" => 1000.0, "twice" => 2)
  end

  it "has headers: frozen, the last of a name, binary values, nil without one" do
    got = Thread::Queue.new
    consume { |_, message| got << message.headers }
    produce_raw("k", "1", [["a", "1"], ["b", "\xFF\x00".b], ["a", "2"], ["none", nil], ["empty", ""]])
    headers = pop(got)

    expect(headers).to eq("a" => "2", "b" => "\xFF\x00".b, "none" => nil, "empty" => "").and be_frozen
    expect(headers.values.compact.map(&:encoding).uniq).to eq([Encoding::BINARY])
  end

  it "equals what stands in the same place" do
    seen = Thread::Queue.new
    attempts = 0
    consume do |_, message|
      seen << message
      raise "once more" if (attempts += 1) == 1
    end
    produce("k", 1)
    produce("k", 1)
    first, again, other = pops(seen, 3)

    expect([first == again, first.eql?(again), first.hash == again.hash, first.equal?(again)]).to eq([true, true, true, false])
    expect([first == other, first == 1, {first => 1}[other]]).to eq([false, false, nil])
  end

  it "shows no payload" do
    message = handled("k", "secret")

    expect(message.inspect).to eq(%(#<Prosody::Message topic="#{topic}" partition=#{message.partition} offset=0 key="k">))
    expect(message.to_s).to eq(message.inspect)
  end

  it "is not copied, marshalled or made by others" do
    message = handled

    expect { message.dup }.to raise_error(TypeError, /cannot be copied/)
    expect { message.clone }.to raise_error(TypeError, /cannot be copied/)
    expect { Marshal.dump(message) }.to raise_error(TypeError, /cannot be marshalled/)
    expect { described_class.allocate }.to raise_error(TypeError)
    expect { described_class.new }.to raise_error(TypeError)
  end

  it "stays readable after its handler and its client have ended, from any thread" do
    message = handled
    unsubscribe_all
    Prosody.reset_mock
    GC.start

    expect(Thread.new { [message.payload, message.headers.class, message.key] }.value).to eq([{"a" => 1}, Hash, "k"])
  end
end
