# frozen_string_literal: true

desc "All specs, on every Ruby there is (PROSODY_ONLY_RUBY=3.1 for one)"
task spec: [*Project::Specs::GROUPS.map { |group| "spec:#{group.name}" }, "spec:scenarios", "spec:matrix"]

namespace :spec do
  Project::Specs::GROUPS.each do |group|
    desc "The specs of group #{group.name}: #{group.files}"
    task(group.name) { Project::Specs.run(group) }
  end

  desc "spec/scenarios, each file in a process of its own"
  task :scenarios do
    Project::Broker.address if Dir["spec/scenarios/*.rb"].any?
    Project::Specs.run_scenarios
  end

  task :matrix do
    next if ENV["PROSODY_ONLY_RUBY"] || Project::Runtime.all.any?(&:modern?)

    Project::Report.skip("specs on a Ruby 3.3 or later", "none on PATH, in ~/rubies or as #{Project::SHARED}/rubies/*.tar.xz")
  end
end
