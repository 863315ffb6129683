# frozen_string_literal: true

require_relative "../spec_helper"

RSpec.describe "the examples", :mock do
  root = File.expand_path("../..", __dir__)
  # What must be seen of each; a new example is told by name.
  expected = {
    "counter.rb" => /ada: greeting 16\s+\(message 5 of this key, partition \d\).*all 20 messages handled/m
  }
  files = Dir[File.join(root, "examples/*.rb")].map { |file| File.basename(file) }

  it "are all run here" do
    expect(files).to match_array(expected.keys)
  end

  files.each do |file|
    it "run to their end: #{file}" do
      result = run_command([RbConfig.ruby, "-I#{root}/lib", File.join(root, "examples", file)], 30)

      expect(result.status.exitstatus).to eq(0), result.output
      expect(result.output).to match(expected.fetch(file))
    end
  end
end
