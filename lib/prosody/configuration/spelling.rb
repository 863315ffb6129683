# frozen_string_literal: true

module Prosody
  class Configuration
    # Finds what was probably meant.
    module Spelling
      module_function

      # @param word [String]
      # @param words [Array<String>]
      # @return [String, nil] nil if none is near
      def nearest(word, words)
        # Ruby may run with --disable-did_you_mean.
        return by_distance(word, words) unless defined?(::DidYouMean::SpellChecker)

        checker = ::Object.const_get("DidYouMean::SpellChecker").new(dictionary: words)
        checker.correct(word).first || by_distance(word, words)
      end

      # @api private
      def by_distance(word, words)
        best = words.min_by { |candidate| distance(word.downcase, candidate) }
        best if best && distance(word.downcase, best) <= [word.length / 3, 1].max
      end

      # Levenshtein's: how many letters must be put in, taken out or replaced.
      #
      # @api private
      def distance(from, to)
        previous = (0..to.length).to_a
        from.each_char.with_index(1) do |letter, row|
          current = [row]
          to.each_char.with_index(1) do |other, column|
            change = previous.fetch(column - 1) + ((letter == other) ? 0 : 1)
            current << [change, previous.fetch(column) + 1, current.fetch(column - 1) + 1].min
          end
          previous = current
        end
        previous.last
      end
    end
    private_constant :Spelling
  end
end
