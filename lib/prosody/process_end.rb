# frozen_string_literal: true

module Prosody
  # The end of the process, when a handler asks for it.
  #
  # @api private
  module ProcessEnd
    @mutex = Mutex.new

    class << self
      # Ends the process as a handler asked for, from its main thread. Of several requests the first counts: another
      # would interrupt the end that it has brought about.
      #
      # @param error [SystemExit, SignalException]
      # @return [void]
      def request(error)
        @mutex.synchronize do
          return if @requested || begun?

          @requested = true
        end
        Thread.main.raise(error)
      end

      # Says that the process goes on, although a handler may have asked for its end: the main thread has rescued that.
      #
      # @return [void]
      def withdraw
        @requested = false
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

      # Says that nothing is waited for any more: Ruby is about to kill all threads.
      #
      # @return [void]
      def finish
        @is_over = true
      end

      # @return [Boolean]
      def over?
        @is_over || false
      end
    end
  end
  private_constant :ProcessEnd
end
