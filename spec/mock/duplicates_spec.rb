# frozen_string_literal: true

require_relative "../spec_helper"

# spec/delivery.md, "Once" and "Filters".
RSpec.describe "a message", :mock do
  # The offsets that are handled of these messages of one key, the last of which must be among them.
  def handled(*payloads, **options)
    got = Thread::Queue.new
    last = payloads.size - 1
    consume(**options) { |_, message| got << message.offset }
    payloads.each { |payload| produce("k", payload) }
    offsets = []
    offsets << pop(got) until offsets.last == last
    offsets
  end

  describe "with an id" do
    it "is skipped if one of its key with that id was handled" do
      expect(handled({"id" => "a"}, {"id" => "a"}, {"id" => "b"}, {"id" => "a"}, {"id" => "c"})).to eq([0, 2, 4])
    end

    it "is another one under another type: Integer 5 and String \"5\"" do
      expect(handled({"id" => 5}, {"id" => "5"}, {"id" => 5}, {"id" => "5"}, {"id" => 6})).to eq([0, 1, 4])
    end

    it "is another one under another key" do
      got = Thread::Queue.new
      consume { |_, message| got << message.key }
      keys_of_partitions.each { |key| produce(key, {"id" => 1}) }

      expect(pops(got, 4)).to match_array(keys_of_partitions)
    end

    it "counts only as String or Integer, of an object" do
      expect(handled(*[{"id" => nil}, {"id" => 1.5}, {"id" => [1]}, {"id" => true}, [{"id" => 1}], "id", nil, {"ID" => 1}].flat_map { |payload| [payload, payload] }))
        .to eq((0..15).to_a)
    end

    it "is handled again in another group" do
      payloads = [{"id" => 1}, {"id" => 2}]
      expect(handled(*payloads)).to eq([0, 1])
      got = Thread::Queue.new
      consume(group_id: "#{group}-other") { |_, message| got << message.offset }
      expect(pops(got, 2)).to eq([0, 1])
    end

    it "is warned of once per topic if its content differs" do
      expect(handled({"id" => 1, "v" => 1}, {"id" => 1, "v" => 1}, {"id" => 2})).to eq([0, 2])
      expect(log.grep(/same id.*topic=#{topic}/)).to be_empty
      3.times { |number| produce("k", {"id" => 2, "v" => number}) }
      expect(log.wait_for(/same id was handled.*topic=#{topic}/)).to match(/\AWARN .*idempotence_field.*topic=#{topic}.*offset=3/)
      expect(log.grep(/same id.*topic=#{topic}/).size).to eq(1)
    end

    it "is looked for in the field that idempotence_field names; with nil by position only" do
      payloads = [{"id" => 1, "uid" => "a"}, {"id" => 1, "uid" => "b"}, {"id" => 2, "uid" => "a"}, {"id" => 3, "uid" => "z"}]
      expect(handled(*payloads, idempotence_field: "uid")).to eq([0, 1, 3])
      @topic = nil
      expect(handled(*payloads, idempotence_field: nil, group_id: "#{group}-nil")).to eq([0, 1, 2, 3])
    end

    it "leaves its mark in state that survives its handler's failure only when it was handled" do
      got = Thread::Queue.new
      attempts = 0
      consume do |_, message|
        raise "again" if (attempts += 1) < 3
        got << message.offset
      end
      produce("k", {"id" => 1})
      produce("k", {"id" => 1})
      produce("k", {"id" => 2})

      expect(pops(got, 2)).to eq([0, 2])
    end
  end

  it "is skipped if its header source-system names the consumer's group, and leaves no mark" do
    got = Thread::Queue.new
    consume { |_, message| got << message.offset }
    produce("k", {"id" => 1}, headers: {"source-system" => group})
    produce("k", {"id" => 1}, headers: {"source-system" => "#{group}-other"})
    consumer(source_system: nil).send_message(topic, "k", {"id" => 2})
    produce("k", {"id" => 2})

    expect(pops(got, 2)).to eq([1, 3])
  end

  it "is skipped if allowed_events has no prefix of its type; without a type it passes" do
    expect(handled({"type" => "order.made"}, {"type" => "invoice.made"}, {"type" => 5}, {"type" => "order"}, {"type" => "ord"},
      {"other" => 1}, ["order"], nil, allowed_events: ["order", "user."])).to eq([0, 2, 3, 5, 6, 7])
  end
end
