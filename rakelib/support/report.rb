# frozen_string_literal: true

module Project
  # The sum of all tests and checks of one rake run, printed when it ends. A failed check does not
  # stop the run: one run shows everything that is wrong.
  module Report
    STARTED_AT = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    private_constant :STARTED_AT

    @passed = @failed = @skipped = 0
    @failures = []
    @skips = []
    @open = false

    class << self
      def heading(name)
        @open = true
        seconds = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - STARTED_AT).to_i
        puts format("==> %d:%02d %s", *seconds.divmod(60), name)
      end

      def count(name, passed: 0, failed: 0, skipped: 0, note: nil)
        @open = true
        @passed += passed
        @failed += failed
        @skipped += skipped
        @failures << "#{name}: #{note || "#{failed} failed"}" if failed.positive?
        @skips << "#{name}: #{note || "#{skipped} marked as pending or ignored"}" if skipped.positive? && failed.zero?
      end

      def skip(name, reason)
        puts "    skipped: #{name}: #{reason}"
        count(name, skipped: 1, note: reason)
        false
      end

      # One command that is one check, by its exit code.
      def command(name, *command, **options, &show)
        heading(name)
        result = Shell.run(*command, **options, &show)
        result.ok? ? count(name, passed: 1) : count(name, failed: 1, note: result.verdict)
        result.ok?
      end

      # The same for cargo, which is not always a check of its own.
      def cargo(name, *arguments, count_success: true)
        heading(name)
        result = Cargo.run(*arguments)
        if !result.ok?
          count(name, failed: 1, note: result.verdict)
        elsif count_success
          count(name, passed: 1)
        end
        result.ok?
      end

      # The sum over all test binaries of one `cargo test`.
      def cargo_tests(result)
        output = result.output.gsub(/\e\[[\d;]*m/, "")
        counts = output.scan(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/)
        passed, failed, ignored = counts.map { |numbers| numbers.map(&:to_i) }.transpose.map(&:sum)
        reasons = output.scan(/^test (\S+) .*\.\.\. ignored(?:, (.*))?$/).map { |name, why| "#{name} (#{why || "ignored"})" }
        # A binary that crashed has no result line.
        crashed = failed.to_i.zero? && !result.ok?
        count("cargo test", passed: passed.to_i)
        count("cargo test", failed: failed.to_i + (crashed ? 1 : 0), note: (result.verdict if crashed))
        count("cargo test", skipped: ignored.to_i, note: reasons.join(", "))
      end

      def finish(aborted)
        return unless @open

        count("rake", failed: 1, note: "the run ended early") if aborted
        print_list("Skipped", @skips)
        print_list("Failed", @failures)
        puts "#{@passed} passed, #{@failed} failed, #{@skipped} skipped"
        $stdout.flush
        exit 1 if @failed.positive?
      end

      private

      def print_list(title, lines)
        return if lines.empty?

        puts "", "#{title}:"
        lines.each { |line| puts "  #{line.strip.gsub("\n", "\n      ")}" }
        puts
      end
    end

    # Registered first, hence it runs last and its line is the last one.
    at_exit { finish($!.is_a?(SystemExit) ? !$!.success? : !$!.nil?) }
  end

  $stdout.sync = true
end
