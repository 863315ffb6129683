# frozen_string_literal: true

module Project
  # The gem as users get it: built, installed into an empty GEM_HOME, used from there.
  module Packaging
    INSTALL_SECONDS_MAX = 1500

    # Runs outside of the checkout and may load nothing from it.
    SMOKE = <<~RUBY
      require "prosody"
      from_checkout = $LOADED_FEATURES.select { |path| path.start_with?("#{ROOT}/") }
      abort "loaded from the checkout: \#{from_checkout}" unless from_checkout.empty?
      puts "prosody \#{Prosody::VERSION}: \#{$LOADED_FEATURES.grep(%r{/prosody\\.\\w+\\z}).join(", ")}"
    RUBY

    class << self
      # @return [String] path of the gem
      def build
        spec = Gem::Specification.load(File.join(ROOT, "prosody.gemspec")) or raise "prosody.gemspec does not load"
        file = File.join(ROOT, "pkg", spec.file_name)
        FileUtils.mkdir_p(File.dirname(file))
        Shell.capture(RbConfig.ruby, "-S", "gem", "build", "--output", file, "prosody.gemspec")
        file
      end

      def check_installation
        Report.heading("gem build")
        file = build
        Report.count("gem build", passed: 1)
        Specs.each_runtime("gem install") { |runtime, name| install_and_use(file, runtime, name) }
      rescue RuntimeError => error
        Report.count("gem build", failed: 1, note: error.message)
      end

      private

      def install_and_use(file, runtime, name)
        Dir.mktmpdir("prosody-gem-") do |folder|
          home = File.join(folder, "gems")
          env = runtime.env.merge("GEM_HOME" => home, "GEM_PATH" => [home, runtime.gem_path].join(File::PATH_SEPARATOR),
            # RubyGems names its own target directory; what is intermediate is kept here for the next time.
            "CARGO_BUILD_BUILD_DIR" => File.join(TARGET, "gem-install"),
            # Some RubyGems set it to the present, and librdkafka would compile again each time.
            "SOURCE_DATE_EPOCH" => "315619200")
          installed = Report.command(name, runtime.path, "-S", "gem", "install", "--local", "--no-document", "--verbose", file,
            env: env, chdir: folder, timeout_s: INSTALL_SECONDS_MAX, &Shell.lines(%r{\A(?!/)}))
          use(folder, runtime, env, name) if installed
        end
      end

      def use(folder, runtime, env, name)
        script = File.join(folder, "smoke.rb")
        File.write(script, SMOKE)
        Report.command("#{name}: require", runtime.path, script, env: env, chdir: folder, timeout_s: 60)

        Report.command("#{name}: prosody-info", runtime.path, File.join(env.fetch("GEM_HOME"), "bin/prosody-info"),
          env: env, chdir: folder, timeout_s: 60)

        FileUtils.cp(File.join(ROOT, "examples/counter.rb"), folder)
        Report.command("#{name}: example", runtime.path, "counter.rb", env: env.merge("PROSODY_BOOTSTRAP_SERVERS" => nil),
          chdir: folder, timeout_s: 60)
      end
    end
  end
end
