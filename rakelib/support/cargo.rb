# frozen_string_literal: true

module Project
  # Cargo in a target directory that several checkouts and Rubies share.
  module Cargo
    # `dev` is optimised enough for tests (see Cargo.toml); benchmarks set `release`.
    PROFILE = ENV.fetch("PROSODY_PROFILE", "dev")

    class << self
      # @return [Shell::Result]
      def run(*arguments, runtime: Runtime.primary, env: {}, **options, &show)
        in_turn do
          # rb-sys asks the Ruby named by RUBY; one name for all calls, or it compiles again for each. Not incremental:
          # a compilation that was killed half-way would leave the next one pieces that do not fit (tried).
          settings = {"CARGO_TARGET_DIR" => TARGET, "CARGO_INCREMENTAL" => "0", **env}
          Shell.run("cargo", *arguments, env: runtime.base_env.merge(settings), **options, &show)
        end
      end

      # Compiles the extension for a Ruby and puts it where the loader looks. Says nothing when
      # nothing had to be done.
      def build_extension(runtime, hostile: false, profile: PROFILE)
        one_extension_at_a_time do
          features = hostile ? ["--features", "hostile-store"] : []
          result = run("build", "--locked", "-p", "prosody", "--profile", profile, *features, runtime: runtime,
            &Shell.lines(/\A(?!\s*Finished )/))
          raise "the extension does not compile for #{runtime}" unless result.ok?

          install(built_library(runtime, profile), library(runtime, hostile: hostile))
        end
      end

      def library(runtime, hostile: false)
        File.join(ROOT, "lib/prosody", runtime.api, *("hostile" if hostile), "prosody.#{runtime.dlext}")
      end

      private

      def built_library(runtime, profile)
        File.join(TARGET, (profile == "dev") ? "debug" : profile, "libprosody.#{runtime.soext}")
      end

      # Never written in place: a process that has the old one mapped would crash.
      def install(built, library)
        return if File.exist?(library) && FileUtils.identical?(built, library)

        FileUtils.mkdir_p(File.dirname(library))
        fresh = "#{library}.#{Process.pid}"
        FileUtils.cp(built, fresh)
        File.rename(fresh, library)
        puts "    #{library.delete_prefix("#{ROOT}/")}"
      end

      # Cargo takes two checkouts in one target directory for the same packages, goes by the age of
      # files, and would hand one checkout the other's library (tried). So checkouts take turns, and
      # a change of turn makes all sources new.
      def in_turn
        locked("checkout") do |file|
          file.flock(File::LOCK_SH)
          until file.tap(&:rewind).read == ROOT
            file.flock(File::LOCK_EX)
            take_over(file)
            # Not atomic: another checkout may have slipped in, hence the loop.
            file.flock(File::LOCK_SH)
          end
          yield
        end
      end

      def take_over(file)
        FileUtils.touch(Dir[File.join(ROOT, "{ext,crates}/**/*.rs")])
        file.rewind
        file.truncate(0)
        file.write(ROOT)
        file.flush
      end

      # All variants of the extension have one name in the target directory.
      def one_extension_at_a_time
        locked("extension") do |file|
          file.flock(File::LOCK_EX)
          yield
        end
      end

      def locked(name, &)
        FileUtils.mkdir_p(TARGET)
        File.open(File.join(TARGET, ".prosody-#{name}"), File::RDWR | File::CREAT, encoding: Encoding::UTF_8, &)
      end
    end
  end
end
