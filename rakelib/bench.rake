# frozen_string_literal: true

namespace :bench do
  (Dir["bench/*.rb"] - ["bench/support.rb"]).sort.each do |file|
    desc "Run #{file} with an optimised extension"
    task File.basename(file, ".rb") do
      runtime = Project::Runtime.all.max_by(&:version)
      Project::Cargo.build_extension(runtime, profile: "release")
      env = runtime.env.merge("PROSODY_TEST_BROKER" => Project::Broker.address)
      result = Project::Shell.run(runtime.path, *("--yjit" if runtime.modern?), "-Ilib", file, env: env)
      abort "#{file}: #{result.verdict}" unless result.ok?
    end
  end
end
