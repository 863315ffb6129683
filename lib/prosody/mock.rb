# frozen_string_literal: true

module Prosody
  # Empties every in-process log of mock mode, for tests: topics, messages and offsets are gone, running clients
  # go on with nothing.
  #
  # @return [nil]
  # @example
  #   after { Prosody.reset_mock }
  def self.reset_mock
    Native.reset_mock
  end
end
