# frozen_string_literal: true

# Cases 1 and 2 with a real broker: librdkafka's threads are in the parent only. Children end however they like,
# twenty of them, and the parent sends and consumes all the while.
require_relative "../support/scenario"
skip(RUBY_3_1_FORKS) if RUBY_VERSION < "3.2"

topic = make_topic
handled = Hash.new(0)
client = kafka_client(topic: topic)
client.subscribe(BlockHandler.new { |_, message| handled[message.payload] += 1 })
client.send_message(topic, "key", 0)
wait_until("the first message") { handled.key?(0) }

sent = [0]
going = true
sender = Thread.new do
  while going
    client.send_message(topic, "key-#{sent.size % 8}", sent.size)
    sent << sent.size
  end
end

raises = lambda do |&call|
  call.call
  false
rescue Prosody::Error => error
  error.message.include?("fork")
end
children = {
  "that does nothing" => [0, -> {}],
  "that exits with a code" => [3, -> { exit(3) }],
  "that leaves without at_exit" => [4, -> { exit!(4) }],
  "that raises" => [1, -> { $stderr.reopen(File::NULL) and raise "no" }],
  "that is killed" => ["signal 9", -> { Process.kill(:KILL, Process.pid) and sleep }],
  "that is terminated" => ["signal 15", -> { Process.kill(:TERM, Process.pid) and sleep }],
  "that runs the collector, and finalizers of what it inherited" => [0, lambda do
    client = sender = nil
    ObjectSpace.each_object(Prosody::Client) { |inherited| inherited.instance_variables.each { |name| inherited.remove_instance_variable(name) } }
    4.times { GC.start }
  end],
  "that uses what it inherited" => [7, lambda do
    calls = [-> { client.send_message(topic, "k", 1) }, -> { client.unsubscribe }, -> { client.subscribe(BlockHandler.new {}) },
      -> { client.is_stalled? }, -> { client.send_messages([{topic: topic, key: "k", payload: 1}]) and raise }]
    exit((calls.first(4).all? { |call| raises.call(&call) } && client.inspect.include?("another process")) ? 7 : 8)
  end],
  "whose child does" => [9, -> { exit((end_of_child { raises.call { client.send_message(topic, "k", 1) } || exit!(2) } == 0) ? 9 : 10) }],
  # What is not closed at exec goes on in a program that knows nothing of it.
  "that becomes another program, which has no descriptor of ours" => [0, lambda do
    exec("/bin/sh", "-c", 'for fd in /proc/self/fd/*; do case "$(readlink $fd)" in socket:*|anon_inode*) exit 5;; esac; done')
  end],
  "that makes a client" => [0, lambda do
    own = kafka_client(topic: topic)
    own_handled = Thread::Queue.new
    own.subscribe(BlockHandler.new { |_, message| own_handled << message.payload })
    own.send_message(topic, "other", "child")
    nil until pop(own_handled, 30) == "child"
    own.unsubscribe
  end]
}

children.each do |name, (code, work)|
  seen = sent.size
  ended = end_of_child(40, &work)
  check("a child #{name} ends with #{code}: #{ended}") { ended == code }
  wait_until("the parent sends") { sent.size > seen + 1 }
end
twenty = Array.new(20) { Thread.new { end_of_child(30) { client.inspect } } }
check("twenty children at once end") { twenty.map(&:value) == [0] * 20 }

going = false
sender.join
wait_until("all messages of the parent") { sent.all? { |number| handled.key?(number) } }
check("the parent handles each message once: #{sent.size}") { handled.values_at(*sent).all?(1) }
check("the parent unsubscribes in time") { seconds { client.unsubscribe } < 6 }
