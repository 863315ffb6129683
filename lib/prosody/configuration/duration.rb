# frozen_string_literal: true

require_relative "../conversion"
require_relative "invalid"

module Prosody
  class Configuration
    module Types
      # A length of time, as Float seconds. Ten years at most, so that sums of durations fit any clock.
      #
      # In the environment each number needs its unit, zero too: `30` may be meant as milliseconds by one
      # reader and as seconds by the next. Several are added up: `1h 30m`.
      class Duration
        # What is shorter cannot be kept by timers and would make a busy loop of a period.
        SHORTEST = Rational(1, 1000)

        UNIT_SECONDS = {
          "ms" => Rational(1, 1000), "s" => 1, "m" => 60, "h" => 3_600, "d" => 86_400,
          "w" => 604_800, "y" => Conversion::YEAR_SECONDS
        }.freeze
        PART = /(?<number>\d+(?:\.\d+)?|\.\d+)\s*(?<unit>ms|[smhdwy])/
        TEXT = /\A\s*(?:#{PART}\s*)+\z/
        private_constant :UNIT_SECONDS, :PART, :TEXT

        # @param min [Numeric] seconds
        # @param whole [Boolean] whether only whole seconds are allowed
        def initialize(min: SHORTEST, whole: false)
          @min = min
          @whole = whole
          least = (min == SHORTEST) ? "1 ms" : "#{min} s"
          @limits = "#{"whole seconds, " if whole}at least #{least}, at most 10 years"
        end

        def cast(value)
          seconds = Conversion.real(value)
          return seconds.to_f if seconds && allowed?(seconds)

          raise Invalid.expected("seconds (Numeric or ActiveSupport::Duration), #{@limits}", value)
        end

        def parse(text)
          seconds = text.match?(TEXT) ? sum(text) : nil
          return seconds.to_f if seconds && allowed?(seconds)

          raise Invalid.expected("a number with its unit (ms, s, m, h, d, w, y) such as 500ms, 30s or 1h 30m, #{@limits}", text)
        end

        private

        def allowed?(seconds)
          seconds.between?(@min, Conversion::DURATION_SECONDS_MAX) && (!@whole || seconds.denominator == 1)
        end

        def sum(text)
          parts = text.scan(PART) #: Array[[String, String]]
          # A unit that comes twice is a slip of the pen.
          return if parts.map(&:last).uniq.size < parts.size

          parts.sum(Rational(0)) { |number, unit| Rational("0#{number}") * UNIT_SECONDS.fetch(unit) }
        end
      end
    end
  end
end
