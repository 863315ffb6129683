# frozen_string_literal: true

# Cases 8 and 9: impatient operators. A process that unsubscribes at SIGTERM, or is ended by it, with a handler that never
# returns, gets a second and a third signal: it ends within shutdown_timeout and a second of the first one (the rest is
# the margin of a busy machine), and each
# signal that is trapped is delivered at once, also while a native call waits.
require_relative "../support/scenario"

TIMEOUT = 2
HANDLERS = {
  "takes no stop" => "begin; sleep; rescue Async::Stop; retry; end",
  "never yields" => "loop {}"
}.freeze

# Starts a program that is ready with a handler at work; yields its process id; answers how and when after that it ended,
# and what it wrote.
def run(program, handler)
  pid, reader = start_program(<<~RUBY)
    Prosody.logger = Logger.new(File::NULL)
    started = Thread::Queue.new
    client = mock_client(shutdown_timeout: #{TIMEOUT})
    client.subscribe(BlockHandler.new { started << true; #{handler} })
    client.send_message("topic", "k", 1)
    started.pop
    #{program}
  RUBY
  Timeout.timeout(60) { reader.gets }
  from = monotonic
  yield pid, reader
  _, status = Timeout.timeout(30) { Process.wait2(pid) }
  [status.exitstatus || "signal #{status.termsig}", monotonic - from, reader.read.split("\n")]
rescue Timeout::Error
  Process.kill(:KILL, pid)
  ["did not end", 30, []]
end

UNSUBSCRIBES = <<~RUBY
  signals = Thread::Queue.new
  trap("TERM") { signals << :term; $stdout.syswrite("trapped\\n") }
  puts "ready"
  signals.pop
  client.unsubscribe
  exit(7)
RUBY
IN_TRAP = 'trap("TERM") { $stdout.syswrite("trapped\\n"); client.unsubscribe; exit(7) }; puts "ready"; sleep'
DEFAULT = 'puts "ready"; sleep'
DEFAULT_IN_CALL = 'puts "ready"; client.unsubscribe; sleep'

def signal(pid, *names)
  names.each_with_index do |name, index|
    sleep(0.3) if index > 0
    Process.kill(name, pid)
  end
rescue Errno::ESRCH
  nil # it has ended
end

cases = HANDLERS.flat_map do |what, handler|
  [
    ["unsubscribes, #{what}", UNSUBSCRIBES, handler, %i[TERM TERM TERM], [7], 3],
    ["unsubscribes, then SIGINT, #{what}", UNSUBSCRIBES, handler, %i[TERM INT TERM], ["signal 2"], nil],
    ["unsubscribes in its trap, #{what}", IN_TRAP, handler, %i[TERM TERM TERM], [7], nil],
    ["has no trap, #{what}", DEFAULT, handler, %i[TERM TERM INT], ["signal 15", "signal 2"], nil],
    ["has no trap, and unsubscribes already, #{what}", DEFAULT_IN_CALL, handler, %i[TERM INT TERM], ["signal 15", "signal 2"], nil]
  ]
end
threads = cases.map do |name, program, handler, signals, codes, traps|
  Thread.new do
    code, took, output = run(program, handler) { |pid, _| signal(pid, *signals) }
    [name, codes, traps, code, took, output]
  end
end
threads.each do |thread|
  name, codes, traps, code, took, output = thread.value
  check("a process that #{name} ends with #{code} in #{took.round(1)} s, after #{output.size} traps") do
    codes.include?(code) && took < TIMEOUT + 2.5 && (traps.nil? || output.size == traps)
  end
end

# A trap is run while a native call waits, which goes on.
require "socket"
silent = TCPServer.new("127.0.0.1", 0)
client = Prosody::Client.new(bootstrap_servers: "127.0.0.1:#{silent.addr[1]}", send_timeout: 3, source_system: "scenario")
trapped = []
trap("USR1") { trapped << monotonic }
sent = Array.new(5) { |number| Thread.new { sleep(0.2 + number * 0.3) and monotonic.tap { Process.kill(:USR1, Process.pid) } } }
begin
  took = seconds { client.send_message("topic", "key", 1) }
rescue Prosody::Error => error
  took = nil
end
delays = trapped.zip(sent.map(&:value)).map { |at, since| at - since }
check("five traps are run while a send waits, the slowest after #{delays.max.round(2)} s") { delays.size == 5 && delays.max < 1 }
check("the send ends as it would have") { took.nil? && error.message.include?("not acknowledged within 3 s") }
