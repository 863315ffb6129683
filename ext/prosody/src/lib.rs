//! prosody
