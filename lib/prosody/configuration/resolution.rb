# frozen_string_literal: true

require_relative "assignment"
require_relative "environment"
require_relative "rules"

module Prosody
  class Configuration
    # Decides every option: explicit option, then environment variable, then default.
    class Resolution
      # @param assignment [Assignment]
      # @param env [ENV, Hash{String => String}]
      def initialize(assignment, env)
        @assignment = assignment
        @environment = Environment.new(env, OPTIONS.each_value.reject { |option| ignored?(option, env) })
        @values = {}
      end

      # @return [Hash{Symbol => Object}] frozen
      # @raise [ArgumentError] listing everything that is invalid
      # @raise [PermanentStateError] listing what is wrong with the collections, if nothing else is
      def call
        decide
        rules = Rules.new(@values, @assignment.invalid | @environment.invalid, origins)
        problems = @assignment.problems + @environment.problems + rules.problems
        raise ArgumentError, Configuration.problem_message(problems) unless problems.empty?

        collection_problems = rules.collection_problems
        raise PermanentStateError, Configuration.problem_message(collection_problems) unless collection_problems.empty?

        @environment.warnings.each { |warning| Prosody.logger.warn(warning) }
        @values.slice(*OPTIONS.keys).freeze
      end

      private

      # Mock mode contacts nothing, so what the environment says about storage does not matter there.
      def ignored?(option, env)
        mock?(env) && (option.name == :store || option.name.start_with?("cassandra_"))
      end

      def mock?(env)
        return @mock if defined?(@mock)

        given = @assignment.values.fetch(:mock) { Environment.new(env.slice("PROSODY_MOCK"), [OPTIONS.fetch(:mock)]).values[:mock] }
        @mock = given || false
      end

      def decide
        given, defaulted = OPTIONS.each_value.partition { |option| given?(option) }
        given.each { |option| @values[option.name] = origins.fetch(option.name).values[option.name] }
        computed, fixed = defaulted.partition { |option| option.default.is_a?(Proc) }
        fixed.each { |option| @values[option.name] = option.default }
        computed.each { |option| @values[option.name] = option.default.call(@values) }
        @values[:kafka_config] = kafka_config
      end

      def given?(option)
        origin = origins[option.name]
        origin && (option.off? || !origin.values[option.name].nil?)
      end

      # Where an option's value comes from; nothing for a default, and for what is invalid.
      def origins
        @origins ||= OPTIONS.each_key.with_object({}) do |name, origins|
          next if @assignment.invalid.include?(name)

          source = [@assignment, @environment].find { |candidate| candidate.values.key?(name) }
          origins[name] = source if source
        end
      end

      # Each property is on its own in the order of precedence; nil for the option clears them all.
      def kafka_config
        explicit = @assignment.values.fetch(:kafka_config, {})
        explicit ? @environment.kafka_properties.merge(explicit).freeze : {}.freeze
      end
    end
    private_constant :Resolution
  end
end
