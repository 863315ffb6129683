# frozen_string_literal: true

# scenario: every ruby

# Cases 7 to 9: programs call prosody from signal handlers, where Ruby allows no Mutex and the interrupted code may
# hold one. Every call works there, or says at once what to do instead; none waits for ever.
require_relative "../support/scenario"

# What the block returns or raises in a trap handler of the main thread.
def in_trap
  outcome = nil
  before = trap("USR1") do
    outcome = [:returned, yield]
  rescue Exception => error # standard:disable Lint/RescueException
    outcome = [:raised, error]
  end
  Process.kill(:USR1, Process.pid)
  wait_until("the end of the signal handler") { outcome }
ensure
  trap("USR1", before || "DEFAULT")
end

check("the default logger can be had in a trap") { in_trap { Prosody.logger.class } == [:returned, Logger] }
Prosody.logger = LogLines.new

kind, error = in_trap { mock_client }
check("a process's first client is refused in a trap, with what to do instead") do
  kind == :raised && error.is_a?(Prosody::Error) && error.message.include?("signal handler")
end

handled = Thread::Queue.new
client = mock_client(shutdown_timeout: 1)
client.subscribe(BlockHandler.new { |_, message| handled << message.payload })
check("send_message works in a trap") { in_trap { client.send_message("topic", "k", 1) } == [:returned, nil] }
check("what a trap has sent is handled") { pop(handled) == 1 }
check("send_messages works in a trap") { in_trap { client.send_messages([{topic: "topic", key: "k", payload: 2}]) } == [:returned, nil] }
check("that is handled, too") { pop(handled) == 2 }
check("is_stalled? answers in a trap") { in_trap { client.is_stalled? } == [:returned, false] }
check("consumer_state answers in a trap") { in_trap { client.consumer_state } == [:returned, :running] }
check("assigned_partitions answers in a trap") { in_trap { client.assigned_partitions } == [:returned, 4] }
check("a further client can be made in a trap") { in_trap { mock_client.consumer_state } == [:returned, :configured] }

kind, error = in_trap { mock_client(group_id: "other").subscribe(BlockHandler.new {}) }
check("subscribe is refused in a trap, with what to do instead") do
  kind == :raised && error.is_a?(Prosody::Error) && error.message.include?("signal handler")
end

check("unsubscribe works in a trap") { in_trap { client.unsubscribe } == [:returned, nil] }
check("the client is not subscribed then") { client.consumer_state == :configured }
check("unsubscribe in a trap is idempotent") { in_trap { client.unsubscribe } == [:returned, nil] }

client.subscribe(BlockHandler.new do |context, message|
  handled << message.payload
  context.on_cancel
  loop { sleep }
rescue Async::Stop
  retry
end)
client.send_message("topic", "k", 3)
check("the client may subscribe again after that") { pop(handled) == 3 }
check("unsubscribe in a trap keeps its time with a handler that never returns") do
  seconds { in_trap { client.unsubscribe } }.between?(0.5, 2.5) && client.consumer_state == :configured
end

# The interrupted code holds what others need to go on: here the lock of the logger's device.
device = Object.new
device.define_singleton_method(:close) {}
device.define_singleton_method(:write) { |_line| @interrupt&.call if Thread.current.equal?(Thread.main) }
device.define_singleton_method(:interrupt=) { |interrupt| @interrupt = interrupt }
Prosody.logger = Logger.new(device)
client = mock_client(group_id: "third", shutdown_timeout: 1)
client.subscribe(BlockHandler.new do |_, message|
  handled << message.payload
  Prosody.logger.info("waits for the lock")
end)
took = outcome = nil
device.interrupt = lambda do
  device.interrupt = nil
  client.send_message("topic", "k", 4)
  pop(handled)
  took = seconds { outcome = in_trap { client.unsubscribe } }
end
Prosody.logger.info("the main thread logs, and is interrupted by a signal while it does")
check("unsubscribe in a trap keeps its time whatever the interrupted code holds: #{took.round(1)} s") do
  took.between?(0.5, 2.5) && outcome == [:returned, nil]
end

# In a fiber of a scheduler, too: a trap must not yield to others.
Prosody.logger = LogLines.new
outcomes = []
Sync do
  client = mock_client(group_id: "fourth")
  client.subscribe(BlockHandler.new {})
  outcomes << in_trap { client.send_message("topic", "k", 5) }
  outcomes << in_trap { client.unsubscribe }
end
check("the same holds under Async: #{outcomes}") { outcomes == [[:returned, nil], [:returned, nil]] }
