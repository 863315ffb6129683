//! The Ruby binding: classes, waiting, logging. It holds no logic of its own (see README.md).

#![allow(missing_docs)] // of what `magnus::init` generates

mod attempt;
mod bridge;
mod client;
mod error;
mod fork;
mod gvl;
mod library;
mod logging;
mod message;
mod process;
mod reactor;
mod settings;
mod value_state;

use magnus::{Error, Module, Ruby};

#[magnus::init(name = "prosody")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    fork::watch();
    let prosody = ruby.define_module("Prosody")?;
    let native = prosody.define_module("Native")?;
    logging::init(ruby, native)?;
    bridge::init(ruby, native)?;
    process::init(ruby, native)?;
    library::init(ruby, native)?;
    reactor::init(ruby, native)?;
    attempt::init(ruby, native)?;
    client::init(ruby, native)?;
    message::init(ruby, prosody)?;
    value_state::init(ruby, prosody)?;
    Ok(())
}
