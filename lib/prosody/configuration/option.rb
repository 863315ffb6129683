# frozen_string_literal: true

require_relative "invalid"

module Prosody
  class Configuration
    # One line of the table of options.
    class Option
      # @return [Symbol]
      attr_reader :name
      # @return [String, nil] the environment variable
      attr_reader :variable
      # @return [Object] the default, or a Proc that takes the other options' values
      attr_reader :default

      # @param name [Symbol]
      # @param type [#cast, #parse]
      # @param default [Object, Proc]
      # @param variable [String, nil] nil: none
      # @param off [Boolean] whether nil (in the environment: `none`) switches something off, instead of
      #   standing for the default
      # @param blank [Symbol] whether an empty variable is :unset or :malformed. It is unset where the option
      #   has no default: a deployment that fills in nothing means nothing there
      # @param secret [Boolean] whether the value must not be shown
      def initialize(name, type, default: nil, variable: "PROSODY_#{name.upcase}", off: false, blank: :malformed, secret: false)
        @name = name
        @type = type
        @default = default
        @variable = variable
        @off = off
        @blank = blank
        @secret = secret
        freeze
      end

      # @return [Boolean]
      def off?
        @off
      end

      # @return [Boolean]
      def secret?
        @secret
      end

      # @return [Object, nil] the value as it is kept
      # @raise [Invalid]
      def cast(value)
        value.nil? ? nil : @type.cast(value)
      end

      # @return [Boolean] whether a variable of this text counts as not set
      def unset?(text)
        @blank == :unset && text.strip.empty?
      end

      # @param text [String] of the environment variable
      # @return [Object, nil] nil for "off"
      # @raise [Invalid]
      def parse(text)
        (@off && text.strip == "none") ? nil : @type.parse(text)
      end

      # @param error [Invalid]
      # @param label [String] option or environment variable
      # @return [Array<String>] what is wrong, what was expected
      def describe(error, label = name.to_s)
        error.findings.map { |finding| finding.describe(label, secret: @secret) }
      end
    end
    private_constant :Option
  end
end
