//! Ruby's exceptions, by the names of lib/prosody/errors.rb.

use magnus::{Error, ExceptionClass, Module, RModule, Ruby};
use prosody_client::ClientError;
use prosody_core::attempt::StateError;
use prosody_core::log::SendError;

fn class(ruby: &Ruby, name: &str) -> ExceptionClass {
    let prosody: Result<RModule, Error> = ruby.class_object().const_get("Prosody");
    let class = prosody.and_then(|prosody| prosody.const_get(name));
    class.unwrap_or_else(|_| ruby.exception_runtime_error())
}

/// `Prosody::Error`.
pub fn prosody(ruby: &Ruby, message: &str) -> Error {
    Error::new(class(ruby, "Error"), message.to_owned())
}

/// `ArgumentError`.
pub fn argument(ruby: &Ruby, message: String) -> Error {
    Error::new(ruby.exception_arg_error(), message)
}

/// `Prosody::TransientStateError`.
pub fn transient_state(ruby: &Ruby, message: String) -> Error {
    Error::new(class(ruby, "TransientStateError"), message)
}

/// Why an operation did not succeed, as it waits for Ruby to hear of it.
#[derive(Debug)]
pub enum Reason {
    Argument(String),
    Prosody(String),
    TransientState(String),
}

impl Reason {
    /// The exception.
    pub fn raise(self, ruby: &Ruby) -> Error {
        match self {
            Self::Argument(message) => argument(ruby, message),
            Self::Prosody(message) => prosody(ruby, &message),
            Self::TransientState(message) => transient_state(ruby, message),
        }
    }
}

impl From<ClientError> for Reason {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Misconfigured(message) => Self::Argument(message),
            ClientError::Failed(message) => Self::Prosody(message),
        }
    }
}

impl From<SendError> for Reason {
    fn from(error: SendError) -> Self {
        Self::Prosody(error.to_string())
    }
}

impl From<StateError> for Reason {
    fn from(error: StateError) -> Self {
        Self::TransientState(error.to_string())
    }
}
