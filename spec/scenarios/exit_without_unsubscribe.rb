# frozen_string_literal: true

# Cases 8 to 10: programs that end without unsubscribe, however they do, end within 5 s although one handler never returns,
# and what their other handlers finished is committed: the next process does not see it again.
require "zlib"
require_relative "../support/scenario"

FINISHED = 20
# In the program: a handler that takes no end, and others that have ended. Its last line says how it ends.
PROGRAM = <<~RUBY
  Prosody.logger = Logger.new(File::NULL)
  ended = Thread::Queue.new
  topic, group, how = ARGV
  client = kafka_client(topic: topic, group: group, shutdown_timeout: 30, commit_interval: 30)
  client.subscribe(BlockHandler.new do |_, message|
    if message.payload == "forever"
      ended << :stuck
      begin
        sleep
      rescue Async::Stop
        retry
      end
    end
    ended << message.payload
  end)
  #{FINISHED + 1}.times { ended.pop }
  $stdout.syswrite("\#{monotonic}\\n")
RUBY

ENDS = {
  "end of the main program" => [0, ""],
  "exit" => [3, "exit(3)"],
  "exit in a thread" => [4, "Thread.new { exit(4) }; sleep"],
  "abort" => [1, "abort"],
  "an exception" => [1, "raise 'no'"],
  "SIGTERM to itself" => ["signal 15", "Process.kill(:TERM, Process.pid); sleep"],
  "SIGINT and SIGTERM, one after the other" => [%w[signal\ 2 signal\ 15], "Process.kill(:INT, Process.pid); begin; sleep; ensure; Process.kill(:TERM, Process.pid); end"],
  "exit in at_exit" => [5, "at_exit { exit(5) }"],
  "a kill of the main thread" => [0, "Thread.main.kill"]
}.freeze

sender = kafka_client(topic: "none")
run = lambda do |topic, group, ending|
  pid, reader = start_program(PROGRAM + ending, topic, group)
  from = Timeout.timeout(60) { Float(reader.gets) }
  _, status = Timeout.timeout(20) { Process.wait2(pid) }
  [status.exitstatus || "signal #{status.termsig}", monotonic - from]
rescue Timeout::Error, TypeError
  Process.kill(:KILL, pid)
  ["did not end", 0]
end

topics = ENDS.transform_values { new_name("topic") }
# Two partitions: behind the one that is stuck nothing can be committed.
Broker.create_topics(topics.values.to_h { |topic| [topic, 2] })
groups = ENDS.transform_values { new_name("group") }
stuck, free = ("a".."z").group_by { |key| Zlib.crc32(key) % 2 }.values_at(0, 1).map(&:first)
topics.each_value do |topic|
  sender.send_message(topic, stuck, "forever")
  sender.send_messages(Array.new(FINISHED) { |number| {topic: topic, key: free, payload: number} })
end
ends = ENDS.map { |name, (_, ending)| [name, Thread.new { run.call(topics[name], groups[name], ending) }] }
ends.each do |name, thread|
  code, took = thread.value
  check("#{name} ends the process with #{code} in #{took.round(1)} s") { Array(ENDS[name].first).include?(code) && took < 6 }
end

# The next process of each group.
Prosody.logger = Logger.new(File::NULL)
ENDS.each_key do |name|
  handled = Thread::Queue.new
  client = kafka_client(topic: topics[name], group: groups[name])
  client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  sender.send_message(topics[name], free, "last")
  sender.send_message(topics[name], stuck, "last")
  seen = pops(handled, 3)
  client.unsubscribe
  check("after #{name} the next process sees what was not finished only: #{seen}") { seen.tally == {"forever" => 1, "last" => 2} && handled.empty? }
end
