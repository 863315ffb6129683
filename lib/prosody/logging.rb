# frozen_string_literal: true

require "logger"

module Prosody
  LOGGER_METHODS = %i[debug info warn error].freeze

  # Whatever `$stdout` is when a line is written.
  module StandardOutput
    class << self
      def write(text)
        $stdout.write(text)
      end

      # A logger that is closed leaves it open.
      def close
      end
    end
  end

  private_constant :LOGGER_METHODS, :StandardOutput

  class << self
    # The logger that Ruby and Rust write to. By default a `Logger` to `$stdout` at level INFO.
    # May be called from any thread.
    #
    # @return [Logger]
    attr_reader :logger

    # Sets the logger; takes effect at once, for running clients too. May be called from any thread.
    #
    # @param logger [Logger, nil] anything with `debug`, `info`, `warn` and `error`; nil restores the default
    # @raise [ArgumentError] if the object is no logger
    #
    # @example
    #   Prosody.logger = Rails.logger
    def logger=(logger)
      missing = logger.nil? ? [] : LOGGER_METHODS.reject { |method| logger.respond_to?(method) }
      unless missing.empty?
        ::Kernel.raise ::ArgumentError, "Prosody.logger: got #{logger.class}, which does not respond to " \
          "#{missing.join(", ")}; expected a Logger, or nil for the default"
      end

      @logger = logger || default_logger
    end

    private

    def default_logger
      ::Logger.new(StandardOutput, level: ::Logger::INFO, progname: "prosody")
    end
  end

  # Made before anybody asks: signal handlers do, too, which may not lock.
  self.logger = nil
end
