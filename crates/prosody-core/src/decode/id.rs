//! Idempotence ids and the hashes that are stored of them.

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
    let decimal;
    let (kind, text) = match id {
        IdempotenceId::Integer(integer) => {
            decimal = integer.to_string();
            (b'i', decimal.as_str())
        }
        IdempotenceId::BigInteger(digits) => (b'i', &**digits),
        IdempotenceId::String(text) => (b's', &**text),
    };
    let version_length = (version.len() as u64).to_le_bytes();
    let parts = [
        &version_length[..],
        version.as_bytes(),
        &[kind],
        text.as_bytes(),
    ];
    xxh3_128(&parts.concat())
}

/// The hash by which a skipped message's content is compared with the one that was handled.
///
/// XXH3-64 (seed 0) of the payload's bytes. Stored beside marks, so this never changes.
pub fn content_hash(payload: &[u8]) -> u64 {
    xxh3_64(payload)
}
