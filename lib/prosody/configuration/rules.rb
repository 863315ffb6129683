# frozen_string_literal: true

require_relative "types"

module Prosody
  class Configuration
    # What options require of each other. A rule is silent about an option whose own value is invalid: that
    # one is reported already, and what stands in for it proves nothing.
    class Rules
      # @param values [Hash{Symbol => Object}] every option
      # @param invalid [Array<Symbol>]
      # @param origins [Hash{Symbol => Assignment, Environment}] where a value comes from
      def initialize(values, invalid, origins)
        @values = values
        @invalid = invalid
        @origins = origins
      end

      # @return [Array<String>]
      def problems
        bootstrap_servers + failure_topic + store
      end

      # @return [Array<String>] what is a PermanentStateError
      def collection_problems
        duplicate_names + short_ttls
      end

      private

      def bootstrap_servers
        # In mock mode they are the name of a log, so anything goes.
        return [] if unknown?(:mock, :bootstrap_servers) || @values[:mock]

        servers = @values[:bootstrap_servers]
        return ["#{missing(:bootstrap_servers)} unless mock is true"] if servers.nil? || servers.empty?

        servers.flat_map do |server|
          ENDPOINT.cast(server)
          []
        rescue Invalid => error
          error.findings.map { |finding| finding.describe(label(:bootstrap_servers)) }
        end
      end

      def failure_topic
        return [] if unknown?(:mode, :failure_topic) || @values[:mode] != "low_latency" || @values[:failure_topic]

        ["#{missing(:failure_topic)} when mode is low_latency: failed messages go there"]
      end

      def store
        return [] if unknown?(:mock, :store)

        case @values[:store]
        when "memory" then []
        when "local" then @values[:mock] ? not_mocked : required_by_store(:store_dir)
        when "cassandra" then @values[:mock] ? not_mocked : required_by_store(:cassandra_nodes)
        else []
        end
      end

      def not_mocked
        ["store: got #{@values[:store].inspect}, expected \"memory\", or nothing, when mock is true: mock mode keeps its ledgers in memory"]
      end

      def required_by_store(name)
        value = @values[name]
        return [] if unknown?(name) || !(value.nil? || value.empty?)

        ["#{missing(name)} when store is #{@values[:store]}"]
      end

      def duplicate_names
        names = @values[:state_collections].map(&:name)
        names.tally.select { |_, count| count > 1 }.map do |name, count|
          "state_collections: the name #{name.inspect} is there #{count} times, expected once; rename all but one"
        end
      end

      def short_ttls
        delay = @values[:state_recovery_delay].to_i
        @values[:state_collections].select { |definition| definition.ttl_seconds && definition.ttl_seconds <= delay }.map do |definition|
          "state_collections: ttl of #{definition.name.inspect}: got #{definition.ttl_seconds} s, expected more than " \
            "state_recovery_delay (#{delay} s), so that no state expires while the outcome of its event is unknown; " \
            "raise the ttl or lower #{label(:state_recovery_delay)}"
        end
      end

      def unknown?(*names)
        names.any? { |name| @invalid.include?(name) && !@origins.key?(name) }
      end

      def missing(name)
        "#{name}: missing; set the option or #{OPTIONS.fetch(name).variable}, required"
      end

      def label(name)
        (@origins[name].is_a?(Environment) ? OPTIONS.fetch(name).variable : name).to_s
      end
    end
    private_constant :Rules
  end
end
