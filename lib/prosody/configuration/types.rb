# frozen_string_literal: true

require "pathname"
require_relative "../conversion"
require_relative "invalid"

module Prosody
  class Configuration
    # How options are read. Each type has `cast` for a value of Ruby (a value that was cast before comes
    # back unchanged) and `parse` for the text of an environment variable; both raise {Invalid}.
    module Types
      # Text that Rust and Kafka can take: not empty, UTF-8, without NUL.
      class Text
        def initialize(expected = "a non-empty String", pattern: //, symbols: false)
          @expected = expected
          @pattern = pattern
          @symbols = symbols
        end

        def cast(value)
          text = Conversion.utf8((@symbols && value.is_a?(Symbol)) ? value.name : value)
          return text if text && !text.empty? && !text.include?("\0") && @pattern.match?(text)

          raise Invalid.expected(@expected, value)
        end

        def parse(text)
          cast(text)
        end
      end

      # A version label: text, or a number for convenience.
      class Version < Text
        def cast(value)
          super(value.is_a?(Integer) ? value.to_s : value)
        end
      end

      # A file or directory.
      class FilePath < Text
        def initialize
          super("a non-empty String or a Pathname")
        end

        def cast(value)
          super(value.is_a?(Pathname) ? value.to_s : value)
        end
      end

      # true or false.
      class Flag
        WORDS = {"true" => true, "1" => true, "yes" => true, "false" => false, "0" => false, "no" => false}.freeze

        def cast(value)
          raise Invalid.expected("true or false", value) unless value == true || value == false

          value
        end

        def parse(text)
          WORDS.fetch(text.strip.downcase) { raise Invalid.expected("one of #{WORDS.keys.join(", ")}", text) }
        end
      end

      # A whole number within limits.
      class Count
        MAX = 2_147_483_647

        def initialize(min, max: MAX, why: nil)
          @range = min..max
          @expected = "an Integer from #{min} to #{max}#{why && " (#{why})"}"
        end

        def cast(value)
          raise Invalid.expected(@expected, value) unless value.is_a?(Integer) && @range.cover?(value)

          value
        end

        def parse(text)
          raise Invalid.expected(@expected, text) unless text.match?(/\A\s*[+-]?\d+\s*\z/)

          number = Integer(text, 10)
          raise Invalid.expected(@expected, text) unless @range.cover?(number)

          number
        end
      end

      # A real number within limits, as Float.
      class Ratio
        PATTERN = /\A\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?\s*\z/i
        private_constant :PATTERN

        def initialize(min, max)
          @range = min..max
          @expected = "a number from #{min} to #{max}"
        end

        def cast(value)
          number = Conversion.real(value)
          raise Invalid.expected(@expected, value) unless number && @range.cover?(number)

          number.to_f
        end

        def parse(text)
          number = text.match?(PATTERN) ? text.to_f : nil
          raise Invalid.expected(@expected, text) unless number && @range.cover?(number)

          number
        end
      end

      # One of a few words.
      class Enumeration
        def initialize(*words)
          @words = words.freeze
          @expected = "one of #{words.join(", ")}"
        end

        def cast(value)
          text = value.is_a?(Symbol) ? value.name : value
          @words.find { |word| word == text } || raise(Invalid.expected(@expected, value))
        end

        def parse(text)
          word = text.strip.downcase
          @words.find { |candidate| candidate == word } || raise(Invalid.expected(@expected, text))
        end
      end

      # Several of another type, given as Array or as comma-separated String.
      class List
        def initialize(element, empty: true)
          @element = element
          @empty = empty
        end

        def cast(value)
          case value
          when Array then read(value, value)
          when String then split(value)
          else raise Invalid.expected("a String or an Array of Strings", value)
          end
        end

        def parse(text)
          # An empty text, and a comma too many, is an empty entry.
          read(text.empty? ? [text] : text.split(",", -1).map(&:strip), text)
        end

        private

        def split(text)
          # A comma may belong to a regular expression: where it would have to be guessed, ask.
          if text.start_with?("^") && text.include?(",")
            raise Invalid.expected("an Array, since a String is split at commas and a regular expression may contain them", text)
          end

          parse(text)
        end

        def read(elements, whole)
          raise Invalid.expected("at least one entry, or nil for the default", whole) if elements.empty? && !@empty

          findings = []
          list = elements.filter_map do |element|
            @element.cast(element)
          rescue Invalid => error
            findings.concat(error.findings)
            nil
          end
          raise Invalid.new(findings) unless findings.empty?

          list.uniq.freeze
        end
      end

      # A topic's name, or a regular expression for names, with a leading `^`.
      class TopicPattern < Text
        NAME = /\A(?!\.{1,2}\z)[a-zA-Z0-9._-]{1,249}\z/
        NAME_OR_PATTERN = Regexp.union(/\A\^/, NAME)
        private_constant :NAME_OR_PATTERN

        def initialize
          super("a topic name of letters, digits, `.`, `_` and `-`, at most 249 characters, or a regular expression with a leading `^`",
            pattern: NAME_OR_PATTERN)
        end

        def cast(value)
          super.tap { |text| compile(text) if text.start_with?("^") }
        end

        private

        # Brokers' topics are matched by POSIX extended expressions, which take these for something else.
        NOT_POSIX = /\\[a-zA-Z]|\(\?|[*+?}][?+]/
        private_constant :NOT_POSIX

        def compile(text)
          if (found = text[NOT_POSIX])
            raise Invalid.expected("a POSIX extended regular expression, which does not know `#{found}` (write [0-9] for \\d, [[:alnum:]_] for \\w)", text)
          end

          Regexp.new(text)
        rescue RegexpError => error
          raise Invalid.expected("a regular expression that compiles (#{error.message})", text)
        end
      end

      # `host` or `host:port`, an IPv6 address in brackets.
      class Endpoint < Text
        PATTERN = %r{\A(?:[a-zA-Z][a-zA-Z0-9_+]*://)?(?:\[[0-9a-zA-Z.%]*:[0-9a-zA-Z:.%]*\]|[a-zA-Z0-9_](?:[a-zA-Z0-9._-]*))(?::(?<port>\d{1,5}))?\z}
        private_constant :PATTERN

        def initialize
          super("host or host:port (port 1 to 65535; an IPv6 address in brackets, as in [::1]:9092)")
        end

        def cast(value)
          text = super
          # Shown nowhere: what stands before an @ may be a password.
          raise Invalid.because("an entry contains `@`; expected host:port, credentials have options of their own") if text.include?("@")

          match = PATTERN.match(text)
          raise Invalid.expected(@expected, value) unless match

          port = match[:port]
          raise Invalid.expected(@expected, value) unless port.nil? || port.to_i.between?(1, 65_535)

          text
        end
      end

      # The probe server's port; nil is "no server".
      class Port < Count
        def initialize
          super(0, max: 65_535)
          @expected = "a port from 0 (any free one) to 65535, or nil, false or :disabled for none"
        end

        def cast(value)
          return nil if value == false || value == :disabled || value == "disabled"

          super
        end
      end
    end
    private_constant :Types
  end
end
