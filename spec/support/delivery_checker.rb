# frozen_string_literal: true

# Judges what handlers of all processes of a group have written: whether every message was handled, in its key's
# order, never two of a key at a time, and again only where it had to be. Knows nothing of prosody.
#
# A line is one of
#
#   start PROCESS TOPIC PARTITION OFFSET KEY CLOCK [CLOCK]    the second one: when the message was sent
#   end   PROCESS TOPIC PARTITION OFFSET KEY CLOCK    the handler has succeeded
#   stop  PROCESS TOPIC PARTITION OFFSET KEY CLOCK    the handler was interrupted
#   got   PROCESS TOPIC PARTITION CLOCK               the partition is the process's
#   gave  PROCESS TOPIC PARTITION CLOCK               and no more
#   exit  PROCESS CLOCK
#   kill  PROCESS CLOCK                               it was killed, and is gone
#   committed TOPIC PARTITION OFFSET CLOCK            a look at the group's offsets, from outside
#
# with one clock for all processes. Positions are not kept by a durable store here, so what is handled again begins,
# at the earliest, with the first event that was unfinished when its partition was given up. Of a process that was
# killed, only those commits count that were seen.
class DeliveryChecker
  # What a partition may wait, in seconds, that its owner keeps while it gives others up: beyond the end of the handlers
  # that ran there, the time for the group's protocol on a loaded machine. It is half of the time
  # for which a crashed member is missed (6 s): nobody else may wait for that.
  WAIT_MAX = 3.0

  Run = Struct.new(:process, :place, :offset, :key, :from, :to, :outcome, :sent) do
    def to_s
      format("%s offset %d key %s by process %s, %.3f to %.3f", place.join("/"), offset, key, process, from, to)
    end
  end

  PLACED = /\A(start|end|stop) (\S+) (\S+) (\d+) (\d+) (\S+) (\d+\.\d+)(?: (\d+\.\d+))?\z/
  OWNED = /\A(?:got|gave) (\S+) (\S+) (\d+) (\d+\.\d+)\z/
  GONE = /\A(exit|kill) (\S+) (\d+\.\d+)\z/
  COMMITTED = /\Acommitted (\S+) (\d+) (\d+) (\d+\.\d+)\z/
  private_constant :Run, :PLACED, :OWNED, :GONE, :COMMITTED

  # @return [Integer] runs of events that had been handled before
  attr_reader :repeats
  # @return [Float] the longest wait of a partition that its owner kept, in seconds (see {WAIT_MAX})
  attr_reader :longest_wait

  # @param lines [Enumerable<String>]
  # @param messages [Integer] how many messages there are, over all partitions
  def initialize(lines, messages:)
    @messages = messages
    @faults = []
    @runs = []
    @open = {}
    @gone = {}
    @killed = {}
    # By process and place: when it came or went.
    @changes = Hash.new { |hash, owner| hash[owner] = [] }
    # By place: pairs of clock and offset.
    @commits = Hash.new { |hash, place| hash[place] = [] }
    @repeats = 0
    @longest_wait = 0.0
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
      @by_place.each { |place, runs| check_commits(runs, @commits[place]) }
      check_waits
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
      kind, process, topic, partition, offset, key, clock, sent = match.captures
      place = [topic, Integer(partition)]
      note(kind, [process, place, Integer(offset), key], Float(clock), sent && Float(sent))
    elsif (match = OWNED.match(line))
      @changes[[match[1], [match[2], Integer(match[3])]]] << Float(match[4])
    elsif (match = COMMITTED.match(line))
      @commits[[match[1], Integer(match[2])]] << [Float(match[4]), Integer(match[3])]
    elsif (match = GONE.match(line))
      close(match[2], Float(match[3]))
      @killed[match[2]] = true if match[1] == "kill"
    else
      @faults << "not a line of a handler: #{line.inspect}"
    end
  end

  def note(kind, event, clock, sent)
    @faults << "after its process had left: #{kind} #{event.join(" ")}" if @gone[event.first]
    run = @open.delete(event)
    if kind == "start"
      @faults << "started twice without an end: #{run}" if run
      @runs << @open[event] = Run.new(*event, clock, Float::INFINITY, nil, sent)
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
      if @killed[tenure.first.process]
        position = [position, committed_at(tenure.first.place, given_up_at)].max
      else
        position += 1 while own.key?(position) && own[position] <= given_up_at
      end
    end
  end

  # What had been seen to be committed by then.
  def committed_at(place, clock)
    commits = @commits[place]
    later = commits.bsearch_index { |seen_at, _| seen_at > clock } || commits.size
    later.zero? ? 0 : commits[later - 1].last
  end

  # Committed offsets only grow, nothing below them is unfinished, and nothing below them starts any more.
  def check_commits(runs, commits)
    place = runs.first.place.join("/")
    commits.each_cons(2) do |(_, before), (clock, offset)|
      @faults << "committed offsets went back: #{place} from #{before} to #{offset} at #{clock}" if offset < before
    end
    finished = Hash.new(Float::INFINITY)
    runs.each { |run| finished[run.offset] = [finished[run.offset], run.to].min if run.outcome == "end" }
    below = 0
    commits.each do |clock, offset|
      early = (below...offset).find { |one| finished[one] > clock }
      @faults << "committed before it was finished: #{place} offset #{early}, committed up to #{offset} at #{clock}" if early
      below = [below, offset].max
    end
    runs.each do |run|
      late = run.offset < committed_at(run.place, run.from)
      @faults << "handled again although its commit had been seen: #{run}" if late
    end
  end

  # A partition that its owner keeps waits no longer for those that it gives up than for their running handlers.
  def check_waits
    by_process = @runs.group_by(&:process)
    @by_place.each_value do |runs|
      last = nil
      runs.each do |run|
        check_wait(last, run, by_process[run.process]) if last && run.sent && kept?(last, run)
        last = run if last.nil? || run.to > last.to
      end
    end
  end

  def kept?(last, run)
    last.process == run.process && @changes[[run.process, run.place]].none? { |clock| clock.between?(last.to, run.from) }
  end

  def check_wait(last, run, runs)
    idle_from = [last.to, run.sent].max
    return if run.from <= idle_from

    waited = run.from - [idle_from, *running_at(runs, idle_from).map(&:to)].max
    @longest_wait = [@longest_wait, waited].max
    @faults << format("a kept partition waited: %.1f s for %s, sent at %.3f", waited, run, run.sent) if waited > WAIT_MAX
  end

  def running_at(runs, clock)
    @longest_run ||= @runs.map { |run| run.to - run.from }.select(&:finite?).max
    index = runs.bsearch_index { |run| run.from > clock } || runs.size
    recent = runs.first(index).reverse_each.lazy.take_while { |run| run.from >= clock - @longest_run }
    recent.select { |run| run.to > clock && run.to.finite? }.to_a
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
