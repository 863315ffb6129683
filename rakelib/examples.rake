# frozen_string_literal: true

namespace :example do
  Dir["examples/*.rb"].sort.each do |file|
    name = File.basename(file, ".rb")

    desc "Run #{file} (in mock mode, or with PROSODY_BOOTSTRAP_SERVERS=host:port)"
    task name => :compile do
      runtime = Project::Runtime.primary
      # In this process's place: the terminal and its Ctrl-C are the example's.
      exec(Project::Shell::BARE_ENV.merge(runtime.env), runtime.path, "-Ilib", file)
    rescue Project::Runtime::Unavailable => error
      abort "#{runtime}: #{error.message}"
    end
  end
end

desc "Every example as a check: in mock mode, and the counter on Kafka too"
task examples: ["examples:mock", "examples:kafka"]

namespace :examples do
  seconds_max = 60
  check = lambda do |file, runtime, name, env|
    Project::Report.command(name, runtime.path, "-Ilib", file, env: runtime.env.merge(env), timeout_s: seconds_max)
  end

  task :mock do
    Dir["examples/*.rb"].sort.each do |file|
      Project::Specs.each_runtime("example #{File.basename(file, ".rb")}", compiled: true) do |runtime, name|
        check.call(file, runtime, name, {"PROSODY_BOOTSTRAP_SERVERS" => nil})
      end
    end
  end

  task :kafka do
    Project::Specs.each_runtime("example counter on Kafka", compiled: true) do |runtime, name|
      broker = Project::Broker.address
      next Project::Report.skip(name, "Kafka did not start") unless broker

      topic = "demo-#{runtime.api}"
      next Project::Report.skip(name, "topics are made on our own broker only") unless Project::Broker.create_topic(topic, 4)

      check.call("examples/counter.rb", runtime, name, {"PROSODY_BOOTSTRAP_SERVERS" => broker, "PROSODY_DEMO_TOPIC" => topic})
    end
  end
end
