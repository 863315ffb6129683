# frozen_string_literal: true

# Cases 1 to 3, as Puma's clusters do it: the master has loaded prosody and consumes itself, its workers are forked and
# make their own clients, and are replaced one after the other ("phased restart") while messages flow. Every message
# is handled.
require_relative "../support/scenario"
skip(RUBY_3_1_FORKS) if RUBY_VERSION < "3.2"

WORKERS = 3

topic = make_topic(partitions: 8)
group = new_name("group")
reader, writer = IO.pipe
Prosody.logger = Logger.new($stdout, level: Logger::WARN)

handler = BlockHandler.new do |_, message|
  sleep(0.001)
  writer.syswrite("#{Process.pid} #{message.payload}\n") if message.payload.is_a?(Integer)
end

# Ends at SIGTERM, as a server does that has an `on_worker_shutdown` hook.
work = lambda do
  term = Thread::Queue.new
  trap("TERM") { term << true }
  client = kafka_client(topic: topic, group: group)
  client.subscribe(handler)
  client.send_message(topic, "hello", Process.pid.to_s)
  wait_until("partitions of a worker", 60) { client.assigned_partitions > 0 }
  writer.syswrite("#{Process.pid} ready\n")
  term.pop
  client.unsubscribe
end

handled = Hash.new(0)
ready = Thread::Queue.new
by = Hash.new(0)
Thread.new do
  reader.each_line do |line|
    pid, what = line.split
    by[Integer(pid)] += 1
    (what == "ready") ? ready << Integer(pid) : handled[Integer(what)] += 1
  end
end

master = kafka_client(topic: topic, group: group)
master.subscribe(handler)
sent = 0
going = true
sender = Thread.new do
  while going
    master.send_message(topic, "key-#{sent % 50}", sent)
    sent += 1
  end
end
wait_until("the master's first messages", 60) { handled.size > 10 }

started = []
start = lambda do
  fork(&work).tap do |pid|
    started << pid
    check("worker #{started.size} starts") { pop(ready, 60) == pid }
  end
end
workers = Array.new(WORKERS) { start.call }
WORKERS.times do
  old = workers.shift
  workers << start.call
  Process.kill(:TERM, old)
  check("a worker that is replaced ends well, in time") { Timeout.timeout(20) { Process.wait2(old).last.exitstatus } == 0 }
end
workers.each { |pid| Process.kill(:TERM, pid) }
codes = workers.map { |pid| Timeout.timeout(20) { Process.wait2(pid).last.exitstatus } }
check("all workers end well: #{codes}") { codes == [0] * WORKERS }
going = false
sender.join
wait_until("all #{sent} messages", 60) { handled.size == sent }
twice = handled.count { |_, times| times > 1 }
# Without a durable store, what had finished behind an unfinished message comes again when its partition moves. One message
# in 13 runs was seen to; that this is why is not shown.
check("all but a few messages are handled once, #{sent} of them: #{twice} twice") { twice <= 20 }
check("every worker has handled some") { started.all? { |pid| by[pid] > 1 } }
check("the master unsubscribes") { seconds { master.unsubscribe } < 6 }
