# frozen_string_literal: true

module Prosody
  class Configuration
    # Raised by types; becomes part of an ArgumentError that names option or environment variable.
    class Invalid < StandardError
      # One thing that is wrong: what was expected, and what stood there instead. A finding that says all
      # by itself shows no value.
      class Finding
        def initialize(statement, value, shows_value)
          @statement = statement
          @value = value
          @shows_value = shows_value
        end

        def describe(label, secret: false)
          return "#{label}: #{@statement}" unless @shows_value

          "#{label}: got #{shown(secret)}, expected #{@statement}"
        end

        private

        def shown(secret)
          return "[redacted] (#{@value.class})" if secret

          text = @value.inspect
          (text.length > VALUE_LENGTH_MAX) ? "#{text[0, VALUE_LENGTH_MAX]}..." : text
        end
      end

      VALUE_LENGTH_MAX = 120
      private_constant :VALUE_LENGTH_MAX

      # @return [Array<Finding>]
      attr_reader :findings

      # @param findings [Array<Finding>]
      def initialize(findings)
        @findings = findings
        super("invalid value")
      end

      class << self
        # @return [Invalid] for a value that is not what was expected
        def expected(statement, value)
          new([Finding.new(statement, value, true)])
        end

        # @return [Invalid] whose statements need no value beside them
        def because(*statements)
          new(statements.map { |statement| Finding.new(statement, nil, false) })
        end
      end
    end
    private_constant :Invalid
  end
end
