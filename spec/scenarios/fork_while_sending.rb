# frozen_string_literal: true

# Cases 1 to 3: the threads of a web server send all the time, and the main thread forks: a lock that one of them, or a
# thread of the native side, holds at that moment would be held for ever in the child. Also Process.daemon.
require_relative "../support/scenario"

THREADS = 16
FORKS = 100

topic = make_topic
client = kafka_client(topic: topic)
client.send_message(topic, "key", "first")
Prosody.logger = Logger.new($stdout, level: Logger::ERROR)

going = true
sent = 0
threads = Array.new(THREADS) do |number|
  Thread.new do
    while going
      client.send_message(topic, "key-#{number}", sent)
      sent += 1
    end
  end
end

in_mock = lambda do
  own = mock_client
  handled = Thread::Queue.new
  own.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  own.send_message("topic", "key", 1)
  exit!(9) unless handled.pop == 1
  own.unsubscribe
end
codes = Array.new(FORKS) { end_of_child(30, &in_mock) }
check("#{FORKS} children use clients of their own: #{codes.tally}") { codes.tally == {0 => FORKS} }
on_broker = lambda do
  own = kafka_client(topic: topic)
  own.send_message(topic, "key", "child")
end
codes = Array.new(10) { end_of_child(60, &on_broker) }
check("children send on their own connections: #{codes.tally}") { codes.tally == {0 => 10} }
before = sent
wait_until("further sends of the parent") { sent > before + 100 }

# Ends the parent, and goes on in a child of it without its threads.
reader, writer = IO.pipe
daemonizer = fork do
  own = kafka_client(topic: topic)
  own.send_message(topic, "key", "before")
  sender = Thread.new { loop { own.send_message(topic, "key", "while") } }
  sleep(0.01) until sender.alive?
  Process.daemon(true, true)
  begin
    own.send_message(topic, "key", "inherited")
  rescue Prosody::Error => error
    inherited = error.message
  end
  handled = Thread::Queue.new
  again = kafka_client(topic: topic)
  again.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  again.send_message(topic, "key", "daemon")
  nil until pop(handled, 60) == "daemon"
  at_exit { writer.write(inherited.include?("fork") ? "daemon ended" : "no error") }
  exit
end
check("Process.daemon ends the process that calls it") { Process.wait2(daemonizer).last.exitstatus == 0 }
writer.close
check("the daemon works with a client of its own, and ends") { Timeout.timeout(90) { reader.read } == "daemon ended" }

going = false
check("every thread goes on to its end") { threads.all? { |thread| thread.join(40) } }
