# frozen_string_literal: true

require "stringio"
require_relative "../unit_helper"

RSpec.describe Prosody do
  before { described_class.logger = nil }
  after { described_class.logger = nil }

  describe ".logger" do
    it "logs to $stdout at INFO by default" do
      expect(described_class.logger).to be_a(Logger)
      expect(described_class.logger.level).to eq(Logger::INFO)

      described_class.logger = nil
      expect { described_class.logger.info("hello") && described_class.logger.debug("quiet") }
        .to output(/\A[^\n]*prosody: hello\n\z/).to_stdout
    end

    it "is one object, for all threads" do
      loggers = Array.new(8) { Thread.new { described_class.logger } }.map(&:value)

      expect(loggers.uniq(&:object_id).size).to eq(1)
    end
  end

  describe ".logger=" do
    it "takes effect at once, and nil restores the default" do
      mine = Logger.new(StringIO.new)
      described_class.logger = mine
      expect(described_class.logger).to be(mine)

      described_class.logger = nil
      expect(described_class.logger).not_to be(mine)
      expect(described_class.logger).to be_a(Logger)
    end

    it "refuses what is no logger, and keeps the one it has" do
      before = described_class.logger

      expect { described_class.logger = $stdout }.to raise_error(ArgumentError, /IO.*does not respond to debug, info, warn, error/)
      expect(described_class.logger).to be(before)
    end
  end
end
