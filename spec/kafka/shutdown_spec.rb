# frozen_string_literal: true

require "tempfile"
require_relative "../kafka_helper"
require_relative "../support/delivery_checker"

RSpec.describe "Shutdown while handlers run", :kafka do
  let(:file) { Tempfile.new("prosody-shutdown") }
  # A topic of one partition for each key: what is finished can be committed at once.
  let(:topics) do
    names = Array.new(4) { |number| "topic-#{SecureRandom.hex(4)}-#{number}" }
    Broker.create_topics(names.to_h { |name| [name, 1] })
    names
  end

  def start(**options)
    client = consumer_options.merge(subscribed_topics: topics, **options.except(:on_term))
    WorkerProcess.new(path: file.path, client: client.except(:kafka_config), kafka_config: client[:kafka_config], **options.slice(:on_term))
  end

  def send_takes(topic, *takes)
    takes.each { |take| sender.send_message(topic, "key", {"take" => take}) }
  end

  def await_ended(worker, *events)
    WorkerProcess.wait_until("end of #{events} in #{worker.pid}") { events.all? { |event| worker.ended.include?(event) } }
  end

  def await_started(worker, *events)
    WorkerProcess.wait_until("start of #{events} in #{worker.pid}") { events.all? { |event| worker.started.include?(event) } }
  end

  # Messages that the next process is given, up to the last one.
  def started_by_the_next(*last)
    worker = start
    await_ended(worker, *last)
    worker.terminate
    worker.started
  end

  def check(messages)
    checker = DeliveryChecker.new(File.foreach(file.path), messages: messages)
    expect(checker.faults).to eq([])
    checker
  end

  it "leaves the next process exactly the rest, after SIGTERM and unsubscribe" do
    topics.each { |topic| send_takes(topic, *Array.new(25, 0.05)) }
    worker = start
    await_ended(worker, *topics.map { |topic| [topic, 0, 4] })
    status = nil
    took = seconds { status = worker.terminate }

    expect(status).to be_success
    expect(took).to be < 2
    expect(worker.started).to eq(worker.ended)
    expect(worker.ended.size).to be < 100

    rest = started_by_the_next(*topics.map { |topic| [topic, 0, 24] })
    expect(rest & worker.ended).to be_empty
    expect(rest.size + worker.ended.size).to eq(100)
    expect(check(100).repeats).to eq(0)
  end

  it "tells handlers at once, and commits those that end in time" do
    topic = topics.first
    send_takes(topic, "cancel", 0)
    worker = start(shutdown_timeout: 20)
    await_started(worker, [topic, 0, 0])
    status = nil

    expect(seconds { status = worker.terminate }).to be < 3
    expect(status).to be_success
    expect(worker.ended.to_a).to eq([[topic, 0, 0]])
    expect(started_by_the_next([topic, 0, 1]).to_a).to eq([[topic, 0, 1]])
  end

  it "interrupts a handler that does not end, within shutdown_timeout and a second, and has its event handled again" do
    topic = topics.first
    send_takes(topic, 0, "forever")
    worker = start(shutdown_timeout: 1)
    await_started(worker, [topic, 0, 1])
    status = nil

    expect(seconds { status = worker.terminate }).to be < 3.5
    expect(status).to be_success
    expect(worker.ended.to_a).to eq([[topic, 0, 0]])
    again = start
    await_started(again, [topic, 0, 1])
    expect(again.started.to_a).to eq([[topic, 0, 1]])
  end

  {"exit" => "exits without unsubscribe", "default" => "is ended by SIGTERM"}.each do |on_term, what|
    it "commits what is finished when the process #{what}, within 5 s, whatever its handlers do" do
      idle, busy, done, * = topics
      send_takes(busy, 0, "forever")
      send_takes(done, 0, 0, 0)
      worker = start(on_term: on_term, shutdown_timeout: 30, commit_interval: 30)
      await_started(worker, [busy, 0, 1])
      await_ended(worker, [done, 0, 2])
      status = nil

      expect(seconds { status = worker.terminate }).to be < 6
      expect([status.exitstatus, status.termsig]).to eq((on_term == "exit") ? [0, nil] : [nil, Signal.list["TERM"]])

      send_takes(done, 0)
      send_takes(idle, 0)
      again = start
      await_started(again, [busy, 0, 1])
      await_ended(again, [done, 0, 3], [idle, 0, 0])
      expect(again.started).to contain_exactly([busy, 0, 1], [done, 0, 3], [idle, 0, 0])
    end
  end

  it "runs no handler after unsubscribe, and goes on where it was when it subscribes again" do
    topic = topics.first
    events = Thread::Queue.new
    client = consumer(subscribed_topics: topic)
    busy = handler do |_, message|
      events << [:start, message.offset]
      sleep(0.02)
      events << [:end, message.offset]
    end
    client.subscribe(busy)
    Thread.new { 60.times { |number| sender.send_message(topic, "key", number) } }.join
    handled = pops(events, 30)

    expect(seconds { client.unsubscribe }).to be < 2
    expect(client.consumer_state).to eq(:configured)
    handled << events.pop until events.empty?
    expect(handled).to eq((0...handled.size / 2).flat_map { |offset| [[:start, offset], [:end, offset]] })
    client.subscribe(busy)
    handled.concat(pops(events, 120 - handled.size))
    expect(handled).to eq((0...60).flat_map { |offset| [[:start, offset], [:end, offset]] })
  end

  it "unsubscribes in time while another member joins, and a handler does not end" do
    events = Thread::Queue.new
    client = consume(subscribed_topics: topics, shutdown_timeout: 1) do |context, _|
      events << :started
      context.on_cancel
      events << :told
      sleep
    end
    topics.each { |topic| send_takes(topic, 0) }
    expect(pops(events, 4)).to all(eq(:started))
    other = start
    # Part of the group's partitions is to be given up, and waits for its handlers.
    expect(pop(events)).to eq(:told)

    expect(seconds { client.unsubscribe }).to be < 3
    await_ended(other, *topics.map { |topic| [topic, 0, 0] })
  end

  it "unsubscribes in time after its topics were deleted" do
    handled = Thread::Queue.new
    client = consume(subscribed_topics: topics) { |_, message| handled << message }
    topics.each { |topic| send_takes(topic, 0) }
    pops(handled, 4)
    KafkaProtocol.new(address).delete_topics(*topics)

    expect(seconds { client.unsubscribe }).to be < 3
  end
end
