# frozen_string_literal: true

require_relative "../spec_helper"
require "stringio"

# What Prosody.logger gets while clients run; the unit spec has the accessor itself.
RSpec.describe "Prosody.logger", :mock do
  it "gets Rust's lines, with their target as progname" do
    out = StringIO.new
    logger = Logger.new(out)
    seen = Thread::Queue.new
    logger.formatter = ->(severity, _time, progname, message) { seen << [severity, progname, message] }
    Prosody.logger = logger
    consume {}

    expect(pop(seen)).to match(["INFO", /\Aprosody_core/, /assigned: #{topic}/])
  end

  it "may be another one at any time" do
    consume { |_, message| raise Prosody::PermanentError if message.payload }
    produce("k", 1)
    log.wait_for(/offset=0/)
    other = LogLines.new
    Prosody.logger = other
    produce("k", 2)

    expect(other.wait_for(/permanent failure/)).to include("offset=1")
    expect(log.grep(/offset=1/)).to be_empty
  end

  it "needs no more than debug, info, warn and error" do
    seen = Thread::Queue.new
    least = Object.new
    %i[debug info warn error].each { |level| least.define_singleton_method(level) { |text| seen << [level, text] } }
    Prosody.logger = least
    consume { raise Prosody::PermanentError }
    produce("k", 1)

    expect(pops(seen, 2)).to match([[:info, /assigned/], [:error, /permanent failure/]])
  end

  it "may raise: the line is lost, and said on stderr, and all goes on" do
    broken = Logger.new(nil)
    def broken.add(*) = raise("disk full")
    Prosody.logger = broken
    got = Thread::Queue.new
    lost = nil
    expect {
      consume do |_, message|
        raise Prosody::PermanentError if message.payload == 1
        got << message.payload
      end
      produce("k", 1)
      produce("k", 2)
      pop(got)
      unsubscribe_all
      Prosody.logger = log
      consume(group_id: "#{group}-2") {}
      lost = log.wait_for(/assigned/)
    }.to output(/the logger raised RuntimeError, lost: .*permanent failure/).to_stderr
    expect(lost).to match(/INFO/)
  end

  it "may be slow: handlers do not wait for it" do
    slow = LogLines.new
    gate = Thread::Queue.new
    slow.define_singleton_method(:add) do |*arguments|
      gate.pop
      super(*arguments)
    end
    Prosody.logger = slow
    got = Thread::Queue.new
    consume do |_, message|
      raise Prosody::PermanentError if message.payload.odd?
      got << message.payload
    end
    20.times { |number| produce("k", number) }

    expect(pops(got, 10)).to eq((0..18).step(2).to_a)
    gate.close
    slow.wait_for_count(/permanent failure/, 10)
  end

  it "gets what the filter PROSODY_LOG lets through" do
    program = <<~RUBY
      Prosody.logger = Logger.new($stdout)
      client = new_client
      handled = Thread::Queue.new
      client.subscribe(BlockHandler.new { |_, _| handled << true; raise Prosody::PermanentError, "failed" })
      client.send_message(TOPIC, "k", 1)
      handled.pop
      client.unsubscribe
    RUBY

    expect(ruby(program).output).to match(/assigned/).and match(/permanent failure/)
    expect(ruby(program, PROSODY_LOG: "error").output).to match(/permanent failure/).and match(/\A(?!.*assigned)/m)
    expect(ruby(program, PROSODY_LOG: "prosody=off,prosody_core=off").output).not_to match(/assigned|failure/)
  end

  it "gets the last lines at the end of the process" do
    result = ruby(<<~RUBY)
      Prosody.logger = Logger.new($stdout)
      client = new_client
      handled = Thread::Queue.new
      client.subscribe(BlockHandler.new { |_, _| handled << true; raise Prosody::PermanentError, "the last one" })
      client.send_message(TOPIC, "k", 1)
      handled.pop
    RUBY

    expect(result.output).to include("the last one")
  end
end
