//! How an attempt ended, and what follows from it by mode and error class (spec/delivery.md).

use std::fmt;

/// What becomes of an event whose handler fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every key gets its events handled, in order, however long it takes.
    #[default]
    Pipeline,
    /// Few retries, then the failure topic.
    LowLatency,
    /// No retries.
    BestEffort,
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// It can.
    Transient,
    /// It cannot.
    Permanent,
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
        })
    }
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Transient or permanent.
    pub class: FailureClass,
    /// Name of the error's class.
    pub error: String,
    /// The error's message.
    pub message: String,
    /// Where it was raised, innermost first.
    pub backtrace: Vec<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned.
    Success,
    /// The handler raised.
    Failed(Failure),
    /// The handler was stopped, by us or by itself.
    Stopped,
    /// The handler was stopped for something that it has not done: its thread ended.
    Interrupted,
    /// The handler asked the process to exit: the client shuts down, the event is handled again.
    Exit,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The same event again, after a wait; its key waits.
    RetryInPlace,
    /// Logged, and done with.
    ///
    /// Deferral and the failure topic join here when they come.
    Done,
}

/// What follows from a failure of that class in that mode.
pub fn consequence(mode: Mode, class: FailureClass) -> Consequence {
    match (mode, class) {
        (_, FailureClass::Permanent) | (Mode::BestEffort, FailureClass::Transient) => {
            Consequence::Done
        }
        (Mode::Pipeline | Mode::LowLatency, FailureClass::Transient) => Consequence::RetryInPlace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of spec/delivery.md, as far as its features are there.
    #[test]
    fn consequences_by_mode_and_class() {
        let table = [
            (
                Mode::Pipeline,
                FailureClass::Transient,
                Consequence::RetryInPlace,
            ),
            (Mode::Pipeline, FailureClass::Permanent, Consequence::Done),
            (
                Mode::LowLatency,
                FailureClass::Transient,
                Consequence::RetryInPlace,
            ),
            (Mode::LowLatency, FailureClass::Permanent, Consequence::Done),
            (Mode::BestEffort, FailureClass::Transient, Consequence::Done),
            (Mode::BestEffort, FailureClass::Permanent, Consequence::Done),
        ];
        for (mode, class, expected) in table {
            assert_eq!(consequence(mode, class), expected, "{mode:?} {class}");
        }
    }
}
