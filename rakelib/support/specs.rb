# frozen_string_literal: true

require "json"

module Project
  # Runs the groups of specs, each in a process of its own for each Ruby, so that a crash takes
  # nothing else with it.
  module Specs
    Group = Struct.new(:name, :files, :compiled, :broker, :hostile, keyword_init: true)

    GROUPS = [
      Group.new(name: "unit", files: "spec/unit/**/*_spec.rb"),
      Group.new(name: "mock", files: "spec/mock/**/*_spec.rb", compiled: true),
      # The same again, on a store whose every call suspends and often fails.
      Group.new(name: "hostile", files: "spec/mock/**/*_spec.rb", compiled: true, hostile: true),
      Group.new(name: "kafka", files: "spec/kafka/**/*_spec.rb", compiled: true, broker: true)
    ].freeze

    GROUP_SECONDS_MAX = 1200

    class << self
      def run(group)
        return if Dir[File.join(ROOT, group.files)].empty?

        each_runtime("spec:#{group.name}", compiled: group.compiled, hostile: group.hostile, rspec: true) do |runtime, name|
          next Report.skip(name, "Kafka did not start") if group.broker && !Broker.address

          Report.heading(name)
          rspec(group, runtime, name)
        end
      end

      # All variants for one Ruby before the next Ruby: each change of Ruby compiles rb-sys and magnus again.
      def compile_all
        hostile = Dir[File.join(ROOT, GROUPS.find(&:hostile).files)].any?
        Runtime.all.each do |runtime|
          compile(runtime)
          compile(runtime, hostile: true) if hostile
        end
      end

      # @return [Boolean] whether the extension is there; a failure is counted once
      def compile(runtime, hostile: false)
        @compiled ||= {}
        @compiled.fetch([runtime.api, hostile]) do |key|
          name = "compile#{":hostile" if hostile} (#{runtime})"
          Report.heading(name)
          Cargo.build_extension(runtime, hostile: hostile)
          Report.count(name, passed: 1)
          @compiled[key] = true
        rescue RuntimeError => error
          Report.count(name, failed: 1, note: error.message)
          @compiled[key] = false
        end
      end

      # Yields every Ruby that has what is asked for; the others count as skipped.
      def each_runtime(name, compiled: false, hostile: false, rspec: false)
        Runtime.all.each do |runtime|
          name_here = "#{name} (#{runtime})"
          next Report.skip(name_here, "the extension did not compile") if compiled && !compile(runtime, hostile: !!hostile)

          yield runtime, name_here if gems_there?(runtime, name_here, rspec)
        end
      end

      private

      def gems_there?(runtime, name, rspec)
        rspec ? runtime.spec_env : runtime.env
        true
      rescue Runtime::Unavailable => error
        Report.skip(name, error.message)
        false
      rescue RuntimeError => error
        Report.count(name, failed: 1, note: error.message)
        false
      end

      def rspec(group, runtime, name)
        Dir.mktmpdir do |folder|
          summary = File.join(folder, "summary.json")
          arguments = ["--format", "progress", "--format", "json", "--out", summary, "--pattern", group.files]
          env = runtime.spec_env.merge(group.hostile ? {"PROSODY_NATIVE_VARIANT" => "hostile"} : {})
          result = Shell.run(runtime.path, "-S", "rspec", *arguments, env: env, timeout_s: GROUP_SECONDS_MAX, &without_crash_maps)
          count_rspec(name, result, summary)
        end
      end

      def count_rspec(name, result, summary)
        counts = JSON.parse(File.read(summary)).fetch("summary").transform_keys(&:to_sym)
        failed = counts[:failure_count] + counts[:errors_outside_of_examples_count]
        passed = counts[:example_count] - counts[:failure_count] - counts[:pending_count]
        # All examples passed, and yet: a crash at exit, say.
        died = failed.zero? && !result.ok?
        Report.count(name, passed: passed, failed: failed + (died ? 1 : 0), skipped: counts[:pending_count],
          note: (result.verdict if died))
      rescue Errno::ENOENT, JSON::ParserError
        cause = result.output[/^.*\[BUG\].*$/] || "last lines:\n#{result.tail(15)}"
        Report.count(name, failed: 1, note: "#{result.verdict}, without a summary; #{cause}")
      end

      # Of Ruby's report on its own crash, without the thousand lines of features and memory maps.
      def without_crash_maps
        crashed = false
        lambda do |piece|
          head, marker, = piece.partition("* Loaded features:")
          $stdout.write(head) unless crashed
          crashed ||= !marker.empty?
        end
      end
    end
  end
end
