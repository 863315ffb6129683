# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe "Prosody's errors" do
  hierarchy = {
    Prosody::Error => StandardError,
    Prosody::SendError => Prosody::Error,
    Prosody::EventHandlerError => Prosody::Error,
    Prosody::TransientError => Prosody::EventHandlerError,
    Prosody::TransientStateError => Prosody::TransientError,
    Prosody::NullValueError => Prosody::TransientStateError,
    Prosody::PermanentError => Prosody::EventHandlerError,
    Prosody::PermanentStateError => Prosody::PermanentError,
    Prosody::MessageGoneError => Prosody::PermanentStateError
  }

  hierarchy.each do |error, parent|
    it "has #{error} below #{parent}" do
      expect(error.superclass).to be(parent)
    end
  end

  it "says of each handler error whether it is permanent" do
    expect([Prosody::TransientError, Prosody::TransientStateError, Prosody::NullValueError].map { |type| type.new.permanent? }).to all(be(false))
    expect([Prosody::PermanentError, Prosody::PermanentStateError].map { |type| type.new.permanent? }).to all(be(true))
    expect(Prosody::MessageGoneError.new("orders", 1, 2)).to be_permanent
  end

  it "has an abstract handler error" do
    subclass = Class.new(Prosody::EventHandlerError)
    stub_const("Undecided", subclass)

    expect { subclass.new.permanent? }.to raise_error(NotImplementedError, /Undecided must define permanent\?/)
  end

  it "keeps the coordinates of a message that is gone" do
    error = Prosody::MessageGoneError.new("orders", 3, 42)

    expect([error.topic, error.partition, error.offset]).to eq(["orders", 3, 42])
    expect(error.message).to include('topic "orders", partition 3, offset 42')
  end

  describe Prosody::SendError do
    let(:failures) { [{index: 7, topic: "orders", key: "k", reason: "timed out"}, {index: 9, topic: "orders", key: nil, reason: "x"}] }

    it "keeps the failures, frozen, and sums them up" do
      error = described_class.new(failures: failures)

      expect(error.failures).to eq(failures)
      expect(error.failures).to be_frozen
      expect(error.message).to match(/2 message\(s\).*number 7.*"orders".*timed out/)
    end

    it "takes a message of its own, and no failures" do
      expect(described_class.new("no luck", failures: failures).message).to eq("no luck")
      expect(described_class.new.failures).to eq([])
      expect { raise described_class }.to raise_error(described_class, /not delivered/)
    end
  end
end

RSpec.describe Prosody do
  it "has a version" do
    expect(Prosody::VERSION).to eq("0.1.0")
  end
end
