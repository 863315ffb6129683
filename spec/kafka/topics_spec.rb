# frozen_string_literal: true

require_relative "../kafka_helper"

RSpec.describe "Topics", :kafka do
  it "names those that are missing at subscribe" do
    client = consumer(subscribed_topics: [topic, "not-there", "nor-this"])

    expect { client.subscribe(handler { nil }) }.to raise_error(ArgumentError, /not-there.*nor-this|nor-this.*not-there/)
    expect { client.subscribe(handler { nil }) }.to raise_error(ArgumentError) { |error| expect(error.message).not_to include(topic) }
    expect(client.consumer_state).to eq(:configured)
  end

  it "are consumed by a pattern, those included that come into being later" do
    family = "family-#{SecureRandom.hex(4)}"
    Broker.create_topics({"#{family}-a" => 2, "other-#{family}" => 1})
    handled = Thread::Queue.new
    client = consume(subscribed_topics: "^#{family}-", kafka_config: KafkaMode::QUICK_GROUP.merge("topic.metadata.refresh.interval.ms" => 200)) do |_, message|
      handled << [message.topic, message.payload]
    end
    ["#{family}-a", "other-#{family}"].each { |name| sender.send_message(name, "key", 1) }
    expect(pop(handled)).to eq(["#{family}-a", 1])

    Broker.create_topics({"#{family}-b" => 3})
    sender.send_message("#{family}-b", "key", 2)
    expect(pop(handled)).to eq(["#{family}-b", 2])
    expect(client.assigned_partitions).to eq(5)
    expect(handled).to be_empty
  end

  it "refuses a send to one that does not exist" do
    client = Prosody::Client.new(bootstrap_servers: address, send_timeout: 2)

    expect(seconds { expect { client.send_message("not-there", "key", 1) }.to raise_error(Prosody::Error, /not-there does not exist/) })
      .to be < 2.5
  end

  it "names a property that librdkafka does not know" do
    expect { consumer(kafka_config: {"no.such.property" => 1, "linger.ms" => "soon"}) }
      .to raise_error(ArgumentError, /kafka_config.*linger\.ms.*no\.such\.property/)
  end
end
