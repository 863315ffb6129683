//! prosody-client
