# frozen_string_literal: true

require_relative "option"

module Prosody
  class Configuration
    # What a Hash of options assigns: the values that are valid, and everything that is wrong.
    class Assignment
      # @return [Hash{Symbol => Object}] nil where an option was set to nil
      attr_reader :values
      # @return [Array<String>]
      attr_reader :problems
      # @return [Array<Symbol>] options that were given an invalid value
      attr_reader :invalid

      # @param sources [Array<Hash, Configuration, nil>] a later one wins
      def initialize(*sources)
        @values = {}
        @problems = []
        @invalid = []
        merged(sources).each { |name, value| assign(name, value) }
      end

      private

      # Merged before anything is read: a value that is overridden does no harm.
      def merged(sources)
        sources.compact.each_with_object({}) do |source, options|
          unless source.respond_to?(:to_hash)
            @problems << "got a #{source.class}, expected a Hash of options or a Prosody::Configuration"
            next
          end
          source.to_hash.each { |name, value| options[name.is_a?(String) ? name.to_sym : name] = value }
        end
      end

      def assign(name, value)
        option = OPTIONS[name]
        option ? read(option, value) : @problems << unknown(name)
      end

      def read(option, value)
        @values[option.name] = option.cast(value)
      rescue Invalid => error
        @problems.concat(option.describe(error))
        @invalid << option.name
      end

      def unknown(name)
        return "got the option name #{name.inspect}, expected a Symbol or a String" unless name.is_a?(Symbol)

        nearest = Spelling.nearest(name.name, OPTIONS.keys.map(&:name))
        "#{name}: no such option; #{nearest ? "did you mean #{nearest}?" : "Prosody::Configuration names them all"}"
      end
    end
    private_constant :Assignment
  end
end
