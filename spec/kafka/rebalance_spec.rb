# frozen_string_literal: true

require "tempfile"
require_relative "../kafka_helper"
require_relative "../support/delivery_checker"

RSpec.describe "A group whose members come and go", :kafka, seconds: 180 do
  let(:messages) { Integer(ENV.fetch("PROSODY_REBALANCE_MESSAGES", "20000")) }
  let(:partitions) { 8 }
  let(:keys) { 400 }
  let(:file) { Tempfile.new("prosody-rebalance") }
  let(:topic) { make_topic(partitions: partitions) }
  let(:workers) { [] }

  # Partitions change hands faster than handlers end: who does not wait for them is found out.
  let(:kafka_config) { KafkaMode::QUICK_GROUP.merge("heartbeat.interval.ms" => 20) }

  def join
    options = consumer_options.except(:kafka_config).merge(subscribed_topics: topic, max_concurrency: 64, shutdown_timeout: 10)
    workers << WorkerProcess.new(path: file.path, client: options, kafka_config: kafka_config)
    workers.last
  end

  def handled
    # Rarely asked for, and never by more than a few workers.
    workers.sum { |worker| worker.ended.size }
  end

  def await_handled(share)
    WorkerProcess.wait_until("#{(share * messages).round} handled messages", 60) { handled >= share * messages }
  end

  def await_part(worker)
    WorkerProcess.wait_until("message handled by process #{worker.pid}") { worker.ended.any? }
  end

  def send_all
    random = Random.new(1)
    takes = Array.new(messages) { (random.rand * 0.2).round(3) }
    Array.new(16) do |thread|
      Thread.new do
        thread.step(messages - 1, 16) { |number| sender.send_message(topic, "key-#{number % keys}", {"take" => takes[number], "n" => number}) }
      end
    end
  end

  it "handles every message, in order and never two of a key at a time, and again only what was unfinished" do
    first, second = join, join
    WorkerProcess.wait_until("two members") { first.ready? && second.ready? }
    sending = send_all
    await_part(first)
    await_part(second)

    # A member comes, a member goes; each has had its share before the next change.
    leaving = [first, second]
    [0.12, 0.35, 0.6].each do |share|
      await_handled(share)
      leaving << join
      await_part(leaving.last)
      await_handled(share + 0.1)
      expect(leaving.shift.terminate).to be_success
    end
    sending.each(&:join)
    all = Set.new
    WorkerProcess.wait_until("end", 90) do
      workers.each { |worker| all.merge(worker.ended) } if handled >= messages
      all.size == messages
    end
    leaving.each { |worker| expect(worker.terminate).to be_success }

    checker = DeliveryChecker.new(File.foreach(file.path), messages: messages)
    RSpec.configuration.reporter.message(checker.summary)
    expect(checker.faults).to be_empty, -> { [checker.summary, *checker.faults.group_by { |fault| fault[/\A[^:]*/] }.flat_map { |_, faults| faults.first(5) }].join("\n") }
    expect(workers.map { |worker| worker.ended.size }).to all(be > 0)
  end
end
