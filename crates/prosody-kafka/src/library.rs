//! Which librdkafka this is.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// The librdkafka that is built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its version, such as "2.12.1".
    pub version: String,
    /// What it can do, by librdkafka's own names: compression codecs, `ssl`, `sasl_scram` …
    pub features: Vec<String>,
}

impl Library {
    /// Asks librdkafka itself.
    ///
    /// # Errors
    /// If librdkafka does not know its features.
    pub fn built_in() -> Result<Self, KafkaError> {
        let features = ClientConfig::new()
            .create_native_config()?
            .get("builtin.features")?;
        Ok(Self {
            version: rdkafka::util::get_rdkafka_version().1,
            features: features.split(',').map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_readme_promises_is_built_in() {
        let library = Library::built_in().unwrap_or_else(|error| unreachable!("{error}"));
        for feature in [
            "gzip",
            "snappy",
            "lz4",
            "zstd",
            "ssl",
            "sasl_plain",
            "sasl_scram",
        ] {
            assert!(
                library.features.iter().any(|one| one == feature),
                "{feature}: {library:?}"
            );
        }
    }
}
