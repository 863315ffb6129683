# frozen_string_literal: true

require_relative "../support/delivery_checker"

RSpec.describe DeliveryChecker do
  # "A 0-9 k:3" is a run of process A from 0 to 9 of key k's offset 3; "A 0-9! k:3" was interrupted, "A 0- k:3" never
  # ended. "A 3:0-9 k:3" is of a message sent at 3, "A 0-9 k:3/1" in partition 1 instead of 0. "A 99" is A's exit, "A 99X"
  # that it was killed, "A 5 got" and "A 5 gave" that partition 0 came and went, "5 2" that 2 was committed there at 5.
  def log(*runs)
    runs.flat_map do |run|
      case run.split
      in [/\A\d+\z/ => clock, offset] then "committed topic 0 #{offset} #{clock}.0"
      in [process, clock] then "#{clock.end_with?("X") ? "kill" : "exit"} #{process} #{clock.delete("X")}.0"
      in [process, clock, "got" | "gave" => change] then "#{change} #{process} topic 0 #{clock}.0"
      in [process, span, event] then lines_of_run(process, span, event)
      end
    end
  end

  def lines_of_run(process, span, event)
    key, offset, partition = event.split(%r{[:/]})
    sent, times = span.include?(":") ? span.split(":") : [nil, span]
    from, to = times.split("-")
    place = "#{process} topic #{partition || 0} #{offset} #{key}"
    ["start #{place} #{from}.0#{" #{sent}.0" if sent}", ("#{to.end_with?("!") ? "stop" : "end"} #{place} #{to.delete("!")}.0" if to)].compact
  end

  def check(*runs, messages: 3)
    described_class.new(log(*runs), messages: messages)
  end

  def faults(*runs, messages: 3)
    check(*runs, messages: messages).faults.join("\n")
  end

  it "accepts order within a key, and keys side by side" do
    expect(faults("A 0-9 k:0", "A 1-3 l:1", "A 10-12 k:2")).to eq("")
  end

  it "accepts that a process takes over where another one has left" do
    expect(faults("A 0-9 k:0", "B 10-12 k:1", "B 12-13 k:2")).to eq("")
  end

  it "accepts that an unfinished event is handled again, and what had succeeded behind it" do
    judged = check("A 0-9! k:0", "A 1-3 l:1", "A 10", "B 11-12 k:0", "B 13-14 l:1", "B 13-15 k:2")

    expect(judged.faults).to eq([])
    expect(judged.repeats).to eq(1)
    expect(judged.summary).to eq("3 messages, 5 runs in 2 processes, 1 of them unfinished, 1 repeated, 0 faults")
  end

  it "accepts that a process gets back what it lost" do
    expect(faults("A 0-9! k:0", "A 1-3 l:1", "A 11-12 k:0", "A 13-14 l:1", "A 13-15 k:2")).to eq("")
  end

  it "accepts that what an owner finished beyond its position is handled again by the owner after the next" do
    expect(faults("A 0-9! k:0", "A 1-3 l:2", "A 10", "B 11-12 k:0", "B 12-13 k:1", "B 14", "C 15-16 l:2")).to eq("")
  end

  it "lets a process that is gone take what it has not ended with it" do
    expect(faults("A 0- k:0", "A 5", "B 6-7 k:0", "B 8-9 k:1", "B 10-11 k:2")).to eq("")
  end

  it "refuses a message that nobody handled" do
    expect(faults("A 0-1 k:0", "A 3-4 k:2")).to include("never handled: topic/0 offsets 1 (1 in all)")
  end

  it "refuses messages missing at a partition's end" do
    expect(faults("A 0-1 k:0", "A 3-4 k:1")).to eq("2 of 3 messages were handled")
  end

  it "refuses a message that was only interrupted" do
    expect(faults("A 0-1 k:0", "A 2-3! l:1", "A 2-4 k:2")).to include("never handled: topic/0 offsets 1")
  end

  it "refuses two of a key at a time within a process" do
    expect(faults("A 0-9 k:0", "A 5-8 k:1", "A 10-12 k:2")).to include("two of a key at a time")
  end

  it "refuses two of a key at a time in two processes" do
    expect(faults("A 0-9 k:0", "B 5-8 k:0", "B 9-10 k:1", "B 11-12 k:2")).to include("two of a key at a time").and include("two owners")
  end

  it "refuses that a handler still runs, whose event another process has taken" do
    expect(faults("A 0-9! k:0", "B 5-6 k:0", "B 10-12 k:1", "B 13-14 k:2")).to include("two of a key at a time")
  end

  it "refuses a key of a partition that another process still works on" do
    expect(faults("A 0-9 k:0", "B 5-8 l:1", "B 10-12 k:2")).to include("two owners at a time").and exclude("two of a key")
  end

  it "refuses a later message that overtakes" do
    expect(faults("A 0-1 k:0", "A 2-3 k:2", "A 4-5 k:1")).to include("before its turn: topic/0 offset 2").and include("out of order: topic/0 offset 1")
  end

  it "refuses a message behind one that has not succeeded" do
    expect(faults("A 0-1 k:0", "A 2-3! k:1", "A 4-5 k:2", "A 6-7 k:1")).to include("before its turn: topic/0 offset 2")
  end

  it "refuses wrong order in a repetition" do
    runs = ["A 0-9! j:0", "A 1-2 k:1", "A 3-4 k:2", "A 10", "B 11-12 j:0", "B 11-13 k:2", "B 14-15 k:1"]

    expect(faults(*runs)).to include("out of order: topic/0 offset 1")
  end

  it "refuses that what was finished and committed is handled again" do
    expect(faults("A 0-1 k:0", "A 2-3 l:1", "B 4-5 l:1", "B 6-7 k:2")).to include("handled again although it was finished and committed: topic/0 offset 1")
    expect(faults("A 0-1 k:0", "A 2-3 l:1", "A 4-5 l:1", "A 6-7 k:2")).to include("handled again although it was finished and committed: topic/0 offset 1")
  end

  it "refuses that a handler runs on when its process has left the group" do
    lines = log("A 0-1 k:0", "A 2-3 k:1", "A 2", "A 4-5 k:2").insert(-3, *log("A 4"))

    expect(described_class.new(lines, messages: 3).summary).to include("2 x after its process had left")
  end

  describe "of a process that was killed" do
    it "takes what it had not ended as ended by the kill" do
      expect(faults("A 0- k:0", "A 5X", "B 6-7 k:0", "B 8-9 k:1", "B 10-11 k:2")).to eq("")
      expect(faults("A 0- k:0", "A 5X", "B 4-7 k:0", "B 8-9 k:1", "B 10-11 k:2")).to include("two of a key at a time")
    end

    it "accepts that what it had not committed is handled again" do
      judged = check("A 0-1 k:0", "A 2-3 k:1", "4 1", "A 5X", "B 10-11 k:1", "B 12-13 k:2")

      expect(judged.faults).to eq([])
      expect(judged.repeats).to eq(1)
    end

    it "refuses that what it had committed is handled again" do
      expect(faults("A 0-1 k:0", "A 2-3 k:1", "4 2", "A 5X", "B 10-11 k:1", "B 12-13 k:2"))
        .to include("handled again although it was finished and committed: topic/0 offset 1")
    end

    it "allows no more to those that came after it" do
      runs = ["A 0-1 k:0", "A 5X", "B 10-11 k:0", "B 12-13 k:1", "B 14", "C 15-16 k:1", "C 17-18 k:2"]

      expect(faults(*runs)).to include("handled again although it was finished and committed: topic/0 offset 1")
    end
  end

  describe "of committed offsets" do
    it "accepts those that grow with what is finished" do
      expect(faults("A 0-1 k:0", "2 1", "A 3-9 k:1", "A 3-4 l:2", "5 1", "10 3")).to eq("")
    end

    it "refuses one that goes back" do
      expect(faults("A 0-1 k:0", "A 2-3 k:1", "4 2", "5 1", "A 6-7 k:2")).to include("committed offsets went back: topic/0 from 2 to 1")
    end

    it "refuses one beyond what is finished" do
      expect(faults("A 0-9 k:0", "A 0-1 l:1", "2 2", "A 10-11 k:2")).to include("committed before it was finished: topic/0 offset 0")
      expect(faults("A 0-1 k:0", "2 2", "A 2-3! k:1", "A 4-5 k:1", "A 6-7 k:2")).to include("committed before it was finished: topic/0 offset 1")
    end

    it "refuses that anything below starts again, whoever does it" do
      runs = ["A 0-1 k:0", "A 2-3 k:1", "4 2", "A 5X", "B 10-11 k:1", "B 12-13 k:2"]

      expect(faults(*runs)).to include("handled again although its commit had been seen: topic/0 offset 1")
    end
  end

  describe "of a partition that its owner keeps" do
    it "accepts that it waits for handlers of others, and a moment" do
      judged = check("A 0-1 k:0", "A 0-20 l:0/1", "A 2:22-23 k:1")

      expect(judged.faults).to eq([])
      expect(judged.longest_wait).to eq(2.0)
    end

    it "refuses that it waits for longer" do
      expect(faults("A 0-1 k:0", "A 0-20 l:0/1", "A 2:24-25 k:1")).to include("a kept partition waited: 4.0 s for topic/0 offset 1")
      expect(faults("A 0-1 k:0", "A 0-2 l:0/1", "A 2:7-8 k:1")).to include("a kept partition waited: 5.0 s")
    end

    it "refuses that it waits for handlers that started later elsewhere" do
      expect(faults("A 0-1 k:0", "A 3-20 l:0/1", "A 2:21-22 k:1")).to include("a kept partition waited: 19.0 s")
    end

    it "does not count the time before a message was sent" do
      expect(faults("A 0-1 k:0", "A 98:99-100 k:1", "A 100-101 k:2")).to eq("")
    end

    it "does not count a wait in which it was not kept" do
      expect(faults("A 0-1 k:0", "A 2 gave", "A 40 got", "A 2:41-42 k:1", "A 43-44 k:2")).to eq("")
      expect(faults("A 0-1 k:0", "A 0 got", "A 45 gave", "A 2:41-42 k:1", "A 43-44 k:2")).to include("a kept partition waited")
    end
  end

  it "refuses a log that is broken" do
    lines = ["end A topic 0 0 k 1.0", "start A topic 0 0 k 2.0", "start A topic 0 0 k 3.0", "start A to"]

    expect(described_class.new(lines, messages: 1).faults.join("\n"))
      .to include("end without a start").and include("started twice").and include('not a line of a handler: "start A to"')
  end

  def exclude(text)
    satisfy("exclude #{text.inspect}") { |actual| !actual.include?(text) }
  end
end
