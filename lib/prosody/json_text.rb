# frozen_string_literal: true

require "json"

module Prosody
  # JSON as payloads and state items have it (spec: delivery, "What does not decode"): the same rules in both
  # directions, whichever json gem is loaded.
  #
  # @api private
  module JSONText
    # A value that JSON cannot represent.
    class NotRepresentable < StandardError
    end

    NESTING_MAX = 100

    # Later json gems warn of duplicate names, or refuse them, unless told. Earlier ones ignore the option; one
    # that refuses it does without.
    OPTIONS =
      begin
        options = {max_nesting: NESTING_MAX, allow_duplicate_key: true}.freeze
        ::JSON.parse("{}", **options)
        ::JSON.generate({}, **options)
        options
      rescue ArgumentError
        {max_nesting: NESTING_MAX}.freeze
      end
    private_constant :NESTING_MAX, :OPTIONS

    module_function

    # @param text [String] JSON that is known to be valid
    # @return [Object] fresh objects
    def parse(text)
      ::JSON.parse(text, **OPTIONS)
    end

    # @param value [Object]
    # @return [String] JSON in UTF-8
    # @raise [NotRepresentable] says what and why
    def generate(value)
      ::JSON.generate(plain(value, 0), **OPTIONS)
    rescue ::JSON::JSONError, EncodingError => error
      raise NotRepresentable, error.message
    end

    # What the generator represents faithfully; the value itself where it is that already.
    def plain(value, depth)
      case value
      when String then text(value)
      when Integer, Float, true, false, nil, Symbol then value
      when Hash then plain_hash(value, depth)
      when Array then plain_array(value, depth)
      else
        object(value, depth)
      end
    end
    private_class_method :plain

    # A copy is made from the first pair on that is not fair as it is, which hardly any hash has.
    def plain_hash(hash, depth)
      check_depth(depth)
      copy = nil #: Hash[untyped, untyped]?
      index = 0
      hash.each do |key, item|
        fair_key = key.is_a?(String) ? text(key) : key
        fair = plain(item, depth + 1)
        copy ||= hash.first(index).to_h unless fair.equal?(item) && fair_key.equal?(key)
        copy[fair_key] = fair if copy
        index += 1
      end
      copy || hash
    end
    private_class_method :plain_hash

    def plain_array(array, depth)
      check_depth(depth)
      copy = nil #: Array[untyped]?
      index = 0
      array.each do |item|
        fair = plain(item, depth + 1)
        copy ||= array.first(index) unless fair.equal?(item)
        copy << fair if copy
        index += 1
      end
      copy || array
    end
    private_class_method :plain_array

    def text(string)
      encoding = string.encoding
      return string if encoding == Encoding::UTF_8 || encoding == Encoding::US_ASCII
      return string.encode(Encoding::UTF_8) unless encoding == Encoding::BINARY

      utf8 = string.dup.force_encoding(Encoding::UTF_8)
      raise NotRepresentable, "String of #{string.bytesize} bytes is not UTF-8" unless utf8.valid_encoding?

      utf8
    end
    private_class_method :text

    # What a value's own `to_json` writes is read again, so that no text of others gets in unchecked.
    def object(value, depth)
      return plain(parse(value.to_json), depth) unless generic?(value)

      hash = value.to_h if value.respond_to?(:to_h)
      raise NotRepresentable, no_form(value) unless hash.is_a?(Hash)

      plain(hash, depth)
    rescue NotRepresentable
      raise
    rescue StandardError, ScriptError => error
      raise NotRepresentable, "#{no_form(value)} (#{error.class}: #{error.message})"
    end
    private_class_method :object

    # Every object has a `to_json`; the one that all share is only its `to_s` in quotes.
    def generic?(value)
      ::Kernel.instance_method(:method).bind_call(value, :to_json).owner == ::Object.instance_method(:to_json).owner
    end
    private_class_method :generic?

    def no_form(value)
      "#{::Kernel.instance_method(:class).bind_call(value)} has no JSON form: neither `to_h` nor a `to_json` of its own"
    end
    private_class_method :no_form

    def check_depth(depth)
      raise NotRepresentable, "nested deeper than #{NESTING_MAX} levels, or in itself" if depth >= NESTING_MAX
    end
    private_class_method :check_depth
  end
  private_constant :JSONText
end
