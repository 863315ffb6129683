# frozen_string_literal: true

require "socket"
require_relative "../kafka_helper"

RSpec.describe "A broker that cannot be reached", :kafka do
  # Nobody listens there.
  let(:refusing) { "127.0.0.1:#{TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }}" }
  # Takes connections and never says a word.
  let(:silent_server) { TCPServer.new("127.0.0.1", 0) }
  let(:silent) { "127.0.0.1:#{silent_server.addr[1]}" }
  # Reserved never to exist (RFC 6761).
  let(:unknown) { "broker.invalid:9092" }

  after { silent_server.close }

  # How the block ended with each of the arguments, all at once, and how long it took.
  def outcomes(calls)
    threads = calls.map do |arguments|
      Thread.new do
        error = nil
        took = seconds { error = error_of { yield(*arguments) } }
        [arguments, error, took]
      end
    end
    threads.map(&:value)
  end

  def error_of
    yield
    nil
  rescue => error
    error
  end

  it "fails subscribe within 10 s, with address and reason, while other threads go on" do
    results = nil
    standstill = longest_standstill do
      # A pattern asks for no topic, but a broker must have answered as well.
      results = outcomes([refusing, silent, unknown].product(["some", "^some"])) do |address, topic|
        consumer(bootstrap_servers: address, subscribed_topics: topic).subscribe(handler { nil })
      end
    end

    expect(standstill).to be < 1
    results.each do |(address, _), error, took|
      expect(error).to be_a(Prosody::Error).and have_attributes(message: /no answer within 10 s/)
      expect(error.message).to include(address)
      expect(took).to be_between(9.5, 12)
    end
    expect(results.first[1].message).to match(/refused/i)
    expect(clients.map(&:consumer_state)).to all(eq(:configured))
  end

  it "fails sends after send_timeout, with address and reason, while other threads go on" do
    results = nil
    standstill = longest_standstill do
      results = outcomes([refusing, silent, unknown].zip) do |address|
        Prosody::Client.new(bootstrap_servers: address, send_timeout: 1.5).send_message("some", "key", 1)
      end
    end

    expect(standstill).to be < 1
    results.each do |(address), error, took|
      expect(error).to be_a(Prosody::Error).and have_attributes(message: /not acknowledged within 1.5 s .*; it may still arrive/)
      expect(took).to be_between(1.4, 3.5)
      expect(error.message).to include(address)
    end
  end
end
