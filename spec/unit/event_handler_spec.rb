# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe Prosody::EventHandler do
  before { stub_const("Half", Class.new(described_class)) }

  it "must be given an on_message" do
    expect { Half.new.on_message(nil, nil) }
      .to raise_error(NotImplementedError, /Half does not handle messages: define on_message\(context, message\)/)
  end

  it "must be given an on_timer if timers are used: not to have it is permanent" do
    expect { Half.new.on_timer(nil, nil) }.to raise_error(NotImplementedError) { |error|
      expect(error.message).to match(/Half got a timer.*define on_timer\(context, timer\)/)
      expect(error.permanent?).to be(true)
    }
  end

  it "can classify errors" do
    Half.class_eval do
      permanent :on_message, KeyError
      def on_message(_context, message)
        message.fetch(:absent)
      end
    end

    expect { Half.new.on_message(nil, {}) }.to raise_error(Prosody::PermanentError)
  end
end
