# frozen_string_literal: true

require_relative "option"
require_relative "kafka_properties"

module Prosody
  class Configuration
    # What the environment sets: the values that are valid, and everything that is malformed. A variable is
    # read even where an option beats it, so that a malformed one does not wait for the day when the option
    # goes.
    class Environment
      KAFKA_PREFIX = "PROSODY_KAFKA_"
      # Variables that one may expect to exist. Nothing is read from them.
      ABSENT = {
        "PROSODY_KAFKA_CONFIG" => "set each property by a variable of its own, as in PROSODY_KAFKA_SECURITY_PROTOCOL",
        "PROSODY_STATE_COLLECTIONS" => "collections are code: give the option state_collections"
      }.freeze
      private_constant :KAFKA_PREFIX, :ABSENT

      # @return [Hash{Symbol => Object}]
      attr_reader :values
      # @return [Hash{String => String}] properties from `PROSODY_KAFKA_*`
      attr_reader :kafka_properties
      # @return [Array<String>]
      attr_reader :problems
      # @return [Array<Symbol>] options whose variable is malformed
      attr_reader :invalid

      # @param env [ENV, Hash{String => String}]
      # @param options [Enumerable<Option>] those whose variables are read
      def initialize(env, options)
        @env = env
        @values = {}
        @problems = []
        @invalid = []
        options.each do |option|
          variable = option.variable
          read(option, variable) if variable
        end
        @kafka_properties = read_kafka_properties
      end

      # @return [Array<String>] of variables that are set in vain
      def warnings
        ABSENT.select { |variable, _| @env.key?(variable) }.map { |variable, remedy| "#{variable} is not read: #{remedy}" }
      end

      private

      def read(option, variable)
        raw = @env[variable]
        return if raw.nil?

        text = Conversion.utf8(raw)
        raise Invalid.because("its text is not valid UTF-8") unless text
        return if option.unset?(text)
        raise Invalid.because("it is set but empty; give a value or unset it") if text.strip.empty?

        @values[option.name] = option.parse(text)
      rescue Invalid => error
        @problems.concat(option.describe(error, variable))
        @invalid << option.name
      end

      def read_kafka_properties
        variables = @env.keys.select { |variable| variable.start_with?(KAFKA_PREFIX) && !ABSENT.key?(variable) }
        variables.sort.each_with_object({}) do |variable, properties|
          property = variable.delete_prefix(KAFKA_PREFIX).downcase.tr("_", ".")
          text = @env[variable]
          next if text.nil? || text.empty?

          properties.update(KAFKA_TYPE.cast({property => text}))
        rescue Invalid => error
          @problems.concat(error.findings.map { |finding| finding.describe(variable) })
        end
      end
    end
    private_constant :Environment
  end
end
