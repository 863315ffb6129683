# frozen_string_literal: true

module Project
  # Runs spec/scenarios: one file, one process, for what a shared process cannot prove. Exit code 0
  # is a pass, 77 means skipped, and the last line says why.
  #
  # A file says of itself, in its first comments:
  #   # scenario: every ruby     CI runs it on each Ruby, others only on the newest one
  #   # scenario: every async    and there with each async at hand
  #   # scenario: by hand        CI leaves it to `rake spec:scenarios:all`
  #   # seconds: 300             its limit, in place of 180
  module Scenarios
    FILES = File.join(ROOT, "spec/scenarios/*.rb")
    SECONDS_MAX = 180
    SKIPPED = 77

    Scenario = Struct.new(:file, :marks) do
      def self.all = Dir[FILES].sort.map { |file| new(file, File.foreach(file).first(10).grep(/\A# \w+: /).map(&:strip)) }

      def name = File.basename(file, ".rb")

      def every_ruby? = marks.include?("# scenario: every ruby") || every_async?

      def every_async? = marks.include?("# scenario: every async")

      def by_hand? = marks.include?("# scenario: by hand")

      def seconds = marks.filter_map { |mark| mark[/\A# seconds: (\d+)\z/, 1] }.first&.to_i || SECONDS_MAX
    end

    class << self
      # What CI runs.
      def run
        newest = Runtime.all.max_by(&:version)
        run_on_each_ruby do |scenario, runtime, usual|
          !scenario.by_hand? && (usual ? runtime == newest || scenario.every_ruby? : scenario.every_async?)
        end
      end

      # Every scenario on every Ruby with each async that is at hand for it.
      def run_matrix
        run_on_each_ruby { true }
      end

      private

      # The block tells whether a scenario is wanted on a Ruby, with its usual async or with another one.
      def run_on_each_ruby(&wanted)
        return if Dir[FILES].empty?

        Broker.address
        Specs.each_runtime("spec:scenarios", compiled: true) do |runtime, name|
          runtime.scenario_envs.each_with_index do |env, index|
            label = index.zero? ? name : "#{name}, async #{runtime.async_version(env)}"
            scenarios = Scenario.all.select { |scenario| wanted.call(scenario, runtime, index.zero?) }
            scenarios.each { |scenario| run_one(scenario, runtime, env, "#{label}: #{scenario.name}") }
          end
        end
      end

      def run_one(scenario, runtime, env, name)
        Report.heading(name)
        result = Shell.run(runtime.path, "-Ilib", scenario.file, env: env, timeout_s: scenario.seconds)
        if result.status.exitstatus == SKIPPED
          Report.skip(name, result.tail(1).strip)
        elsif result.ok?
          Report.count(name, passed: 1)
        else
          Report.count(name, failed: 1, note: result.verdict)
        end
      end
    end
  end
end
