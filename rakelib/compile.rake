# frozen_string_literal: true

desc "Compile the extension for this Ruby (PROSODY_PROFILE=release for an optimised one)"
task :compile do
  Project::Cargo.build_extension(Project::Runtime.primary)
rescue RuntimeError => error
  abort error.message
end

namespace :compile do
  desc "Compile the variant with the hostile store for this Ruby"
  task :hostile do
    Project::Cargo.build_extension(Project::Runtime.primary, hostile: true)
  rescue RuntimeError => error
    abort error.message
  end

  # As a check of its own, for every Ruby there is.
  task(:all) { Project::Specs.compile_all }
end

desc "Delete the compiled extensions from lib/ (the cargo target directory stays)"
task(:clean) { FileUtils.rm_rf(Dir["lib/prosody/**/*.{so,bundle}"]) }
