# frozen_string_literal: true

namespace :kafka do
  # In the background: whoever needs it waits for it.
  task(:start) { Project::Broker.start }

  desc "Run a Kafka in the foreground until Ctrl-C, for PROSODY_TEST_BROKER=... and experiments"
  task :run do
    address = Project::Broker.address or abort
    puts "Kafka serves at #{address}; Ctrl-C stops it"
    sleep
  rescue Interrupt
    puts
  end
end
