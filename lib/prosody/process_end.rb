# frozen_string_literal: true

module Prosody
  # The end of the process, when a handler asks for it.
  #
  # @api private
  module ProcessEnd
    class << self
      # Ends the process as a handler asked for, from its main thread. Once the end has begun, nothing more is needed.
      #
      # @param error [SystemExit, SignalException]
      # @return [void]
      def request(error)
        Thread.main.raise(error) unless begun?
      end

      # Says that the process is ending.
      #
      # @return [void]
      def begin
        @process_id = Process.pid
      end

      # @return [Boolean]
      def begun?
        @process_id == Process.pid
      end
    end
  end
  private_constant :ProcessEnd
end
