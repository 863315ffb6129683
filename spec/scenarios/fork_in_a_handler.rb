# frozen_string_literal: true

# scenario: every ruby

# Cases 1 to 3, from a handler: its child runs on a fiber of a reactor whose other threads are not there. However the
# child ends, the parent's event succeeds, once, and others are handled meanwhile.
require_relative "../support/scenario"

$stderr.reopen(File::NULL) # children's exceptions
Prosody.logger = Logger.new(File::NULL)
children = {
  "exit" => [3, -> { exit(3) }],
  "exit!" => [4, -> { exit!(4) }],
  "abort" => [1, -> { abort }],
  "exception" => [1, -> { raise "no" }],
  "sleep" => [0, -> { Fiber.new(blocking: true) { sleep(0.01) }.resume }],
  "thread" => [5, -> { Fiber.new(blocking: true) { Thread.new { exit(5) }.join }.resume }],
  "own client" => [6, lambda do
    own = mock_client(group_id: "own")
    handled = Thread::Queue.new
    own.subscribe(BlockHandler.new { |_, message| handled << message.payload })
    own.send_message("topic", "k", "own")
    exit!(7) unless Fiber.new(blocking: true) { handled.pop }.resume == "own"
    # Ends without unsubscribe, as programs do.
    exit(6)
  end]
}
codes = Thread::Queue.new
handled = Thread::Queue.new
parent = Process.pid
client = mock_client
client.subscribe(BlockHandler.new do |_, message|
  name = message.payload
  if name == "returns"
    # No block: the child comes back here, and returns to what called the handler.
    if (child = fork)
      codes << [name, Process.wait2(child).last.exitstatus]
    end
  elsif (work = children[name]&.last)
    codes << [name, Process.wait2(fork(&work)).last.exitstatus]
  end
  handled << [name, Process.pid] if Process.pid == parent || name == "plain"
end)

(children.keys + ["returns"]).each do |name|
  client.send_message("topic", "k", name)
  ended, code = pop(codes)
  expected = children.fetch(name, [0]).first
  check("a child that a handler forked ends: #{ended} with #{code}") { [ended, code] == [name, expected] }
  check("the handler goes on in the parent, once") { pop(handled) == [name, parent] }
end
client.send_message("topic", "k", "plain")
check("the parent goes on") { pop(handled) == ["plain", parent] }
check("nothing was handled twice") { handled.empty? && codes.empty? }
client.unsubscribe
