# frozen_string_literal: true

require "rbconfig"

module Prosody
  # The compiled extension. Its classes are internal; `ext/prosody/README.md` says how both sides meet.
  #
  # @api private
  module Native
    # A development tree holds one library per Ruby, an installed gem has one where RubyGems put it
    # (up to 3.4.5 `lib/prosody.so`, later ones `lib/prosody/prosody.so`).
    VARIANT = ENV.fetch("PROSODY_NATIVE_VARIANT", nil)
    FOLDER = __dir__.to_s
    CANDIDATES = [
      File.join(FOLDER, RbConfig::CONFIG["ruby_version"][/\d+\.\d+/].to_s, VARIANT.to_s, "prosody"),
      File.join(FOLDER, VARIANT.to_s, "prosody"),
      File.join(FOLDER, "..", "prosody")
    ].map { |path| "#{File.expand_path(path)}.#{RbConfig::CONFIG["DLEXT"]}" }.freeze
    private_constant :VARIANT, :FOLDER, :CANDIDATES

    library = CANDIDATES.find { |path| File.exist?(path) }
    if library
      require library
    else
      begin
        # Extensions that RubyGems keeps outside of the gem's folder are on the load path.
        require "prosody/prosody.#{RbConfig::CONFIG["DLEXT"]}"
      rescue LoadError
        raise LoadError, "prosody's compiled extension is not there for Ruby #{RUBY_VERSION} (looked for " \
          "#{CANDIDATES.join(", ")}): in a checkout run `rake compile`, else install the gem again with this Ruby"
      end
    end
  end
  private_constant :Native
end
