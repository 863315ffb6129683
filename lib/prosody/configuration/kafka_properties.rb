# frozen_string_literal: true

require_relative "types"

module Prosody
  class Configuration
    module Types
      # Properties of librdkafka: a frozen Hash of String to String. The environment gives each property by
      # its own variable, see {Environment}.
      class KafkaProperties
        # What prosody manages itself, and what to do instead. Two are other names of the same property.
        MANAGED = {
          "bootstrap.servers" => "use the option bootstrap_servers",
          "metadata.broker.list" => "it is another name of bootstrap.servers: use the option bootstrap_servers",
          "group.id" => "use the option group_id",
          "enable.auto.commit" => "offsets are committed once they are handled, every commit_interval",
          "enable.auto.offset.store" => "offsets are stored once they are handled",
          "enable.idempotence" => "the producer is always idempotent",
          "acks" => "every send waits for all in-sync replicas",
          "request.required.acks" => "it is another name of acks: every send waits for all in-sync replicas",
          "partition.assignment.strategy" => "the group's protocol depends on it"
        }.freeze

        NAME = /\A[a-zA-Z0-9._-]+\z/
        SECRET = /password|secret|jaas|token|credential|\.pem\z|oauthbearer\.config/i
        private_constant :NAME, :SECRET

        # @return [Boolean] whether the property's value must not be shown
        def self.secret?(property)
          SECRET.match?(property)
        end

        # @return [String, nil] why the property is refused
        def self.refusal(property)
          reason = MANAGED[property.downcase]
          reason && "#{property} is managed by prosody and cannot be set; #{reason}"
        end

        def cast(value)
          unless value.is_a?(Hash)
            raise Invalid.because("got #{value.class}, expected a Hash of librdkafka properties, " \
              "as in {\"security.protocol\" => \"ssl\"}")
          end

          statements = []
          properties = value.to_h { |name, setting| [read_name(name, statements), read_setting(name, setting, statements)] }
          raise Invalid.because(*statements) unless statements.empty?

          properties.freeze
        end

        private

        def read_name(name, statements)
          text = Conversion.utf8(name.is_a?(Symbol) ? name.name : name)
          if text.nil? || !NAME.match?(text)
            statements << "got the name #{name.inspect}, expected that of a librdkafka property, as in \"security.protocol\""
          elsif (refusal = self.class.refusal(text))
            statements << refusal
          end
          text.to_s
        end

        # Values are shown nowhere: any of them may be a secret.
        def read_setting(name, setting, statements)
          text = Conversion.utf8(plain(setting))
          if text.nil? || text.include?("\0")
            statements << "#{name}: got #{setting.class}, expected a String without NUL, a Symbol, a number, true or false"
          end
          text.to_s
        end

        def plain(setting)
          case setting
          when true, false, Integer then setting.to_s
          when Float then setting.finite? ? setting.to_s : nil
          when Symbol then setting.name
          else setting
          end
        end
      end

      # Collections of keyed state: an Array of {StateDefinition}s, from any of their forms.
      class Collections
        def cast(value)
          problems = []
          definitions = (value.is_a?(Array) ? value : [value]).filter_map do |source|
            StateDefinition.from(source)
          rescue ArgumentError => error
            problems << error.message
            nil
          end
          raise Invalid.because(*problems) unless problems.empty?

          definitions.freeze
        end
      end
    end
  end
end
