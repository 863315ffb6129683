# frozen_string_literal: true

# Cases 4, 8 and 9: `unsubscribe` ends within shutdown_timeout and a second whatever brokers do: nobody listens, somebody
# does and never answers, packets vanish, the member is just joining, the broker is gone. Other threads go on.
require "socket"
require_relative "../support/scenario"

broker
LIMIT = 1
Prosody.logger = Logger.new(File::NULL)

def client_of(address, **options)
  Prosody::Client.new(bootstrap_servers: address, group_id: new_name("group"), store: :memory, source_system: "scenario",
    probe_port: nil, shutdown_timeout: LIMIT, kafka_config: Scenario::QUICK_GROUP, **options)
end

def in_time(what, client)
  took = nil
  standstill = longest_standstill { took = seconds { client.unsubscribe } }
  check("#{what}: unsubscribe takes #{took.round(2)} s, others stand still for #{standstill.round(2)} s") do
    took < LIMIT + 2.5 && standstill < 1 && client.consumer_state == :configured
  end
end

silent = TCPServer.new("127.0.0.1", 0)
refusing = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
# Its queue of connections is full: what one asks for is dropped.
full = Socket.new(:INET, :STREAM)
full.bind(Addrinfo.tcp("127.0.0.1", 0))
full.listen(0)
fillers = Array.new(3) do
  Socket.new(:INET, :STREAM).tap { |socket| socket.connect_nonblock(full.local_address, exception: false) }
end
{
  "nobody listens" => "127.0.0.1:#{refusing}",
  "no answer comes" => "127.0.0.1:#{silent.addr[1]}",
  "no connection comes about" => "127.0.0.1:#{full.local_address.ip_port}",
  "no such host" => "broker.invalid:9092"
}.each do |what, address|
  client = client_of(address, subscribed_topics: "topic")
  outcome = Thread::Queue.new
  subscribing = Thread.new do
    client.subscribe(BlockHandler.new {})
    outcome << nil
  rescue Prosody::Error => error
    outcome << error
  end
  wait_until("the start of subscribe") { client.consumer_state == :running }
  sleep(0.3)
  in_time("while subscribing, #{what}", client)
  check("subscribe ends, and says why") { pop(outcome)&.message&.include?("unsubscribed") }
  subscribing.join
  # In the background, a send goes on without anybody who waits.
  Thread.new { client.send_message("topic", "k", 1) }.tap { |thread| thread.report_on_exception = false }
  client = nil
  check("a client that is dropped meanwhile holds nothing up") { longest_standstill { 3.times { GC.start } } < 1 }
end
fillers.each(&:close)

# While it joins: again at other moments of it.
topic = make_topic(partitions: 16)
group = new_name("group")
# A member that keeps the others waiting: the group's rebalance lasts until its handler has ended.
keeper_busy = Thread::Queue.new
keeper = client_of(broker, subscribed_topics: topic, group_id: group)
keeper.subscribe(BlockHandler.new { |context, _| keeper_busy << true and sleep(0.05) })
sender = kafka_client(topic: topic)
sender.send_messages(Array.new(200) { |number| {topic: topic, key: "key-#{number}", payload: number} })
pop(keeper_busy, 60)
12.times do |round|
  client = client_of(broker, subscribed_topics: topic, group_id: group)
  client.subscribe(BlockHandler.new {})
  sleep(round * 0.06)
  in_time("#{round * 60} ms after subscribe, in a group that has another member", client)
end
in_time("the other member", keeper)

# While the broker is gone.
own = Broker::Own.new
begin
  Broker.warm_up(at: own.address)
  Broker.create_topics({"topic" => 4}, at: own.address)
  handled = Thread::Queue.new
  busy = client_of(own.address, subscribed_topics: "topic")
  busy.subscribe(BlockHandler.new { |_, message| handled << message.payload })
  busy.send_message("topic", "k", 1)
  pop(handled, 60)
  clients = Array.new(3) do
    client_of(own.address, subscribed_topics: "topic").tap { |client| client.subscribe(BlockHandler.new {}) }
  end
  wait_until("assignments", 60) { clients.all? { |client| client.assigned_partitions == 4 } }
  own.kill
  joining = client_of(own.address, subscribed_topics: "topic")
  Thread.new { joining.subscribe(BlockHandler.new {}) }.tap { |thread| thread.report_on_exception = false }
  in_time("the broker is gone, at once", clients[0])
  in_time("the broker is gone, to a member that has handled something", busy)
  wait_until("the start of subscribe") { joining.consumer_state == :running }
  in_time("the broker is gone before subscribe", joining)
  sleep(7)
  in_time("the broker is gone for longer than the session's timeout", clients[1])
  own.up
  in_time("the broker has just come back", clients[2])
ensure
  own.remove
end
