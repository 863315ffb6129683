# frozen_string_literal: true

# Partitions that come and go in one process: a client stays in its group while another one joins and leaves, round after
# round. In each round every partition handles a message while both are members, and another one when the guest has left,
# each once. Memory and threads must not grow.
class AssignmentRounds
  include Waiting

  PARTITIONS = 4
  # What the second half of the rounds may add; the first one warms up.
  GROWTH_MAX_BYTES = 4 * 1024 * 1024
  # And for each message: the in-process log, which is in this process, keeps them.
  MESSAGE_BYTES_MAX = 1024
  # The pool of tokio for blocking calls, and clients whose end goes on in the background.
  THREADS_MORE_MAX = 8
  ROUND_SECONDS = 60

  # What the log says of a round is kept until the next one, to be shown if a check fails.
  #
  # @param make [#call] makes a client that subscribes to the topic
  def initialize(topic:, rounds:, make:)
    @topic, @rounds, @make = topic, rounds, make
    @handled = Thread::Queue.new
    @sent = 0
  end

  def run
    Prosody.logger = @log = LogLines.new
    @host = @make.call
    @host.subscribe(handler)
    await_assigned(@host)
    @keys = key_of_each_partition
    @rounds.times do |number|
      puts "round #{number}" if number > 0 && (number % 100).zero?
      @warm = measure if number == @rounds / 2
      round
      @log.clear
    end
    report(measure)
    check("nothing was handled twice") { @handled.empty? }
    @host.unsubscribe
  rescue Scenario::Failed
    puts @log.to_a.last(60)
    raise
  end

  private

  # Every other round with a new client.
  def round
    @guest = @make.call if @guest.nil? || (@fresh = !@fresh)
    @guest.subscribe(handler)
    await_assigned(@guest, @host)
    check_progress("with a guest")
    @guest.unsubscribe
    check_progress("alone")
  end

  def await_assigned(*clients)
    shares = nil
    wait_until("each of #{clients.size} clients to have its share", ROUND_SECONDS) do
      shares = clients.map(&:assigned_partitions)
      shares.sum == PARTITIONS && shares.all?(&:positive?)
    end
  rescue Scenario::Failed
    raise Scenario::Failed, "after #{ROUND_SECONDS} s, guest and host have #{shares.join(" and ")} partitions"
  end

  def check_progress(what)
    wanted = @keys.map { |partition, key| [partition, send_number(key)] }.sort
    seen = []
    seen << pop(@handled, ROUND_SECONDS) until (wanted - seen).empty?
    raise Scenario::Failed, "#{what}: handled #{seen.sort}, sent #{wanted}" unless seen.sort == wanted
  rescue Timeout::Error
    raise Scenario::Failed, "#{what}: no progress on #{(wanted - seen).map(&:first)} within #{ROUND_SECONDS} s"
  end

  def handler
    BlockHandler.new { |_, message| @handled << [message.partition, message.payload] }
  end

  def send_number(key)
    @sent += 1
    @host.send_message(@topic, key, @sent)
    @sent
  end

  def key_of_each_partition
    keys = {}
    (0..).each do |number|
      return keys if keys.size == PARTITIONS

      send_number("key-#{number}")
      keys[pop(@handled).first] ||= "key-#{number}"
    end
  end

  # Memory once what is unreachable is gone, and threads once those that end have ended.
  def measure
    GC.start
    least = threads
    20.times do
      sleep(0.05)
      least = [least, threads].min
    end
    [resident_bytes, least]
  end

  def report((bytes, count))
    puts format("%d rounds: %.1f MB and %d threads after half of them, %.1f MB and %d threads at the end",
      @rounds, @warm[0] / 1e6, @warm[1], bytes / 1e6, count)
    check("memory is flat") { bytes - @warm[0] <= GROWTH_MAX_BYTES + @sent / 2 * MESSAGE_BYTES_MAX }
    check("threads do not grow") { count - @warm[1] <= THREADS_MORE_MAX }
  end
end
