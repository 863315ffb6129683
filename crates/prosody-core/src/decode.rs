//! Decides once, before a handler starts, whether a record decodes, and finds in the same pass
//! what the journey needs of it.
//!
//! What is accepted here is what Ruby's `JSON.parse(text, max_nesting: 100)` reads without error,
//! and stricter where that parser is lax (comments, `NaN`, lone surrogates): a payload that
//! decodes never fails later.
//!
//! `serde_json` checks the syntax without building values. It leaves unchecked, where it skips a
//! value, how deep that value nests and whether its surrogate escapes pair up; [`lexical_fault`]
//! does that, and runs only for payloads with enough brackets or with a backslash.

mod id;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

pub use self::id::{IdempotenceId, content_hash, mark_hash};
use crate::record::Record;

/// The longest key in bytes: a key is part of a row's primary key, which Cassandra bounds at
/// 65,535 bytes together with the other parts.
pub const KEY_BYTES_MAX: usize = 60_000;

/// The deepest nesting of arrays and objects: what Ruby's parser accepts by default.
pub const NESTING_MAX: usize = 100;

/// What to look for in a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// `idempotence_field`: the name under which a payload has its id; `None` looks for none.
    pub id_field: Option<String>,
    /// Whether the payload's `type` matters: `allowed_events` is set.
    pub type_wanted: bool,
}

/// What the journey needs of a record that decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'record> {
    /// The key; empty for a record without key.
    pub key: &'record str,
    /// The payload's idempotence id, if it is an object with a String or Integer there.
    pub id: Option<IdempotenceId>,
    /// The payload's `type`, if it was wanted and is a String.
    pub event_type: Option<Cow<'record, str>>,
}

/// Why a record does not decode. The text never repeats any of the record's content.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Undecodable {
    /// The key is not UTF-8.
    #[error("the key is not UTF-8 (byte {at})")]
    KeyNotUtf8 {
        /// The first byte that is wrong, counted from 0.
        at: usize,
    },
    /// The key is longer than [`KEY_BYTES_MAX`].
    #[error("the key has {length} bytes, more than {KEY_BYTES_MAX}")]
    KeyTooLong {
        /// Its bytes.
        length: usize,
    },
    /// The payload is there and has no bytes.
    #[error("the payload has zero bytes, which is neither JSON nor a tombstone")]
    PayloadEmpty,
    /// The payload is not UTF-8.
    #[error("the payload is not UTF-8 (byte {at})")]
    PayloadNotUtf8 {
        /// The first byte that is wrong, counted from 0.
        at: usize,
    },
    /// The payload is not JSON.
    #[error("the payload is not JSON: {what} (byte {at})")]
    NotJson {
        /// What the parser found, such as "expected value".
        what: String,
        /// The byte at which it was found, counted from 0.
        at: usize,
    },
    /// Arrays and objects nest deeper than [`NESTING_MAX`].
    #[error("the payload nests deeper than {NESTING_MAX} levels (byte {at})")]
    TooDeep {
        /// The bracket that is too deep, counted from 0.
        at: usize,
    },
    /// An escape is one half of a surrogate pair without the other.
    #[error("the payload has a lone surrogate escape (byte {at})")]
    LoneSurrogate {
        /// The escape's backslash, counted from 0.
        at: usize,
    },
}

/// Decodes a record's key and payload.
///
/// # Errors
///
/// [`Undecodable`] says what is wrong and where; such a record is a permanent failure.
pub fn decode<'record>(
    record: &'record Record,
    options: &DecodeOptions,
) -> Result<Decoded<'record>, Undecodable> {
    let key = decode_key(record.key.as_deref().unwrap_or_default())?;
    let found = match &record.payload {
        None => Found::default(),
        Some(payload) => decode_payload(payload, options)?,
    };
    Ok(Decoded {
        key,
        id: found.id,
        event_type: found.event_type,
    })
}

fn decode_key(key: &[u8]) -> Result<&str, Undecodable> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Undecodable::KeyTooLong { length: key.len() });
    }
    std::str::from_utf8(key).map_err(|error| Undecodable::KeyNotUtf8 {
        at: error.valid_up_to(),
    })
}

