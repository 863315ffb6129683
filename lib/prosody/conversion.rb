# frozen_string_literal: true

module Prosody
  # Readings of Ruby values that configuration and state definitions share.
  module Conversion
    # A year as ActiveSupport counts it, so that `10.years` is within the limit of ten years.
    YEAR_SECONDS = 31_556_952
    DURATION_SECONDS_MAX = 10 * YEAR_SECONDS

    ASCII_ENCODINGS = [Encoding::BINARY, Encoding::US_ASCII].freeze
    private_constant :ASCII_ENCODINGS

    module_function

    # @param value [Object]
    # @return [Boolean]
    def number?(value)
      # ActiveSupport::Duration is no Numeric but answers is_a?(Numeric) for the number inside.
      value.is_a?(Numeric)
    end

    # @param value [Object]
    # @return [Rational, nil] exact; nil if the value is no finite, real number
    def real(value)
      value.to_r if number?(value) && value.real? && value.to_f.finite?
    end

    # @param value [Object]
    # @return [String, nil] frozen and in UTF-8; nil if the value is no String or not valid
    def utf8(value)
      return unless value.is_a?(String)

      # Environment and file contents come as ASCII or binary under LANG=C, whatever their bytes are.
      text = ASCII_ENCODINGS.include?(value.encoding) ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8)
      -String.new(text) if text.valid_encoding?
    rescue EncodingError
      nil
    end
  end
  private_constant :Conversion
end
