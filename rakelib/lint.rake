# frozen_string_literal: true

desc "Every check of Ruby sources, signatures and shell scripts"
task lint: ["lint:standard", "lint:rbs", "lint:steep", "lint:api", "lint:shell"]

namespace :lint do
  tool = lambda do |name, *command|
    runtime = Project::Runtime.for_tools
    Project::Report.command(name, runtime.path, "-S", *command, env: runtime.tool_env)
  rescue Project::Runtime::Unavailable => error
    Project::Report.skip(name, error.message)
  end

  desc "Ruby style"
  task(:standard) { tool.call("standard", "standardrb", "--no-fix") }

  desc "Signatures are well-formed"
  task(:rbs) { tool.call("rbs validate", "rbs", "-I", "sig", "validate") }

  desc "Ruby sources agree with the signatures"
  task(:steep) { tool.call("steep check", "steep", "check", "--jobs=2") if File.exist?("Steepfile") }

  desc "Every public method has a signature and documentation"
  task :api do
    name = "documentation and signatures of the public API"
    next Project::Report.skip(name, "the extension did not compile") unless Project::Specs.compile(Project::Runtime.for_tools)

    tool.call(name, "rspec", "spec/api/public_api_spec.rb")
  end

  task :shell do
    scripts = Dir["bin/*", ".ci/run"].select { |path| File.open(path, &:gets).to_s.include?("bash") }
    next Project::Report.skip("shellcheck", "not installed (Debian: shellcheck)") unless system("command -v shellcheck >/dev/null")

    Project::Report.command("shellcheck", "shellcheck", *scripts)
  end
end
