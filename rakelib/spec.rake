# frozen_string_literal: true

desc "All specs, on every Ruby there is (PROSODY_ONLY_RUBY=3.1 for one)"
task spec: [*Project::Specs::GROUPS.map { |group| "spec:#{group.name}" }, "spec:scenarios", "spec:matrix"]

namespace :spec do
  Project::Specs::GROUPS.each do |group|
    desc "The specs of group #{group.name}: #{group.files}"
    task(group.name) { Project::Specs.run(group) }
  end

  desc "spec/scenarios, each file in a process of its own: what CI runs of them"
  task(:scenarios) { Project::Scenarios.run }

  desc "All of spec/scenarios, on every Ruby with each async at hand (hours)"
  task("scenarios:all") { Project::Scenarios.run_matrix }

  task :matrix do
    next if ENV["PROSODY_ONLY_RUBY"] || Project::Runtime.all.any?(&:modern?)

    Project::Report.skip("specs on a Ruby 3.3 or later", "none on PATH, in ~/rubies or as #{Project::SHARED}/rubies/*.tar.xz")
  end
end
