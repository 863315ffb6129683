# frozen_string_literal: true

# Two librdkafkas in one process must not mix up their symbols: what the extension exports is what Ruby looks up.
require_relative "../support/scenario"

library = $LOADED_FEATURES.find { |feature| feature.end_with?("prosody.#{RbConfig::CONFIG["DLEXT"]}") }
symbols = IO.popen(["nm", "-D", "--defined-only", library], err: File::NULL, &:readlines).map { |line| line.split.last }
skip("nm is not there, or cannot read the extension") if symbols.empty?
check("the extension exports nothing but its Init function: #{symbols.first(10)}") { symbols - ["ruby_abi_version"] == ["Init_prosody"] }
