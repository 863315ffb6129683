# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe Prosody::StateDefinition do
  ten_years = 315_569_520

  describe "the constructors" do
    {
      value: ["value", "json", {}], message_value: ["value", "message", {}],
      map: ["map", "json", {keyset_limit: 10}], message_map: ["map", "message", {keyset_limit: 0}],
      deque: ["deque", "json", {capacity: 1}], message_deque: ["deque", "message", {capacity: 10}]
    }.each do |constructor, (kind, payload, extra)|
      it "Prosody.#{constructor} makes a #{payload} #{kind}" do
        plain = Prosody.public_send(constructor, "things")
        expect(plain.to_state_config).to eq(name: "things", kind: kind, payload: payload)

        full = Prosody.public_send(constructor, "things", ttl: 60, read_uncommitted: false, **extra)
        expect(full.to_state_config)
          .to eq({name: "things", kind: kind, payload: payload, ttl_seconds: 60, read_uncommitted: false, **extra})
        expect([full.name, full.kind, full.payload, full.ttl_seconds, full.read_uncommitted, full.keyset_limit, full.capacity])
          .to eq(["things", kind, payload, 60, false, extra[:keyset_limit], extra[:capacity]])
      end

      other = {"value" => {keyset_limit: 1}, "map" => {capacity: 1}, "deque" => {keyset_limit: 1}}.fetch(kind)
      it "Prosody.#{constructor} takes no #{other.keys.first}" do
        expect { Prosody.public_send(constructor, "things", **other) }.to raise_error(ArgumentError)
      end
    end
  end

  describe "the name" do
    it "is kept in UTF-8" do
      latin = "caf\u00e9".encode(Encoding::ISO_8859_1)
      binary = "caf\u00e9".b

      [latin, binary].each do |name|
        expect(Prosody.value(name).name).to eq("café").and have_attributes(encoding: Encoding::UTF_8, frozen?: true)
      end
    end

    it "may have 255 bytes" do
      expect(Prosody.value("x" * 255).name.bytesize).to eq(255)
    end

    ["", "x" * 256, "é" * 128, "\xff", (+"\xff").force_encoding("UTF-16LE"), :symbol, nil, 5].each do |name|
      it "may not be #{name.inspect[0, 20]}" do
        expect { Prosody.value(name) }.to raise_error(ArgumentError, /name: got .*expected a non-empty String.*255 bytes/)
      end
    end
  end

  describe "ttl" do
    {1 => 1, 90.0 => 90, Rational(120, 2) => 60, ten_years => ten_years, FakeDuration.new(300) => 300}.each do |ttl, seconds|
      it "takes #{ttl.class} #{seconds}" do
        expect(Prosody.value("v", ttl: ttl).ttl_seconds).to be(seconds)
      end
    end

    [0, -1, 0.5, 1.5, ten_years + 1, Float::NAN, Float::INFINITY, Complex(1, 1), "60", true, FakeDuration.new(1.5)].each do |ttl|
      it "refuses #{ttl.class} #{ttl.inspect[0, 20]}" do
        expect { Prosody.value("v", ttl: ttl) }
          .to raise_error(ArgumentError, /"v": ttl: got .*whole seconds.*from 1 to 10 years/)
      end
    end
  end

  it "has limits for keyset_limit" do
    expect([0, 4096].map { |limit| Prosody.map("m", keyset_limit: limit).keyset_limit }).to eq([0, 4096])
    [-1, 4097, 1.0, "5"].each do |limit|
      expect { Prosody.map("m", keyset_limit: limit) }
        .to raise_error(ArgumentError, /"m": keyset_limit: got #{limit.inspect}, expected an Integer from 0 to 4096/)
    end
  end

  it "has limits for capacity" do
    expect(Prosody.deque("d", capacity: 10**9).capacity).to eq(10**9)
    [0, -1, 1.5, "5", 2**63].each do |capacity|
      expect { Prosody.deque("d", capacity: capacity) }.to raise_error(ArgumentError, /"d": capacity: got .*expected an Integer from 1/)
    end
  end

  it "has both for one kind only" do
    [["value", :keyset_limit, "map"], ["deque", :keyset_limit, "map"], ["value", :capacity, "deque"], ["map", :capacity, "deque"]].each do |kind, field, owner|
      expect { described_class.from(:name => "x", :kind => kind, :payload => "json", field => 1) }
        .to raise_error(ArgumentError, /"x": #{field}: got 1, expected nil: only a #{owner} has it/)
    end
  end

  it "wants read_uncommitted to be true or false" do
    expect(Prosody.value("v", read_uncommitted: true).read_uncommitted).to be(true)
    expect { Prosody.value("v", read_uncommitted: "yes") }.to raise_error(ArgumentError, /read_uncommitted: got "yes"/)
  end

  it "names everything that is wrong with one definition" do
    expect { Prosody.map("m", ttl: 0, keyset_limit: -1) }.to raise_error(ArgumentError, /ttl: got 0.*keyset_limit: got -1/)
  end

  describe "as a value object" do
    it "is frozen, and equal by content" do
      one = Prosody.map("m", ttl: 60)
      same = described_class.from(one.to_state_config)

      expect(one).to be_frozen
      expect(one).to eq(same).and eql(same)
      expect(one.hash).to eq(same.hash)
      expect({one => 1}[same]).to eq(1)
    end

    it "differs by any field" do
      one = Prosody.map("m", ttl: 60)
      others = [Prosody.map("n", ttl: 60), Prosody.map("m", ttl: 61), Prosody.map("m"), Prosody.message_map("m", ttl: 60),
        Prosody.map("m", ttl: 60, keyset_limit: 1), Prosody.map("m", ttl: 60, read_uncommitted: true), Prosody.value("m", ttl: 60)]

      others.each { |other| expect(one).not_to eq(other) }
      expect(one).not_to eq(one.to_state_config)
    end

    it "shows what is set" do
      expect(Prosody.deque("d", capacity: 3).inspect)
        .to eq('#<Prosody::StateDefinition name="d" kind="deque" payload="json" capacity=3>')
    end
  end

  describe ".from" do
    let(:definition) { Prosody.map("m", keyset_limit: 5) }

    it "takes a definition, hashes with either kind of key, and what has a to_state_config" do
      strings = {"name" => "m", "kind" => "map", "payload" => "json", "keyset_limit" => 5}
      symbols = {name: "m", kind: :map, payload: :json, keyset_limit: 5, ttl_seconds: nil}

      expect(described_class.from(definition)).to be(definition)
      [strings, symbols].each do |hash|
        expect(described_class.from(hash)).to eq(definition)
        expect(described_class.from(Struct.new(:to_state_config).new(hash))).to eq(definition)
      end
      expect(described_class.from(Struct.new(:to_state_config).new(definition))).to eq(definition)
    end

    it "refuses unknown and missing fields, by name" do
      expect { described_class.from(:name => "m", :kind => "map", :ttl => 5, "size" => 1) }
        .to raise_error(ArgumentError, /"m": unknown field :ttl, :size; missing field :payload; expected :name, .*:ttl_seconds/)
      expect { described_class.from({}) }.to raise_error(ArgumentError, /missing field :name, :kind, :payload/)
      expect { described_class.from({5 => 1}) }.to raise_error(ArgumentError, /unknown field 5/)
    end

    it "refuses unknown kinds and payloads" do
      expect { described_class.from(name: "m", kind: "set", payload: "yaml") }
        .to raise_error(ArgumentError, /kind: got "set", expected one of value, map, deque; payload: got "yaml", expected one of json, message/)
    end

    it "refuses nil in a required field" do
      expect { described_class.from(name: nil, kind: "map", payload: "json") }.to raise_error(ArgumentError, /name: got nil/)
    end

    it "refuses everything else" do
      [nil, "m", 5, []].each do |source|
        expect { described_class.from(source) }.to raise_error(ArgumentError, /got #{source.class}, expected a Prosody::StateDefinition/)
      end
      expect { described_class.from(Struct.new(:to_state_config).new("x")) }
        .to raise_error(ArgumentError, /to_state_config returned String, expected a Hash/)
    end
  end
end
