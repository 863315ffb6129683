# frozen_string_literal: true

# Judges what handlers of all processes of a group have written: whether every message was handled, in its key's
# order, never two of a key at a time, and again only where it had to be. Knows nothing of prosody.
#
# A line is one of
#
#   start PROCESS TOPIC PARTITION OFFSET KEY CLOCK
#   end   PROCESS TOPIC PARTITION OFFSET KEY CLOCK    the handler has succeeded
#   stop  PROCESS TOPIC PARTITION OFFSET KEY CLOCK    the handler was interrupted
#   exit  PROCESS CLOCK
#
# with one clock for all processes. Positions are not kept by a durable store here, so what is handled again begins,
# at the earliest, with the first event that was unfinished when its partition was given up.
class DeliveryChecker
  Run = Struct.new(:process, :place, :offset, :key, :from, :to, :outcome) do
    def to_s
      format("%s offset %d key %s by process %s, %.3f to %.3f", place.join("/"), offset, key, process, from, to)
    end
  end

  PLACED = /\A(start|end|stop) (\S+) (\S+) (\d+) (\d+) (\S+) (\d+\.\d+)\z/
  EXIT = /\Aexit (\S+) (\d+\.\d+)\z/
  private_constant :Run, :PLACED, :EXIT

  # @return [Integer] runs of events that had been handled before
  attr_reader :repeats

  # @param lines [Enumerable<String>]
  # @param messages [Integer] how many messages there are, over all partitions
  def initialize(lines, messages:)
    @messages = messages
    @faults = []
    @runs = []
    @open = {}
    @gone = {}
    @repeats = 0
    lines.each { |line| read(line.chomp) }
    @runs.sort_by!(&:from)
  end

  # @return [Array<String>] what is wrong; empty if nothing is
  def faults
    @checked ||= begin
      @by_place = @runs.group_by(&:place)
      check_completeness
      @by_place.each_value { |runs| check_owners(runs) }
      @runs.group_by { |run| [run.place, run.key] }.each_value { |runs| check_key(runs) }
      @by_place.each_value { |runs| check_repeats(runs) }
      @faults
    end
  end

  # @return [String] what it has seen, and kinds of faults with their numbers
  def summary
    unfinished = @runs.count { |run| run.outcome != "end" }
    processes = @runs.map(&:process).uniq.size
    kinds = faults.map { |fault| fault[/\A[^:]*/] }.tally.map { |kind, count| "\n  #{count} x #{kind}" }
    "#{@messages} messages, #{@runs.size} runs in #{processes} processes, #{unfinished} of them unfinished, " \
      "#{repeats} repeated, #{faults.size} faults#{kinds.join}"
  end

  private

  def read(line)
    if (match = PLACED.match(line))
      kind, process, topic, partition, offset, key, clock = match.captures
      place = [topic, Integer(partition)]
      note(kind, [process, place, Integer(offset), key], Float(clock))
    elsif (match = EXIT.match(line))
      close(match[1], Float(match[2]))
    else
      @faults << "not a line of a handler: #{line.inspect}"
    end
  end

  def note(kind, event, clock)
    @faults << "after its process had left: #{kind} #{event.join(" ")}" if @gone[event.first]
    run = @open.delete(event)
    if kind == "start"
      @faults << "started twice without an end: #{run}" if run
      @runs << @open[event] = Run.new(*event, clock, Float::INFINITY, nil)
    elsif run && !@gone[event.first]
      run.to = clock
      run.outcome = kind
    elsif !@gone[event.first]
      @faults << "#{kind} without a start: #{event.join(" ")}"
    end
  end

  # What a process has not ended, ends with it.
  def close(process, clock)
    @gone[process] = true
    @open.delete_if { |(owner, *), run| owner == process && run.to = clock }
  end

  def check_completeness
    done = @runs.select { |run| run.outcome == "end" }.group_by(&:place)
    handled = 0
    done.each do |place, runs|
      offsets = runs.map(&:offset).uniq
      handled += offsets.size
      lost = (0..offsets.max).to_a - offsets
      @faults << "never handled: #{place.join("/")} offsets #{lost.first(10).join(", ")} (#{lost.size} in all)" if lost.any?
    end
    @faults << "#{handled} of #{@messages} messages were handled" unless handled == @messages
  end

  # Nobody starts in a partition while somebody else has not ended there.
  def check_owners(runs)
    last = nil
    runs.each do |run|
      if last && last.process != run.process && run.from < last.to
        @faults << "two owners at a time: #{last}, and #{run}"
      end
      last = run if last.nil? || run.to > last.to
    end
  end

  def check_key(runs)
    runs.each_cons(2) do |before, run|
      @faults << "two of a key at a time: #{before}, and #{run}" if run.from < before.to
    end
    check_order(runs)
  end

  # No event starts for the first time before all earlier ones of its key have succeeded, and a process goes back
  # only to where it has been.
  def check_order(runs)
    succeeded = Hash.new(Float::INFINITY)
    runs.each { |run| succeeded[run.offset] = [succeeded[run.offset], run.to].min if run.outcome == "end" }
    offsets = runs.map(&:offset).uniq.sort
    earlier = offsets.zip([nil, *offsets]).to_h
    started = {}
    runs.each_with_index do |run, index|
      previous = earlier[run.offset]
      @faults << "before its turn: #{run}" if previous && succeeded[previous] > run.from
      last = index.zero? ? nil : runs[index - 1]
      back = last && last.process == run.process && run.offset <= last.offset
      @faults << "out of order: #{run}, after #{last}" if back && !started[[run.process, run.offset]]
      started[[run.process, run.offset]] = true
    end
  end

  # An event that had succeeded runs again only if it, or one before it, was unfinished when its owner gave the
  # partition up: below, everything was committed. What an owner finished beyond counts for that owner only.
  def check_repeats(runs)
    position = 0
    ended = {}
    spans = tenures(runs).to_a
    spans.each_with_index do |tenure, index|
      own = {}
      tenure.each do |run|
        if (before = ended[run.offset])
          @repeats += 1
          committed = run.offset < position || passed?(own, position, run.offset)
          @faults << "handled again although it was finished and committed: #{run}, before: #{before}" if committed
        end
        next unless run.outcome == "end"

        ended[run.offset] = run
        own[run.offset] ||= run.to
      end
      given_up_at = spans[index + 1]&.first&.from || Float::INFINITY
      position += 1 while own.key?(position) && own[position] <= given_up_at
    end
  end

  # Whether everything up to an offset had ended before it did. Whoever lost a partition and got it back shows no change
  # of hands: then no more than that is known.
  def passed?(own, position, offset)
    own.key?(offset) && (position..offset).all? { |earlier| own.fetch(earlier, Float::INFINITY) <= own[offset] }
  end

  # Spans of one owner.
  def tenures(runs)
    runs.slice_when { |before, run| before.process != run.process }
  end
end
