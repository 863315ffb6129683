# frozen_string_literal: true

require "digest"
require "net/http"

module Project
  # A Ruby and the gems it runs prosody with.
  class Runtime
    # Nothing that could be done here makes it usable; the reason is for the user.
    class Unavailable < StandardError; end

    OLDEST = Gem::Version.new("3.1")
    # From here on, gems are the newest ones (gemfiles/newest.gemfile): most users are there.
    MODERN = Gem::Version.new("3.3")
    QUESTION = 'print [RUBY_VERSION, *RbConfig::CONFIG.values_at("DLEXT", "SOEXT", "ruby_version")].join(" ")'
    # What a Ruby's own gems are asked for: Debian's ruby-async and ruby-rspec, or what a developer installed.
    OWN_ASYNC = 'gem "async", ">= 1.30", "< 3"'
    OWN_RSPEC = 'gem "rspec", "~> 3.12"'

    class << self
      # The Ruby that runs rake: examples and single compilations are for it.
      def primary = all.first

      # One for each Ruby API version, the primary one first.
      def all
        @all ||= begin
          found = candidates.filter_map { |path| at(path) }
          found << at(unpacked_ruby) if found.none?(&:modern?) && archive
          only = ENV["PROSODY_ONLY_RUBY"]
          found.compact.uniq(&:api).select { |runtime| only.nil? || runtime.api == only }
            .tap { |usable| raise "no Ruby #{only || "3.1 or later"} found" if usable.empty? }
        end
      end

      # Gemfile.lock names what the oldest Ruby takes.
      def for_tools = all.min_by(&:version)

      private

      def candidates
        on_path = ENV.fetch("PATH").split(File::PATH_SEPARATOR).map { |folder| File.join(folder, "ruby") }
        kept = Dir[File.join(Dir.home, "rubies/*/bin/ruby"), File.join(CACHE, "rubies/*/bin/ruby")].sort.reverse
        [RbConfig.ruby, "/usr/bin/ruby", *on_path, *kept].select { |path| File.executable?(path) }
      end

      def at(path)
        version, dlext, soext, abi = Shell.capture(path, "--disable-gems", "-rrbconfig", "-e", QUESTION).split
        runtime = new(path, Gem::Version.new(version), dlext: dlext, soext: soext, abi: abi)
        runtime if runtime.version >= OLDEST
      rescue RuntimeError
        nil
      end

      def archive = Dir[File.join(SHARED, "rubies/*.tar.xz")].max

      def unpacked_ruby
        folder = File.join(CACHE, "rubies")
        puts "==> unpacking #{File.basename(archive)} into #{folder}"
        FileUtils.mkdir_p(folder)
        Shell.capture("tar", "-C", folder, "-xJf", archive)
        Dir[File.join(folder, "*/bin/ruby")].max
      end
    end

    attr_reader :path, :version, :dlext, :soext, :abi

    def initialize(path, version, dlext:, soext:, abi:)
      @path = path
      @version = version
      @dlext = dlext
      @soext = soext
      @abi = abi
    end

    # As the loader names the folder of the compiled extension: "3.1".
    def api = version.segments.first(2).join(".")

    def modern? = version >= MODERN

    def to_s = "Ruby #{version}"

    # Environment of a process of this Ruby that runs prosody.
    def env = @env ||= base_env.merge(own_gems?(OWN_ASYNC) ? {} : bundle_env("gemfiles/newest.gemfile", "Gemfile"))

    # The same with RSpec.
    def spec_env
      @spec_env ||= own_gems?(OWN_ASYNC, OWN_RSPEC) ? base_env : base_env.merge(bundle_env("gemfiles/newest.gemfile", "Gemfile"))
    end

    # Environments for scenarios, one for each async that is at hand, the usual one first. Other
    # schedulers and clients that prosody has to get along with are there where they can be had.
    def scenario_envs
      @scenario_envs ||= [env, newer_async_env].compact.uniq.map { |one| with_neighbours(one) }
    end

    def async_version(env) = Shell.capture(path, "-e", 'require "async/version"; print Async::VERSION', env: env)

    # Environment of a process of this Ruby that needs standard, rbs or steep.
    def tool_env = @tool_env ||= base_env.merge(bundle_env("Gemfile"))

    # Without gems, enough to compile.
    def base_env
      {"RUBY" => path, "PATH" => [File.dirname(path), ENV.fetch("PATH")].join(File::PATH_SEPARATOR)}
    end

    # Where gems installed beside this process's own are looked for.
    def gem_path(env = self.env) = Shell.capture(path, "-e", "print Gem.path.join(File::PATH_SEPARATOR)", env: env)

    private

    # Where the usual one is Debian's.
    def newer_async_env
      tool_env unless modern?
    rescue Unavailable, RuntimeError
      nil
    end

    # What is missing is skipped by the scenarios that want it.
    def with_neighbours(env)
      gemfiles = ["gemfiles/schedulers.gemfile", *("gemfiles/rdkafka.gemfile" if modern?)]
      folders = gemfiles.filter_map do |gemfile|
        File.join(installed_bundle(gemfile), "ruby", abi)
      rescue Unavailable, RuntimeError
        nil
      end
      env.merge("GEM_PATH" => [gem_path(env), *folders].join(File::PATH_SEPARATOR))
    end

    def own_gems?(*checks) = Shell.run(path, "-e", checks.join(";"), env: base_env) { nil }.ok?

    def bundle_env(modern_gemfile, old_gemfile = modern_gemfile)
      folder = installed_bundle(modern? ? modern_gemfile : old_gemfile)
      home = File.join(folder, "ruby", abi)
      {
        "GEM_HOME" => home,
        "GEM_PATH" => home,
        "PATH" => [File.join(home, "bin"), base_env["PATH"]].join(File::PATH_SEPARATOR)
      }
    end

    # Tried once: what could not be had is not had a minute later.
    def installed_bundle(gemfile)
      @bundles ||= {}
      outcome = @bundles[gemfile] ||= begin
        install_bundle(gemfile)
      rescue Unavailable, RuntimeError => error
        error
      end
      outcome.is_a?(Exception) ? raise(outcome) : outcome
    end

    # The folder is named after the lock file, so it holds exactly what that names, and Bundler has
    # no part in running anything.
    def install_bundle(gemfile)
      lock = File.join(ROOT, "#{gemfile}.lock")
      folder = File.join(CACHE, "bundles", "#{api}-#{Digest::SHA256.file(lock).hexdigest[0, 12]}")
      return folder if File.exist?(File.join(folder, ".complete"))

      env = bundler_env(gemfile, folder)
      puts "==> #{self}: bundle install of #{gemfile} into #{folder}"
      result = Shell.run(path, "-S", "bundle", "install", env: env, &Shell.lines(/\AInstalling/))
      puts result.tail(30) unless result.ok?
      raise "bundle install of #{gemfile} failed: #{result.verdict}" unless result.ok?

      FileUtils.touch(File.join(folder, ".complete"))
      folder
    end

    def bundler_env(gemfile, folder)
      mirror = File.join(SHARED, "gems/ruby-#{api}")
      settings = {
        "BUNDLE_GEMFILE" => File.join(ROOT, gemfile),
        "BUNDLE_PATH" => folder,
        "BUNDLE_FROZEN" => "true",
        "BUNDLE_JOBS" => "2",
        "BUNDLE_IGNORE_MESSAGES" => "true",
        # Not the user's settings: they may point somewhere else.
        "BUNDLE_APP_CONFIG" => File.join(folder, "config")
      }
      settings["BUNDLE_MIRROR__ALL"] = "file://#{mirror}" if File.directory?(mirror)
      if !settings.key?("BUNDLE_MIRROR__ALL") && !rubygems_reachable?
        raise Unavailable, "its gems are missing: rubygems.org is not reachable and #{mirror} does not exist"
      end
      base_env.merge(settings)
    end

    def rubygems_reachable?
      Net::HTTP.start("rubygems.org", 443, use_ssl: true, open_timeout: 5, read_timeout: 5) { |http| http.head("/") }
      true
    rescue SystemCallError, SocketError, IOError, Timeout::Error, OpenSSL::SSL::SSLError
      false
    end
  end
end
