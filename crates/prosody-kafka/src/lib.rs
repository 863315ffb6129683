//! prosody-kafka
