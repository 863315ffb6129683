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
    from = monotonic
    yield
    monotonic - from
  end

  def monotonic
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # What a thread counts while the block runs: it stands still if something keeps Ruby's lock.
  #
  # @return [Float] its longest standstill, in seconds
  def longest_standstill
    longest = 0.0
    last = monotonic
    counting = true
    counter = Thread.new do
      while counting
        sleep(0.005)
        now = monotonic
        longest = [longest, now - last].max
        last = now
      end
    end
    yield
    counting = false
    counter.join
    longest
  end
end
