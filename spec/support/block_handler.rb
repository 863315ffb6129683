# frozen_string_literal: true

# A handler that is a block.
class BlockHandler < Prosody::EventHandler
  def initialize(&block)
    super()
    @block = block
  end

  def on_message(context, message)
    @block.call(context, message)
  end
end
