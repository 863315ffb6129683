# frozen_string_literal: true

require_relative "../spec_helper"

# Whatever fails, each warning and error of it says which message it is about.
RSpec.describe "What the log says of a failure", :mock do
  big = Array.new(5) { |number| Prosody.value("big-#{number}") }

  # By kind: how the log names it, options of the client, and what the first attempt does, or bytes that are sent in
  # place of a payload.
  kinds = {
    "a transient error" => [/is retried in/, {}, -> { raise "no" }],
    "a permanent error" => [/permanent failure, message is done/, {}, -> { raise Prosody::PermanentError }],
    "an error in best_effort mode" => [/transient failure, message is done/, {mode: :best_effort}, -> { raise "no" }],
    "an error whose message is long and of many lines" => [/is retried in/, {}, -> { raise "no\n" * 1_000 }],
    "an error in low_latency mode" => [/is retried in/, {mode: :low_latency, failure_topic: "failures"}, -> { raise "no" }],
    "a state error" => [/NullValueError/, {}, ->(context) { context.state(big[0]).set(nil) }],
    "changes that are too many for one transaction" => [/4194304/, {}, ->(context) { big.each { |one| context.state(one).set("x" * 1_000_000) } }],
    "the handler's time is up" => [/stopped after timeout/, {timeout: 0.1}, -> { sleep(60) }],
    "the handler's task is stopped" => [/not by prosody/, {}, -> { raise Async::Stop }],
    "the handler's thread ends" => [/is retried in/, {}, -> { Thread.current.kill }],
    "a payload that is not JSON" => [/does not decode/, {}, "nope"],
    "an id that comes again with another payload" => [/was skipped/, {}, '{"id": 0, "other": true}']
  }
  if MockMode.hostile?
    kinds["the store does not answer a write"] = [/sent again/, {}, nil]
    kinds["the store cannot be read, which it is once for each key"] = [/cannot be read/, {}, :many_keys]
  end

  kinds.each do |kind, (line, options, failing)|
    it "names topic, partition, offset and key: #{kind}" do
      failed = false
      handled = Thread::Queue.new
      consume(state_collections: big, **options) do |context, message|
        if failing.respond_to?(:call) && message.offset == 1 && !failed
          failed = true
          failing.arity.zero? ? failing.call : failing.call(context)
        end
        handled << message.offset
      end
      # So many that a store that fails every tenth call does so.
      60.times do |number|
        next produce_raw("a key", failing) if failing.is_a?(String) && number == 1

        produce((failing == :many_keys) ? "key #{number}" : "a key", {"id" => number})
      end
      (failing == :many_keys) ? pops(handled, 60) : (nil until pop(handled) == 59)
      log.wait_for(line)
      lines = log.grep(/\A(WARN|ERROR) /).grep_v(/handler's thread|thread of the handlers/)

      expect(lines.grep(line)).not_to be_empty
      expect(lines).to all(match(/topic=#{topic} partition=\d offset=\d+ key="(a key|key \d+)"/m))
      expect(lines.grep(line)).to include(match(/offset=1 /)) unless failing.nil? || failing == :many_keys
    end
  end
end
