# frozen_string_literal: true

# scenario: every ruby

# Cases 12 and 15: a handler never returns, and swallows every attempt to interrupt it. Its partition's other keys go on
# until `max_uncommitted` stops that partition, all others go on beyond that; the partition counts as stalled and the log
# says what stands still; closing ends in time, and the event is handled again. In mock mode, then on a broker.
require_relative "../support/scenario"

class NeverReturns
  include Waiting

  WINDOW = 8
  STALL_SECONDS = 2.0
  SHUTDOWN_SECONDS = 1.0
  # Beyond the spec's second, for a machine that is busy with other things.
  MARGIN_SECONDS = 1.0

  def initialize(topic, make)
    @topic = topic
    @make = make
    @handled = Thread::Queue.new
    @stuck = Thread::Queue.new
    @log = LogLines.new
    @sent = 0
  end

  def run
    Prosody.logger = @log
    @client = client
    @client.subscribe(handler)
    sort_keys
    fill
    stall
    close
    resume
  end

  private

  def client
    @make.call(max_uncommitted: WINDOW, stall_threshold: STALL_SECONDS, shutdown_timeout: SHUTDOWN_SECONDS, max_concurrency: 16)
  end

  def handler
    BlockHandler.new do |_, message|
      if message.payload["stuck"]
        @stuck << message
        never_return
      end
      @last_end = monotonic if message.partition == @partition
      @handled << [message.partition, message.key, message.payload["n"]]
    end
  end

  def send_to(key, **more)
    @sent += 1
    @client.send_message(@topic, key, {"n" => @sent, **more.transform_keys(&:to_s)})
    @sent
  end

  # Sends one for each of these keys; they are handled.
  def flow(keys, what)
    wanted = keys.map { |key| send_to(key) }
    got = pops(@handled, wanted.size).map(&:last)
    check("#{what} go on") { got.sort == wanted }
  end

  # The stuck key, others of its partition, and keys of other partitions.
  def sort_keys
    keys = Array.new(64) { |number| "key-#{number}" }
    keys.each { |key| send_to(key) }
    by_partition = pops(@handled, keys.size).group_by(&:first).transform_values { |handled| handled.map { |_, key| key } }
    @partition, (@key, *@beside) = by_partition.first
    @elsewhere = by_partition.reject { |partition, _| partition == @partition }.values.flatten
  end

  def fill
    @first = send_to(@key, stuck: true)
    @message = pop(@stuck)
    check("it is the partition's") { @message.partition == @partition }
    3.times { flow(@beside + @elsewhere, "other keys and partitions") }
    @waiting = Array.new(WINDOW - 1) { send_to(@key) }
    @beyond = send_to(@beside.first)
    3.times { flow(@elsewhere, "other partitions, beyond its window,") }
    # To show that nothing happens.
    sleep(0.3)
    check("the partition has stopped") { @handled.empty? }
  end

  def stall
    wait_until("it is stalled") { @client.is_stalled? }
    check("not before stall_threshold") { monotonic - @last_end >= STALL_SECONDS }
    place = "topic=#{@topic} partition=#{@partition} offset=#{@message.offset} key=#{@key.inspect}"
    line = @log.wait_for(/partition is stalled/)
    check("the log says what and for how long: #{line}") do
      times = line.match(/no event has ended for (\d+) s, the handler of the oldest one runs for (\d+) s/)&.captures
      line.end_with?(place) && times && times.all? { |time| Integer(time) >= STALL_SECONDS }
    end
    flow(@elsewhere, "other partitions, while it is stalled,")
    check("it still is") { @client.stalled? }
    check("only it is") { @log.grep(/partition is stalled/).size == 1 }
  end

  def close
    took = seconds { @client.unsubscribe }
    check(format("closing took %.2f s", took)) { took < SHUTDOWN_SECONDS + 1 + MARGIN_SECONDS }
    check("nothing else was handled") { @handled.empty? }
    check("it counts no more as stalled") { !@client.is_stalled? }
  end

  # Of its key all in order, by the next one.
  def resume
    again = Thread::Queue.new
    other = client
    other.subscribe(BlockHandler.new { |_, message| again << [message.key, message.payload["n"]] })
    left = [@first, *@waiting, @beyond]
    seen = []
    seen << pop(again) until (left - seen.map(&:last)).empty?
    of_key = seen.select { |key, _| key == @key }.map(&:last)
    check("its event is handled again, then those behind it") { of_key == [@first, *@waiting] }
    other.unsubscribe
  end
end

puts "in mock mode"
NeverReturns.new("topic", ->(**options) { mock_client(**options) }).run
topic = make_topic if broker
group = new_name("group")
puts "on a broker"
NeverReturns.new(topic, ->(**options) { kafka_client(topic: topic, group: group, send_timeout: 30, **options) }).run
