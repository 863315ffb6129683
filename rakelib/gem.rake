# frozen_string_literal: true

namespace :gem do
  desc "Build the gem into pkg/"
  task :build do
    Project::Packaging.build
  end

  desc "Install the built gem as a user would, with RubyGems' own build, on every Ruby, and use it"
  task :install do
    Project::Packaging.check_installation
  end
end