fn decode_payload<'payload>(
    payload: &'payload [u8],
    options: &DecodeOptions,
) -> Result<Found<'payload>, Undecodable> {
    if payload.is_empty() {
        return Err(Undecodable::PayloadEmpty);
    }
    let text = std::str::from_utf8(payload).map_err(|error| Undecodable::PayloadNotUtf8 {
        at: error.valid_up_to(),
    })?;
    if let Some(fault) = lexical_fault(payload) {
        return Err(fault);
    }
    read_json(text, options).map_err(|error| not_json(text, &error))
}

fn read_json<'payload>(
    text: &'payload str,
    options: &DecodeOptions,
) -> Result<Found<'payload>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let looks_for_any = options.id_field.is_some() || options.type_wanted;
    let found = if looks_for_any && starts_object(text) {
        deserializer.deserialize_map(TopLevel { options })?
    } else {
        deserializer.deserialize_ignored_any(IgnoredAny)?;
        Found::default()
    };
    deserializer.end()?;
    Ok(found)
}

fn starts_object(text: &str) -> bool {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    text.bytes().find(|byte| !blank(byte)) == Some(b'{')
}

#[derive(Default)]
struct Found<'payload> {
    id: Option<IdempotenceId>,
    event_type: Option<Cow<'payload, str>>,
}

struct TopLevel<'options> {
    options: &'options DecodeOptions,
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Found::default();
        while let Some(field) = map.next_key_seed(FieldSeed(self.options))? {
            if !field.is_id && !field.is_type {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&'de RawValue>()?.get();
            if field.is_id {
                found.id = read_id(value);
            }
            if field.is_type {
                found.event_type = read_string(value);
            }
        }
        Ok(found)
    }
}

/// What a name at the top level stands for; it may be both.
struct Field {
    is_id: bool,
    is_type: bool,
}

struct FieldSeed<'options>(&'options DecodeOptions);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Field;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(Field {
            is_id: self.0.id_field.as_deref() == Some(name),
            is_type: self.0.type_wanted && name == "type",
        })
    }
}

fn read_id(value: &str) -> Option<IdempotenceId> {
    match value.as_bytes() {
        [b'"', ..] => {
            read_string(value).map(|text| IdempotenceId::String(text.into_owned().into()))
        }
        _ => IdempotenceId::integer(value),
    }
}

fn read_string(value: &str) -> Option<Cow<'_, str>> {
    let within = value.strip_prefix('"')?.strip_suffix('"')?;
    if within.contains('\\') {
        serde_json::from_str(value).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(within))
    }
}

/// Finds nesting that is too deep and lone surrogate escapes.
///
/// Looks at strings and brackets only. In text that is not JSON it may find a fault or none; the
/// parser refuses such text in any case.
fn lexical_fault(text: &[u8]) -> Option<Undecodable> {
    // `[` and `{` differ in one bit.
    let openings = text.iter().filter(|byte| **byte | 0x20 == b'{').count();
    if openings <= NESTING_MAX && !text.contains(&b'\\') {
        return None;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => match skip_string(text, at + 1) {
                Ok(after) => {
                    at = after;
                    continue;
                }
                Err(fault) => return Some(fault),
            },
            b'[' | b'{' => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Some(Undecodable::TooDeep { at });
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The index after the string's closing quote; `at` is the one after its opening quote.
fn skip_string(text: &[u8], mut at: usize) -> Result<usize, Undecodable> {
    loop {
        match text.get(at) {
            None => return Ok(at),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match escaped_unit(text, at) {
                None => at += 2,
                Some(0xD800..=0xDBFF) => match escaped_unit(text, at + 6) {
                    Some(0xDC00..=0xDFFF) => at += 12,
                    _ => return Err(Undecodable::LoneSurrogate { at }),
                },
                Some(0xDC00..=0xDFFF) => return Err(Undecodable::LoneSurrogate { at }),
                Some(_) => at += 6,
            },
            Some(_) => at += 1,
        }
    }
}

/// The UTF-16 unit of a `\uXXXX` that stands at `at`.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

fn not_json(text: &str, error: &serde_json::Error) -> Undecodable {
    let message = error.to_string();
    let what = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(what, _)| what);
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(0, |(newline, _)| newline + 1),
    };
    Undecodable::NotJson {
        what: what.to_owned(),
        at: (line_start + error.column()).saturating_sub(1),
    }
}
