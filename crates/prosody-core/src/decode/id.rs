//! Idempotence ids and the hashes that are stored of them.

use std::fmt::Write as _;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// What a payload calls itself: two messages of a key with equal ids are the same message.
///
/// The Integer 5 and the String "5" are different.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IdempotenceId {
    /// An Integer of 64 bits.
    Integer(i64),
    /// An Integer that does not fit 64 bits, by its decimal digits; made by
    /// [`IdempotenceId::integer`] only, so that no number has two forms.
    BigInteger(Box<str>),
    /// A String, escapes decoded.
    String(Box<str>),
}

impl IdempotenceId {
    /// Reads a JSON number without fraction and exponent; `None` for everything else. `-0` is 0,
    /// as in Ruby.
    pub fn integer(json: &str) -> Option<Self> {
        let digits = json.strip_prefix('-').unwrap_or(json);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // JSON writes an integer in one way only (no leading zeros, no plus), -0 apart.
        let id = match json.parse() {
            Ok(small) => Self::Integer(small),
            Err(_) => Self::BigInteger(json.into()),
        };
        Some(id)
    }
}

/// The name of a mark: says of a key's handled message which one it was.
///
/// XXH3-128 (seed 0) over: the version's length in bytes (64 bits, little endian), the version,
/// `i` for an Integer or `s` for a String, and the Integer's decimal digits or the String's bytes.
/// Marks are durable, so this never changes; a test holds it to known values.
pub fn mark_hash(version: &str, id: &IdempotenceId) -> u128 {
    const INTEGER_LENGTH_MAX: usize = 20;
    let text_length = match id {
        IdempotenceId::Integer(_) => INTEGER_LENGTH_MAX,
        IdempotenceId::BigInteger(text) | IdempotenceId::String(text) => text.len(),
    };
    let mut hashed = String::with_capacity(version.len() + 1 + text_length);
    hashed.push_str(version);
    match id {
        // Writing to a String does not fail.
        IdempotenceId::Integer(integer) => drop(write!(hashed, "i{integer}")),
        IdempotenceId::BigInteger(digits) => {
            hashed.push('i');
            hashed.push_str(digits);
        }
        IdempotenceId::String(text) => {
            hashed.push('s');
            hashed.push_str(text);
        }
    }
    let version_length = (version.len() as u64).to_le_bytes();
    xxh3_128(&[&version_length, hashed.as_bytes()].concat())
}

/// The hash by which a skipped message's content is compared with the one that was handled.
///
/// XXH3-64 (seed 0) of the payload's bytes. Stored beside marks, so this never changes.
pub fn content_hash(payload: &[u8]) -> u64 {
    xxh3_64(payload)
}
