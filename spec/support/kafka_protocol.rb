# frozen_string_literal: true

require "socket"

# As much of Kafka's protocol as it takes to make topics and look at a group's offsets: milliseconds, where a command
# line tool takes seconds.
class KafkaProtocol
  LIST_OFFSETS = [2, 1].freeze
  OFFSET_FETCH = [9, 2].freeze
  METADATA = [3, 4].freeze
  CREATE_TOPICS = [19, 4].freeze
  DELETE_TOPICS = [20, 3].freeze
  CREATE_PARTITIONS = [37, 1].freeze
  TIMEOUT_MS = 15_000
  ALREADY_EXISTS = 36
  NO_REPLICA = 38
  private_constant :LIST_OFFSETS, :OFFSET_FETCH, :METADATA, :CREATE_TOPICS, :DELETE_TOPICS, :CREATE_PARTITIONS, :TIMEOUT_MS,
    :ALREADY_EXISTS, :NO_REPLICA

  def initialize(address)
    @host, port = address.split(",").first.split(":")
    @port = Integer(port)
  end

  # Makes topics and waits until each has its partitions.
  #
  # @param topics [Hash{String => Integer}] names and numbers of partitions
  # @param settings [Hash{String => String}] of all of them, such as `max.message.bytes`
  def create_topics(topics, settings = {})
    connected do
      described = topics.map { |name, partitions| string(name) + [partitions, -1, 0].pack("l>s>l>") + array(settings.map { |pair| pair.map { |text| string(text) }.join }) }
      # A broker that is too busy for its controller is fenced for a while: then nobody could hold a replica.
      await("a broker for #{topics.keys.join(", ")}") do
        answers = errors(ask(CREATE_TOPICS, array(described) + [TIMEOUT_MS, 0].pack("l>C")), messages: true)
        answers.each do |name, code, message|
          raise "topic #{name} was not made: #{code} #{message}" unless [0, ALREADY_EXISTS, NO_REPLICA].include?(code)
        end
        answers.none? { |answer| answer[1] == NO_REPLICA }
      end
      await("partitions of #{topics.keys.join(", ")}") { leaders(topics.keys) == topics }
    end
  end

  # Deletes topics and waits until they are gone.
  def delete_topics(*names)
    connected do
      errors(ask(DELETE_TOPICS, array(names.map { |name| string(name) }) + [TIMEOUT_MS].pack("l>"))).each do |name, code|
        raise "topic #{name} was not deleted: #{code}" unless code.zero?
      end
      await("the end of #{names.join(", ")}") { leaders(names).empty? }
    end
  end

  # What a group has committed. The broker has to be the group's coordinator, as one that is alone is.
  #
  # @return [Hash{Integer => Integer}, nil] offsets by partition, without those that have none; nil if the broker has
  #   just now no answer
  def committed(group, topic, partitions)
    connected do
      wanted = string(topic) + array(Array.new(partitions) { |number| [number].pack("l>") })
      answer = ask(OFFSET_FETCH, string(group) + array([wanted]))
      topics = answer.list { [answer.string, answer.list { [answer.int32, answer.int64, answer.string, answer.int16] }] }
      offsets = topics.flat_map(&:last)
      next if [answer.int16, *offsets.map(&:last)].any?(&:nonzero?)

      offsets.to_h { |partition, offset, *| [partition, offset] }.reject { |_, offset| offset.negative? }
    end
  end

  # Adds partitions, so that the topic has so many, and waits until it has.
  def grow_topic(name, partitions)
    connected do
      body = array([string(name) + [partitions, -1].pack("l>l>")]) + [TIMEOUT_MS, 0].pack("l>C")
      errors(ask(CREATE_PARTITIONS, body), messages: true).each do |_, code, message|
        raise "topic #{name} does not grow: #{code} #{message}" unless code.zero?
      end
      await("partitions of #{name}") { leaders([name]) == {name => partitions} }
    end
  end

  # @return [Array<Integer>] the offset of the next record of each partition, as its leader has it
  def end_offsets(topic, partitions)
    connected do
      asked = array(Array.new(partitions) { |number| [number, -1].pack("l>q>") })
      answer = ask(LIST_OFFSETS, [-1].pack("l>") + array([string(topic) + asked]))
      ends = answer.list { [answer.string, answer.list { [answer.int32, answer.int16, answer.int64, answer.int64] }] }
      ends.flat_map(&:last).sort.map(&:last)
    end
  end

  private

  def connected
    Socket.tcp(@host, @port, connect_timeout: 10) do |socket|
      @socket = socket
      yield
    end
  end

  def await(what)
    give_up_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + TIMEOUT_MS / 1000.0
    until yield
      raise "no #{what} within #{TIMEOUT_MS} ms" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > give_up_at
    end
  end

  # Topics that are there, and how many of their partitions have a leader.
  def leaders(names)
    answer = ask(METADATA, array(names.map { |name| string(name) }) + [0].pack("C"))
    answer.int32
    answer.list { [answer.int32, answer.string, answer.int32, answer.string] }
    answer.string
    answer.int32
    topics = answer.list { [answer.int16, answer.string, answer.int8, led_partitions(answer)] }
    topics.each_with_object({}) { |(code, name, _, count), found| found[name] = count if code.zero? }
  end

  def led_partitions(answer)
    partitions = answer.list { [answer.int16, answer.int32, answer.int32, answer.list { answer.int32 }, answer.list { answer.int32 }] }
    partitions.count { |code, *| code.zero? }
  end

  def errors(answer, messages: false)
    answer.int32
    answer.list { [answer.string, answer.int16, (answer.string if messages)] }
  end

  def ask((api, version), body)
    request = [api, version, 1].pack("s>s>l>") + string("prosody-specs") + body
    @socket.write([request.bytesize].pack("l>") + request)
    size = @socket.read(4).unpack1("l>")
    Answer.new(@socket.read(size)).tap(&:int32)
  end

  def string(text)
    [text.bytesize].pack("s>") + text.b
  end

  def array(items)
    [items.size].pack("l>") + items.join
  end

  # Reads an answer, field by field.
  class Answer
    def initialize(bytes)
      @bytes = bytes
      @at = 0
    end

    def int8 = take(1).unpack1("c")

    def int16 = take(2).unpack1("s>")

    def int32 = take(4).unpack1("l>")

    def int64 = take(8).unpack1("q>")

    def string
      size = int16
      size.negative? ? nil : take(size).force_encoding(Encoding::UTF_8)
    end

    def list = Array.new([int32, 0].max) { yield }

    private

    def take(size)
      @at += size
      @bytes.byteslice(@at - size, size)
    end
  end
  private_constant :Answer
end
