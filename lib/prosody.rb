# frozen_string_literal: true

require "async"
require "json"

# Ruby services that live on Kafka: every key has its messages in order, and working memory that changes
# only when the event succeeds. Start with {Prosody::Client} and {Prosody::EventHandler}.
module Prosody
end

require_relative "prosody/version"
require_relative "prosody/errors"
require_relative "prosody/logging"
require_relative "prosody/native"
require_relative "prosody/signal_handler"
require_relative "prosody/bridge"
require_relative "prosody/json_text"
require_relative "prosody/error_classification"
require_relative "prosody/event_handler"
require_relative "prosody/state_definition"
require_relative "prosody/definitions"
require_relative "prosody/configuration"
require_relative "prosody/message"
require_relative "prosody/timer"
require_relative "prosody/state/value_state"
require_relative "prosody/context"
require_relative "prosody/process_end"
require_relative "prosody/worker"
require_relative "prosody/reactor"
require_relative "prosody/send_batch"
require_relative "prosody/client"
require_relative "prosody/mock"
