# frozen_string_literal: true

require "logger"

module Prosody
  LOGGER_METHODS = %i[debug info warn error].freeze
  private_constant :LOGGER_METHODS

  class << self
    # The logger that Ruby and Rust write to. By default a `Logger` to `$stdout` at level INFO.
    # May be called from any thread.
    #
    # @return [Logger]
    def logger
      # No Mutex: signal handlers ask, too. Two threads may make the default at once, which does no harm.
      @logger || @default_logger || (@default_logger = ::Logger.new($stdout, level: ::Logger::INFO, progname: "prosody"))
    end

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

      @default_logger = nil
      @logger = logger
    end
  end
end
