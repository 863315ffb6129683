# frozen_string_literal: true

# scenario: every async

# Cases 1 to 3: a child of a process with a running producer and consumer ends as every process
# does, is told clearly that inherited clients are not its own, and works with one that it makes.
require_relative "../support/scenario"

handled = Thread::Queue.new
client = mock_client
client.subscribe(BlockHandler.new { |_context, message| handled << message.payload })
client.send_message("topic", "key", 1)
check("the parent handles") { pop(handled) == 1 }

check("a child that does nothing ends") { end_of_child { nil } == 0 }
code = end_of_child do
  client.send_message("topic", "key", 2)
rescue Prosody::Error => error
  exit(error.message.include?("fork") ? 7 : 8)
end
check("an inherited client says why it does not work") { code == 7 }
code = end_of_child do
  own = mock_client
  own_handled = Thread::Queue.new
  own.subscribe(BlockHandler.new { |_context, message| own_handled << message.payload })
  own.send_message("topic", "key", 3)
  exit!(9) unless pop(own_handled) == 3
  own.unsubscribe
end
check("a client made in the child works") { code == 0 }

client.send_message("topic", "key", 4)
check("the parent goes on") { pop(handled) == 4 }
client.unsubscribe
