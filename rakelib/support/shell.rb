# frozen_string_literal: true

module Project
  # Child processes whose output is shown as it comes and kept for counting.
  module Shell
    # Rake may itself run under Bundler; the children get their gems from Runtime alone.
    BARE_ENV = %w[
      BUNDLE_BIN_PATH BUNDLE_GEMFILE BUNDLER_SETUP BUNDLER_VERSION GEM_HOME GEM_PATH RUBYLIB RUBYOPT
    ].to_h { |name| [name, nil] }.freeze

    Result = Struct.new(:status, :output, :timeout_s) do
      def ok? = timeout_s.nil? && status.success?

      def verdict
        return "stopped after #{timeout_s} s" if timeout_s
        return "killed by signal #{Signal.signame(status.termsig)}" if status.signaled?

        "exit code #{status.exitstatus}"
      end

      def tail(lines) = output.lines.last(lines).join
    end

    class << self
      # Shows the output, or gives it to the block piece by piece.
      def run(*command, env: {}, chdir: ROOT, timeout_s: nil, &show)
        show ||= ->(piece) { $stdout.write(piece) }
        reader, writer = IO.pipe
        # A group of its own, so that nothing of it outlives this method, whatever ends it.
        pid = Process.spawn(BARE_ENV.merge(env), *command, :chdir => chdir, :pgroup => true,
          :in => File::NULL, [:out, :err] => writer)
        writer.close
        ended = ending(pid, timeout_s)
        output = +""
        each_piece(reader) do |piece|
          output << piece
          show.call(piece)
        end
        Result.new(*ended.value.then { |status, late| [status, output, (timeout_s if late)] })
      rescue Errno::ENOENT => error
        raise "cannot run #{command.first}: #{error.message}"
      ensure
        kill_group(pid)
        reader&.close
      end

      # To show only some lines.
      def lines(wanted)
        rest = +""
        lambda do |piece|
          rest << piece
          while (line = rest.slice!(/.*\n/))
            $stdout.write(line) if line.match?(wanted)
          end
        end
      end

      # The output of a command that has to succeed.
      def capture(*command, **options)
        result = run(*command, **options) { nil }
        raise "#{command.shelljoin}: #{result.verdict}\n#{result.tail(20)}" unless result.ok?

        result.output
      end

      private

      # Leftovers of the group would keep the pipe open: they end with their leader.
      def ending(pid, timeout_s)
        waiter = Process.detach(pid)
        Thread.new do
          late = waiter.join(timeout_s).nil?
          kill_group(pid)
          [waiter.value, late]
        end
      end

      def each_piece(reader)
        loop { yield reader.readpartial(65_536).force_encoding(Encoding::UTF_8).scrub }
      rescue EOFError
        nil
      end

      def kill_group(pid)
        Process.kill(:KILL, -pid) if pid
      rescue Errno::ESRCH, Errno::EPERM
        nil
      end
    end
  end
end
