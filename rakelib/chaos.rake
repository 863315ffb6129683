# frozen_string_literal: true

# Scenarios at full length, on the newest Ruby and an optimised extension; CI runs short ones (spec/scenarios).
chaos = lambda do |scenario, env, seconds|
  runtime = Project::Runtime.all.max_by(&:version)
  Project::Cargo.build_extension(runtime, profile: "release")
  env = runtime.env.merge("PROSODY_TEST_BROKER" => Project::Broker.address).merge(env)
  result = Project::Shell.run(runtime.path, "-Ilib", "spec/scenarios/#{scenario}.rb", env: env, timeout_s: seconds)
  abort "#{scenario}: #{result.verdict}" unless result.ok?
end

desc "200 rounds of members that join and leave, half of them killed, under 100,000 messages (half an hour; ROUNDS, MESSAGES, SEED)"
task :chaos do
  env = {"ROUNDS" => ENV.fetch("ROUNDS", "200"), "MESSAGES" => ENV.fetch("MESSAGES", "100000")}
  chaos.call("members_come_and_go", env.merge(ENV.slice("SEED", "LOG")), 2 * 3600)
end

desc "1,000 rounds of partitions that come and go in one process, on a broker (half an hour; ROUNDS)"
task "chaos:rounds" do
  chaos.call("assign_and_revoke_on_kafka", {"ROUNDS" => ENV.fetch("ROUNDS", "1000")}, 2 * 3600)
end
