# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe "A handler that sleeps", :mock do
  it "is interrupted in a sleep without end, which async 1 by itself does not know" do
    events = Thread::Queue.new
    client = consume(shutdown_timeout: 1) do |_, message|
      events << "#{message.payload} begins"
      begin
        sleep
      ensure
        events << "#{message.payload} ends"
      end
    end
    produce("key", "first")
    expect(pop(events)).to eq("first begins")

    expect(seconds { client.unsubscribe }).to be_between(0.8, 2)
    expect(pop(events)).to eq("first ends")
    expect(log.grep(/ArgumentError/)).to be_empty
  end
end
