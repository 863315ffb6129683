# frozen_string_literal: true

# Case 8: `unsubscribe` ends within `shutdown_timeout` and a second, whatever its group does just then: while partitions
# are being given up for a member that joins, while members join and leave all the time, right after it has subscribed,
# and when its topics were deleted. Its handlers would never end.
require_relative "../support/scenario"

SHUTDOWN_SECONDS = 1.0
# Beyond the spec's second, for a machine that is busy with other things.
MARGIN_SECONDS = 1.0
ROUNDS = 12

Prosody.logger = LOG = LogLines.new
SENDER = Prosody::Client.new(bootstrap_servers: broker, source_system: "scenario", send_timeout: 30)
RANDOM = Random.new(Integer(ENV.fetch("SEED") { Random.new_seed % 1_000_000 }))
puts "SEED=#{RANDOM.seed}"

def member(topic, group, **options)
  quick = QUICK_GROUP.merge("heartbeat.interval.ms" => 100)
  kafka_client(topic: topic, group: group, shutdown_timeout: SHUTDOWN_SECONDS, kafka_config: quick, **options)
end

def endless(started)
  BlockHandler.new do |_, message|
    started << message
    never_return
  end
end

def fill(*topics)
  SENDER.send_messages(topics.flat_map { |topic| Array.new(40) { |number| {topic: topic, key: "key-#{number}", payload: 1} } })
end

def check_close(what, client)
  took = seconds { client.unsubscribe }
  check(format("closing %s took %.2f s", what, took)) { took < SHUTDOWN_SECONDS + 1 + MARGIN_SECONDS }
  check("it has no partition") { client.assigned_partitions == 0 }
end

# A member joins, so that partitions are revoked whose handlers run; closing comes a moment later.
topic, group = make_topic, new_name("group")
fill(topic)
started = Thread::Queue.new
[0.0, 0.3, 0.8].each do |later|
  first = member(topic, group)
  first.subscribe(endless(started))
  pop(started)
  second = member(topic, group)
  second.subscribe(endless(started))
  sleep(later)
  check_close("#{later} s after another one has joined", first)
  check_close("that one", second)
  started.clear
end

# Members come and go all the time; whoever has just subscribed closes.
others = Array.new(2) do
  Thread.new do
    until @enough
      client = member(topic, group)
      client.subscribe(endless(Thread::Queue.new))
      sleep(RANDOM.rand * 0.5)
      client.unsubscribe
    end
  end
end
others.each { |thread| thread.abort_on_exception = true }
ROUNDS.times do |number|
  client = member(topic, group)
  client.subscribe(endless(Thread::Queue.new))
  sleep(RANDOM.rand * 1.5)
  check_close("in round #{number + 1}", client)
end
@enough = true
others.each(&:join)

# Its topics are deleted, all of them and one of two, before or after it has heard of that.
[[1, 0.0], [1, 3.0], [2, 0.0], [2, 3.0]].each do |count, later|
  topics = Array.new(count) { make_topic }
  fill(*topics)
  client = member(topics, new_name("group"), kafka_config: QUICK_GROUP.merge("topic.metadata.refresh.interval.ms" => 200))
  client.subscribe(endless(started))
  pops(started, 2)
  KafkaProtocol.new(broker).delete_topics(topics.first)
  sleep(later)
  check_close("with one of #{count} topics deleted for #{later} s", client)
  started.clear
end
