# frozen_string_literal: true

require_relative "delivery_checker"
require_relative "worker_process"

# A group whose members come and go, round after round, half of them by SIGKILL, while messages flow. Each member is a
# process; what their handlers and the group's offsets tell is for DeliveryChecker to judge.
class MemberChurn
  PARTITIONS = 8
  KEYS = 400
  MEMBERS = 3
  # Besides the bursts that begin the rounds.
  MESSAGES_PER_SECOND = 40
  SAMPLE_SECONDS = 0.2
  # Until each partition gets on again: a session's timeout, twice, and what a loaded machine takes.
  PROGRESS_SECONDS = 60
  # Handlers take up to so long: most a fifth of that, a tenth of them more.
  TAKE_MAX = 2.0
  WAYS = %w[unsubscribe exit default].freeze

  # @return [Array<Float>] seconds of each round from its leave to progress on every partition
  attr_reader :recoveries
  # @return [Integer] messages sent
  attr_reader :sent

  # @param file [String] where all write what happens
  # @param client [Hash] options of the members' clients
  # @param sender [Prosody::Client]
  def initialize(rounds:, messages:, random:, file:, topic:, client:, kafka_config:, sender:, address:)
    @rounds, @messages, @random = rounds, messages, random
    @path, @topic, @sender = file, topic, sender
    @client = client.merge(subscribed_topics: topic)
    @kafka_config = kafka_config
    @protocol = KafkaProtocol.new(address)
    @file = File.open(file, File::WRONLY | File::APPEND | File::CREAT)
    @ways = ways
    @members = []
    @progress = Hash.new(0)
    @sent = 0
    @recoveries = []
  end

  # Yields after each round: its number, who left and how, seconds until every partition got on.
  def run(&told)
    MEMBERS.times { join }
    await("first members") { @members.all? { |worker| worker.ended.any? } || (send_some && false) }
    flowing = flow
    sampling = sample
    @rounds.times { |number| told.call(number, *round(number)) }
    flowing.kill.join
    send_burst(@messages - @sent) if @sent < @messages
    await("commit of all #{@sent} messages", 120) { @committed&.values&.sum == @sent }
    sampling.kill.join
    @members.each { |worker| leave(worker, :TERM) }
    DeliveryChecker.new(File.foreach(@path), messages: @sent)
  end

  private

  # How members leave: half of them are killed.
  def ways
    kills = @rounds / 2
    (Array.new(kills, "kill") + Array.new(@rounds - kills) { |number| WAYS[number % WAYS.size] }).shuffle(random: @random)
  end

  def round(number)
    send_burst((number + 1) * @messages / @rounds - @sent)
    leaver = @members.delete_at(@random.rand(@members.size))
    newcomer = join
    # In a third of the rounds somebody leaves while the newcomer is still on its way in.
    at_once = @random.rand(3).zero?
    await("newcomer in round #{number}") { at_once ? newcomer.ready? : newcomer.ended.any? }
    way = @ways[number]
    leave(leaver, (way == "kill") ? :KILL : :TERM)
    @recoveries << await_progress(number)
    ["#{leaver.name} left by #{(way == "kill") ? way : leaver.on_term}", @recoveries.last]
  end

  def join
    # Those who will be killed need no way of their own.
    on_term = WAYS[@random.rand(WAYS.size)]
    worker = WorkerProcess.new(path: @path, client: @client, kafka_config: @kafka_config, on_term: on_term)
    @members << worker
    worker
  end

  def leave(worker, signal)
    if signal == :KILL
      worker.kill
      note("kill #{worker.name}")
    else
      status = worker.terminate
      ended_well = (worker.on_term == "default") ? status.termsig == Signal.list["TERM"] : status.success?
      raise "process #{worker.name} (#{worker.on_term}): #{status}\n#{worker.log_tail}" unless ended_well

      note("exit #{worker.name}")
    end
    worker.progress.each { |partition, count| @progress[partition] += count }
    WorkerProcess.all.delete(worker)
    worker.destroy
  end

  # @return [Float] seconds
  def await_progress(number)
    from = now
    before = progress
    await("progress on every partition after round #{number}: #{before}", PROGRESS_SECONDS) do
      present = progress
      (0...PARTITIONS).all? { |partition| present[partition] > before[partition] }
    end
    now - from
  end

  # How many runs have ended, by partition.
  def progress
    @members.each_with_object(@progress.dup) do |worker, sum|
      worker.progress.each { |partition, count| sum[partition] += count }
    end
  end

  def flow
    reported_thread do
      loop do
        send_some
        sleep(1.0 / MESSAGES_PER_SECOND)
      end
    end
  end

  def send_some
    send_burst(1)
  end

  def send_burst(count)
    return if count <= 0

    (@sending ||= Mutex.new).synchronize do
      messages = Array.new(count) { |number| {topic: @topic, key: "key-#{(@sent + number) % KEYS}", payload: {"take" => take}} }
      @sender.send_messages(messages)
      @sent += count
    end
  end

  def take
    longest = @random.rand(10).zero? ? TAKE_MAX : TAKE_MAX / 5
    (@random.rand * longest).round(3)
  end

  def sample
    reported_thread do
      loop do
        # The clock after the answer: what it holds was committed before.
        @committed = @protocol.committed(@client.fetch(:group_id), @topic, PARTITIONS)
        @committed&.each { |partition, offset| note("committed #{@topic} #{partition} #{offset}") }
        sleep(SAMPLE_SECONDS)
      end
    end
  end

  def reported_thread(&block)
    Thread.new(&block).tap { |thread| thread.abort_on_exception = true }
  end

  def await(what, seconds = WorkerProcess::SECONDS, &condition)
    give_up_at = now + seconds
    until condition.call
      raise "no #{what} within #{seconds} s\n#{@members.map(&:log_tail).join("\n")}" if now > give_up_at

      sleep(0.02)
    end
  end

  # One write each, as the handlers do.
  def note(text)
    @file.syswrite(format("%s %.6f\n", text, now))
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
