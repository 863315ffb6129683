//! What the compiled extension was built with, for the diagnostic command.

use magnus::{Error, Object, RModule, Ruby, function};
use prosody_client::Library;

use crate::error;

fn librdkafka(ruby: &Ruby) -> Result<(String, Vec<String>), Error> {
    match Library::built_in() {
        Ok(library) => Ok((library.version, library.features)),
        Err(reason) => Err(error::prosody(ruby, &format!("librdkafka: {reason}"))),
    }
}

pub fn init(_ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("librdkafka", function!(librdkafka, 0))?;
    Ok(())
}
