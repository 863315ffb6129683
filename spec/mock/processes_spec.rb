# frozen_string_literal: true

require_relative "../spec_helper"

# The ends and the children of processes: each example is a process of its own.
RSpec.describe "a process", :mock do
  describe "that ends without unsubscribe" do
    # A program whose client has a handler that runs when it ends.
    def ends(how, handler: "sleep(60)", **options)
      ruby(<<~RUBY, **options)
        started = Thread::Queue.new
        client = new_client
        client.subscribe(BlockHandler.new { |context, _| started << true; #{handler} })
        client.send_message(TOPIC, "k", 1)
        started.pop
        #{how}
      RUBY
    end

    it "does so within 5 s, with a handler that waits" do
      result = ends("")

      expect(result.status.exitstatus).to eq(0), result.output
      expect(result.seconds).to be < 6.5 # 5 s, and what it takes to start Ruby on a busy machine
    end

    it "does so within 5 s, with a handler that never yields" do
      result = ends("", handler: "loop {}")

      expect(result.status.exitstatus).to eq(0), result.output
      expect(result.seconds).to be < 6.5
    end

    it "does so at once, with handlers that heed should_cancel?" do
      result = ends("", handler: "context.on_cancel; $stdout.puts 'told'")

      expect(result.status.exitstatus).to eq(0)
      expect(result.output).to eq("told\n")
      expect(result.seconds).to be < 3.5
    end

    it "keeps its exit code: exit, exception, abort, exit!" do
      expect(ends("exit 3", handler: "context.on_cancel").status.exitstatus).to eq(3)
      expect(ends("raise 'no'", handler: "context.on_cancel").status.exitstatus).to eq(1)
      expect(ends("exit!(4)").status.exitstatus).to eq(4)
    end

    %w[TERM INT].each do |signal|
      it "on SIG#{signal}, dies of it" do
        result = ends("Process.kill(:#{signal}, Process.pid); sleep", handler: "context.on_cancel; $stdout.puts 'told'")

        expect(result.status.termsig).to eq(Signal.list.fetch(signal))
        expect(result.output).to include("told")
        expect(result.seconds).to be < 3.5
      end
    end

    it "ends as a handler asked it to: exit" do
      result = ends("sleep", handler: "exit(7)")

      expect(result.status.exitstatus).to eq(7), result.output
      expect(result.seconds).to be < 6.5
    end

    # A program whose handlers do what their messages' keys say, each when all have started; the first to ask for the
    # end does so with 3.
    def ends_by(*keys, ending: "sleep", options: "")
      ruby(<<~RUBY)
        started = Thread::Queue.new
        first, second = Array.new(2) { Thread::Queue.new }
        work = {
          "first" => ->(_) { first.pop; second << true; exit(3) },
          "second" => ->(_) { second.pop; exit(4) },
          "late" => ->(context) { context.on_cancel; exit(5) },
          "child" => ->(_) { Async { first.pop; exit(3) }.wait },
          "slow" => ->(context) { context.on_cancel; sleep(1); puts "slow is done" },
          "waits" => ->(_) { begin; sleep(60); ensure; puts "waits is interrupted"; end }
        }
        client = new_client(#{options})
        client.subscribe(BlockHandler.new { |context, message| started << message.key; work.fetch(message.key).call(context) })
        keys = #{keys.inspect}
        keys.each { |key| client.send_message(TOPIC, key, 1) }
        keys.each { started.pop }
        keys.each { first << true }
        #{ending}
      RUBY
    end

    {
      "at the same time" => [%w[first second slow], {}],
      "after being told that it ends" => [%w[first late slow], {}],
      "while the main thread unsubscribes" => [%w[first late slow], {ending: "begin; sleep; ensure; client.unsubscribe; end"}],
      "while a block of at_exit runs" => [%w[first late slow], {ending: "at_exit { client.unsubscribe }; sleep"}]
    }.each do |name, (keys, options)|
      it "ends as the first handler asked for that did, in order, when another one does: #{name}" do
        result = ends_by(*keys, **options)

        expect([result.output, result.status.exitstatus]).to eq(["slow is done\n", 3])
        expect(result.seconds).to be < 5
      end
    end

    it "ends with the code of its main thread, whatever handlers ask for then" do
      result = ends_by("late", "slow", ending: "exit(2)")

      expect([result.output, result.status.exitstatus]).to eq(["slow is done\n", 2])
    end

    it "may go on although a handler has asked for its end, and be asked again" do
      result = ruby(<<~RUBY)
        client = new_client
        client.send_message(TOPIC, "k", 1)
        2.times do |number|
          client.subscribe(BlockHandler.new { exit(number + 3) })
          sleep
        rescue SystemExit => error
          puts error.status
          client.unsubscribe
        end
      RUBY

      expect([result.output, result.status.exitstatus]).to eq(["3\n4\n", 0])
    end

    it "ends as a handler's child task asked it to; other handlers' messages are not done because of it" do
      result = ends_by("child", "waits", options: "mode: :best_effort")

      expect(result.status.exitstatus).to eq(3), result.output
      expect(result.output).to include("waits is interrupted")
      expect(result.output).not_to include("message is done")
      expect(result.seconds).to be < 6.5
    end

    it "ends with clients that were never used, or are garbage" do
      result = ruby(<<~RUBY)
        20.times { new_client }
        client = new_client
        client.send_message(TOPIC, "k", 1)
        client = nil
        GC.start
        new_client.subscribe(BlockHandler.new {})
      RUBY

      expect(result.status.exitstatus).to eq(0), result.output
    end
  end

  describe "that forks" do
    def forks(program)
      result = ruby(<<~RUBY)
        client = new_client
        #{program}
      RUBY
      expect(result.status.exitstatus).to eq(0), result.output
      result.output
    end

    attempt = "begin; %s; rescue Prosody::Error => error; puts \"%s: \#{error.message}\"; end"
    inherited = {
      "send_message" => 'client.send_message(TOPIC, "k", 1)', "send_tombstone" => 'client.send_tombstone(TOPIC, "k")',
      "subscribe" => "client.subscribe(BlockHandler.new {})", "unsubscribe" => "client.unsubscribe",
      "consumer_state" => "client.consumer_state", "assigned_partitions" => "client.assigned_partitions",
      "is_stalled?" => "client.is_stalled?"
    }.map { |name, call| format(attempt, call, name) }.join("\n")

    it "has clients that raise a clear error in the child, which then ends as it should" do
      output = forks(<<~RUBY)
        client.send_message(TOPIC, "k", 1)
        code = exit_code_of_child do
          #{inherited}
        end
        puts "child: \#{code}"
        client.send_message(TOPIC, "k", 2)
      RUBY
      lines = output.lines(chomp: true)

      expect(lines.pop).to eq("child: 0")
      expect(lines.map { |line| line[/\A[^:]+/] })
        .to eq(%w[send_message send_tombstone subscribe unsubscribe consumer_state assigned_partitions is_stalled?])
      expect(lines).to all(match(/made in another process.*make a new client after the fork/))
    end

    it "has the same of a client that is subscribed, whose handlers go on in the parent only" do
      output = forks(<<~RUBY)
        got = Thread::Queue.new
        client.subscribe(BlockHandler.new { |_, message| got << [Process.pid, message.payload] })
        client.send_message(TOPIC, "k", 1)
        got.pop
        code = exit_code_of_child do
          #{inherited}
          GC.start
        end
        puts "child: \#{code}"
        client.send_message(TOPIC, "k", 2)
        pid, payload = Timeout.timeout(10) { got.pop }
        puts "parent: \#{pid == Process.pid} \#{payload}"
        client.unsubscribe
      RUBY

      expect(output.lines.size).to eq(9)
      expect(output).to end_with("child: 0\nparent: true 2\n")
    end

    it "may make a new client in the child, and in the child's child" do
      output = forks(<<~RUBY)
        client.subscribe(BlockHandler.new {})
        use = lambda do |name|
          own = new_client
          got = Thread::Queue.new
          own.subscribe(BlockHandler.new { |_, message| got << message.payload })
          own.send_message(TOPIC, "k", name)
          puts Timeout.timeout(10) { got.pop }
          own.unsubscribe if name == "child"
        end
        code = exit_code_of_child do
          use.call("child")
          puts exit_code_of_child { use.call("grandchild") }
        end
        puts code
      RUBY

      expect(output).to eq("child\ngrandchild\n0\n0\n")
    end

    it "may do so from a handler: the child neither goes on with the handler's work nor takes its reactor" do
      output = forks(<<~RUBY)
        codes = Thread::Queue.new
        client.subscribe(BlockHandler.new do |context, message|
          child = fork do
            begin
              client.send_message(TOPIC, "k", 2)
            rescue Prosody::Error => error
              puts error.message
            end
            own = new_client
            got = Thread::Queue.new
            own.subscribe(BlockHandler.new { |_, message| got << message.payload })
            own.send_message(TOPIC, "k", 3)
            puts Fiber.new(blocking: true) { got.pop }.resume
            own.unsubscribe
            exit!(5)
          end
          codes << Process.wait2(child).last.exitstatus
        end)
        client.send_message(TOPIC, "k", 1)
        puts Timeout.timeout(10) { codes.pop }
        client.unsubscribe
      RUBY

      expect(output.lines(chomp: true)).to match([/made in another process/, "3", "5"])
    end

    it "logs in the child what its own clients do" do
      output = forks(<<~RUBY)
        client.subscribe(BlockHandler.new {})
        code = exit_code_of_child do
          Prosody.logger = Logger.new($stdout)
          own = new_client
          got = Thread::Queue.new
          own.subscribe(BlockHandler.new { got << true; raise Prosody::PermanentError, "in the child" })
          own.send_message(TOPIC, "k", 1)
          got.pop
          own.unsubscribe
        end
        puts code
      RUBY

      expect(output).to include("in the child").and end_with("0\n")
    end
  end

  it "may run the collector at every turn" do
    result = ruby(<<~RUBY, seconds: 50)
      COUNT = Prosody.value("count")
      got = Thread::Queue.new
      client = new_client(state_collections: COUNT)
      stressed = lambda do |&work|
        GC.stress = true
        work.call
      ensure
        GC.stress = false
      end
      client.subscribe(BlockHandler.new do |context, message|
        stressed.call do
          state = context.state(COUNT)
          state.set((state.get || 0) + 1)
          state.commit
          got << [message.payload, message.headers, message.key, state.get]
        end
      end)
      3.times { |number| stressed.call { client.send_message(TOPIC, "k", {"n" => number}, headers: {"a" => "b"}) } }
      all = Array.new(3) { Timeout.timeout(40) { got.pop } }
      client.unsubscribe
      puts all.map(&:last).inspect
    RUBY

    expect(result.output).to end_with("[1, 2, 3]\n")
  end
end
