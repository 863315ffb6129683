# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe "the signatures" do
  root = File.expand_path("../..", __dir__)
  options = Prosody::Configuration.const_get(:OPTIONS).keys

  # The files that unit_helper loads; the others have their own specs.
  loaded = $LOADED_FEATURES.grep(%r{\A#{Regexp.escape(root)}/lib/prosody/}).map { |file| file.delete_prefix("#{root}/lib/") }

  loaded.each do |file|
    next unless file.end_with?(".rb")

    it "has a file for lib/#{file}" do
      expect(File.join(root, "sig", file.sub(/\.rb\z/, ".rbs"))).to satisfy { |path| File.file?(path) }
    end
  end

  %w[client configuration].each do |name|
    it "names every option as a keyword of #{name}, and no other" do
      signature = File.read(File.join(root, "sig/prosody/#{name}.rbs"))
      keywords = signature[/def initialize: \((.*?)^    \)/m, 1].scan(/^\s+\?(\w+):/).flatten

      expect(keywords.map(&:to_sym)).to match_array(options)
    end
  end

  it "has reader and writer of every option" do
    signature = File.read(File.join(root, "sig/prosody/configuration/options.rbs"))

    expect(signature.scan(/def (\w+): \(\)/).flatten.map(&:to_sym)).to match_array(options)
    expect(signature.scan(/def (\w+)=: /).flatten.map(&:to_sym)).to match_array(options)
  end
end
