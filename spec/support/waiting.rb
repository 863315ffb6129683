# frozen_string_literal: true

# Waits for events, never for time.
module Waiting
  SECONDS = 15

  # The queue's next item.
  def pop(queue, seconds = SECONDS)
    Timeout.timeout(seconds, nil, "nothing came within #{seconds} s") { queue.pop }
  end

  # The queue's next so many items.
  def pops(queue, count)
    Array.new(count) { pop(queue) }
  end

  # How long the block takes, in seconds.
  def seconds
    from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - from
  end
end
