# frozen_string_literal: true

require_relative "errors"
require_relative "logging"
require_relative "state_definition"
require_relative "configuration/option"
require_relative "configuration/options"
require_relative "configuration/spelling"
require_relative "configuration/assignment"
require_relative "configuration/resolution"

module Prosody
  # The options of a client. Each may be given here, in the environment, or left to its default, in this
  # order of precedence; an option that is set to nil counts as given and stands for its default, except
  # where its description says otherwise.
  #
  # Durations are seconds (Numeric) or an `ActiveSupport::Duration`, at least a millisecond unless said
  # otherwise and at most ten years; in the environment each number has its unit, zero too (`500ms`, `30s`,
  # `5m`, `1h 30m`, `7d`; also `w` and `y`). Lists are Arrays or comma-separated Strings. Booleans are
  # `true`, `false`, `1`, `0`, `yes` and `no` in the environment, in any case. Enumerated options take String
  # or Symbol, paths String or Pathname.
  #
  # An environment variable that is empty counts as not set where the option has no default (and is a name, a
  # list or a path), and is malformed elsewhere. A malformed variable is an error even if an option beats it.
  #
  # @example
  #   Prosody::Configuration.new(group_id: "billing") do |config|
  #     config.subscribed_topics = ["orders", "^invoices-.*"]
  #     config.timeout = 30
  #     config.kafka_config = {"security.protocol" => "ssl"}
  #   end
  class Configuration
    class << self
      # Decides every option, and reports everything that is wrong in one error: options, environment
      # variables and what they require of each other.
      #
      # The result holds passwords in clear: do not log it.
      #
      # @param source [Hash, Configuration, nil]
      # @param options [Hash] beat the same ones of `source`
      # @param env [ENV, Hash{String => String}]
      # @return [Hash{Symbol => Object}] frozen, with every option; nil where there is no value. Durations
      #   are Float seconds, sizes Integer, enumerated options String, lists Array of String,
      #   `state_collections` an Array of {StateDefinition}, `kafka_config` a Hash of String to String
      # @raise [ArgumentError] listing everything that is invalid
      # @raise [PermanentStateError] if nothing else is wrong: for a collection that is there twice, or whose
      #   TTL is not above `state_recovery_delay`
      def resolve(source = nil, env: ENV, **options)
        Resolution.new(Assignment.new(source, options), env).call
      end

      # @api private
      def problem_message(problems)
        return "invalid configuration: #{problems.first}" if problems.size == 1

        "invalid configuration, #{problems.size} problems:\n#{problems.map { |problem| "  - #{problem}" }.join("\n")}"
      end
    end

    # @param source [Hash, Configuration, nil] options by Symbol or String
    # @param options [Hash] beat the same ones of `source`
    # @yieldparam configuration [Configuration] to set further options on
    # @raise [ArgumentError] listing every option that is unknown or invalid; in the block, the first
    def initialize(source = nil, **options)
      assignment = Assignment.new(source, options)
      raise ArgumentError, Configuration.problem_message(assignment.problems) unless assignment.problems.empty?

      @values = assignment.values
      yield self if block_given?
    end

    # Decides every option, see {Configuration.resolve}.
    #
    # @param env [ENV, Hash{String => String}]
    # @return [Hash{Symbol => Object}] frozen
    # @raise (see Configuration.resolve)
    def resolve(env: ENV)
      Configuration.resolve(self, env: env)
    end

    # What was set, as it is kept; nil where an option was set to nil. Holds passwords in clear.
    #
    # @return [Hash{Symbol => Object}]
    def to_hash
      @values.dup
    end
    alias_method :to_h, :to_hash

    # @param other [Object]
    # @return [Boolean] whether the other has the same options set to the same values
    def ==(other)
      other.is_a?(Configuration) && other.to_hash == @values
    end
    alias_method :eql?, :==

    # @return [Integer] equal for equal configurations
    def hash
      @values.hash
    end

    # @return [String] what was set, without passwords
    def inspect
      fields = @values.map { |name, value| "#{name}=#{shown(name, value)}" }
      "#<#{[self.class, *fields].join(" ")}>"
    end
    alias_method :to_s, :inspect

    private

    def initialize_copy(other)
      super
      @values = other.to_hash
      self
    end

    def write(option, value)
      @values[option.name] = option.cast(value)
    rescue Invalid => error
      raise ArgumentError, Configuration.problem_message(option.describe(error)), cause: nil
    end

    def shown(name, value)
      return value.inspect if value.nil? || !OPTIONS.fetch(name).secret?
      return "[redacted]" unless value.is_a?(Hash)

      properties = value.map do |property, setting|
        "#{property.inspect}=>#{Types::KafkaProperties.secret?(property) ? "[redacted]" : setting.inspect}"
      end
      "{#{properties.join(", ")}}"
    end
  end
end
