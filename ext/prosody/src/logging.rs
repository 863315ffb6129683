//! Rust's log lines on their way to `Prosody.logger`, without a Rust thread ever waiting for Ruby.

use std::fmt::{self, Write};

use magnus::{Error, Object, RArray, RModule, Ruby, function};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::error;
use crate::process;

/// A log line.
#[derive(Debug)]
pub struct Line {
    severity: u8,
    target: &'static str,
    text: String,
}

impl Line {
    /// `[severity, target, text]`, severity as Ruby's Logger counts it.
    pub fn into_array(self, ruby: &Ruby) -> Result<RArray, Error> {
        let line = ruby.ary_new_capa(3);
        line.push(self.severity)?;
        line.push(self.target)?;
        line.push(self.text)?;
        Ok(line)
    }
}

struct ToRuby;

impl<S: Subscriber> Layer<S> for ToRuby {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let Some(state) = process::present() else {
            return;
        };
        let mut text = Text::default();
        event.record(&mut text);
        let metadata = event.metadata();
        state.bridge.log(Line {
            severity: severity(*metadata.level()),
            target: metadata.target(),
            text: text.message + &text.fields,
        });
    }
}

fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 2,
        Level::INFO => 1,
        Level::DEBUG | Level::TRACE => 0,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            // Writing to a String does not fail.
            let _ = write!(self.fields, " {}={value}", field.name());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
        // Writing to a String does not fail.
        let _ = written;
    }
}

/// Starts logging with a filter such as `info` or `warn,prosody=debug`; once per process.
fn start(ruby: &Ruby, filter: String) -> Result<(), Error> {
    let filter: Targets = filter.parse().map_err(|reason| {
        let text = format!(
            "PROSODY_LOG is {filter:?}: expected a level (error, warn, info, debug, trace) or a \
             filter such as \"warn,prosody=debug\": {reason}"
        );
        error::argument(ruby, text)
    })?;
    let subscriber = tracing_subscriber::registry().with(ToRuby.with_filter(filter));
    // Fails if it was started before: the first filter stays.
    let _ = subscriber.try_init();
    Ok(())
}

pub fn init(_ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("start_logging", function!(start, 1))?;
    Ok(())
}
