//! How rows of the ledger's own sections are written: a version byte, then fixed-width fields.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::{Mark, Meta, Position};
use crate::record::TopicId;

const VERSION: u8 = 1;
const POSITION_BYTES: usize = 16 + 4 + 8;
const META_BYTES: usize = 1 + POSITION_BYTES + 8 + 8;
const MARK_BYTES: usize = 1 + 16 + POSITION_BYTES + 8;

/// A row that this version cannot read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EncodingError {
    /// Written by a later version of prosody.
    #[error(
        "{section} row of encoding version {version}; this prosody reads version {VERSION}: deploy a newer one"
    )]
    Version {
        /// Which kind of row.
        section: &'static str,
        /// The version that it names.
        version: u8,
    },
    /// Not as long as its version says.
    #[error("{section} row of {bytes} bytes, expected {expected}: the store is damaged")]
    Length {
        /// Which kind of row.
        section: &'static str,
        /// Its length.
        bytes: usize,
        /// What it should be.
        expected: usize,
    },
}

/// Writes the meta row.
pub fn encode_meta(meta: &Meta) -> Bytes {
    let mut row = BytesMut::with_capacity(META_BYTES);
    row.put_u8(VERSION);
    put_position(&mut row, &meta.position);
    row.put_u64(meta.first_mark);
    row.put_u64(meta.next_mark);
    row.freeze()
}

/// Reads the meta row.
pub fn decode_meta(row: &[u8]) -> Result<Meta, EncodingError> {
    let mut fields = fields("meta", row, META_BYTES)?;
    Ok(Meta {
        position: get_position(&mut fields),
        first_mark: fields.get_u64(),
        next_mark: fields.get_u64(),
    })
}

/// Writes the row of a mark.
pub fn encode_mark(mark: &Mark) -> Bytes {
    let mut row = BytesMut::with_capacity(MARK_BYTES);
    row.put_u8(VERSION);
    row.put_u128(mark.hash);
    put_position(&mut row, &mark.position);
    row.put_u64(mark.content_hash);
    row.freeze()
}

/// Reads the row of a mark.
pub fn decode_mark(row: &[u8]) -> Result<Mark, EncodingError> {
    let mut fields = fields("mark", row, MARK_BYTES)?;
    Ok(Mark {
        hash: fields.get_u128(),
        position: get_position(&mut fields),
        content_hash: fields.get_u64(),
    })
}

/// Writes an item of a collection.
pub fn encode_item(item: &[u8]) -> Bytes {
    let mut row = BytesMut::with_capacity(1 + item.len());
    row.put_u8(VERSION);
    row.put_slice(item);
    row.freeze()
}

/// Reads an item of a collection.
pub fn decode_item(row: &Bytes) -> Result<Bytes, EncodingError> {
    match row.first() {
        Some(&VERSION) => Ok(row.slice(1..)),
        Some(&version) => Err(EncodingError::Version {
            section: "cell",
            version,
        }),
        None => Err(EncodingError::Length {
            section: "cell",
            bytes: 0,
            expected: 1,
        }),
    }
}

fn fields<'a>(
    section: &'static str,
    row: &'a [u8],
    expected: usize,
) -> Result<&'a [u8], EncodingError> {
    let bytes = row.len();
    match row.split_first() {
        Some((&version, _)) if version != VERSION => {
            Err(EncodingError::Version { section, version })
        }
        Some((_, fields)) if bytes == expected => Ok(fields),
        _ => Err(EncodingError::Length {
            section,
            bytes,
            expected,
        }),
    }
}

fn put_position(row: &mut BytesMut, position: &Position) {
    row.put_u128(position.topic_id.0);
    row.put_i32(position.leader_epoch);
    row.put_i64(position.offset);
}

fn get_position(fields: &mut &[u8]) -> Position {
    Position {
        topic_id: TopicId(fields.get_u128()),
        leader_epoch: fields.get_i32(),
        offset: fields.get_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_what_it_wrote(topic_id: u128, leader_epoch: i32, offset: i64, first_mark: u64, next_mark: u64, hash: u128, content_hash: u64, item: Vec<u8>) {
            let position = Position { topic_id: TopicId(topic_id), leader_epoch, offset };
            let meta = Meta { position, first_mark, next_mark };
            prop_assert_eq!(decode_meta(&encode_meta(&meta)), Ok(meta));
            let mark = Mark { hash, position, content_hash };
            prop_assert_eq!(decode_mark(&encode_mark(&mark)), Ok(mark));
            prop_assert_eq!(decode_item(&encode_item(&item)), Ok(Bytes::from(item)));
        }

        #[test]
        fn refuses_what_it_did_not_write(row: Vec<u8>) {
            prop_assume!(row.first() != Some(&VERSION) || (row.len() != META_BYTES && row.len() != MARK_BYTES));
            prop_assert!(decode_meta(&row).is_err() && decode_mark(&row).is_err());
        }
    }
}
