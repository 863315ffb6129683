#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

const HOUR_MS: i64 = 3_600_000;

fn position(topic: u128, leader_epoch: i32, offset: i64) -> Position {
    Position {
        topic_id: TopicId(topic),
        leader_epoch,
        offset,
    }
}

fn fingerprint(position: Position, id: Option<u64>) -> Fingerprint {
    let id = id.map(|id| (u128::from(id), id * 7));
    Fingerprint { position, id }
}

fn cell(name: &str, coordinate: &[u8]) -> Coordinate {
    Coordinate::Cell {
        collection: Arc::from(name),
        coordinate: Bytes::copy_from_slice(coordinate),
    }
}

/// A ledger and the rows that the store has of it.
#[derive(Default)]
struct Kept {
    ledger: Ledger,
    rows: Rows,
}

impl Kept {
    fn commit(&mut self, transaction: Transaction) {
        transaction.apply_to(&mut self.rows);
        self.ledger.apply(transaction).unwrap();
    }

    fn handle(&mut self, fingerprint: &Fingerprint, expires_at_ms: i64) {
        let mut transaction = Transaction::default();
        self.ledger
            .settle_handled(&mut transaction, fingerprint, expires_at_ms);
        self.commit(transaction);
    }

    fn settle(&mut self, position: Position) {
        let mut transaction = Transaction::default();
        self.ledger.settle(&mut transaction, position);
        self.commit(transaction);
    }

    fn read_again(&mut self) {
        self.ledger = Ledger::from_rows(self.rows.clone()).unwrap();
    }

    fn marks(&self) -> usize {
        let marks = self.rows.keys();
        marks
            .filter(|row| matches!(row, Coordinate::Mark(_)))
            .count()
    }
}

#[test]
fn a_position_covers_what_lies_at_or_below_it() {
    let mut kept = Kept::default();
    kept.settle(position(1, 5, 100));
    let verdicts = [
        (position(1, 5, 100), true),
        (position(1, 5, 99), true),
        (position(1, 4, 100), true),
        (position(1, -1, 0), true),
        (position(1, 5, 101), false),
        // The offset is used again after an unclean leader election.
        (position(1, 6, 100), false),
        (position(1, 6, 3), false),
        // The topic was deleted and made again.
        (position(2, 5, 100), false),
        (position(2, 0, 0), false),
    ];
    for (place, covered) in verdicts {
        let found = kept.ledger.duplicate(&fingerprint(place, None), 0);
        let expected = covered.then_some(Duplicate::Position);
        assert_eq!(found, expected, "{place:?}");
    }
    // The one under a higher epoch moves the position, also down.
    kept.settle(position(1, 6, 3));
    let next = fingerprint(position(1, 6, 4), None);
    assert_eq!(kept.ledger.duplicate(&next, 0), None);
}

#[test]
fn a_mark_tells_whether_the_payload_is_the_same() {
    let mut kept = Kept::default();
    kept.handle(&fingerprint(position(1, 0, 0), Some(5)), HOUR_MS);
    let mut again = fingerprint(position(1, 0, 1), Some(5));
    let same = Duplicate::Id {
        content_differs: false,
    };
    assert_eq!(kept.ledger.duplicate(&again, 0), Some(same));
    again.id = again.id.map(|(hash, content)| (hash, content + 1));
    let other = Duplicate::Id {
        content_differs: true,
    };
    assert_eq!(kept.ledger.duplicate(&again, 0), Some(other));
}

#[test]
fn a_mark_that_names_the_message_itself_proves_nothing() {
    let mut kept = Kept::default();
    let own = fingerprint(position(1, 0, 10), Some(5));
    kept.handle(&own, HOUR_MS);
    // As with a retry, whose position was settled when it began to wait.
    kept.settle(position(1, 0, 3));
    assert_eq!(kept.ledger.duplicate(&own, 0), None);
    let other = fingerprint(position(1, 0, 11), Some(5));
    assert!(kept.ledger.duplicate(&other, 0).is_some());
}

#[test]
fn a_key_keeps_its_last_marks() {
    let mut kept = Kept::default();
    let count = u64::try_from(MARKS_MAX).unwrap() + 30;
    for id in 0..count {
        let place = position(1, 0, i64::try_from(id).unwrap());
        kept.handle(&fingerprint(place, Some(id)), HOUR_MS);
    }
    for read_again in [false, true] {
        if read_again {
            kept.read_again();
        }
        assert_eq!(kept.marks(), MARKS_MAX);
        assert_eq!(kept.ledger.marks.len(), MARKS_MAX);
        let after = position(1, 0, i64::try_from(count).unwrap());
        for id in 0..count {
            let found = kept.ledger.duplicate(&fingerprint(after, Some(id)), 0);
            assert_eq!(found.is_some(), id >= 30, "{id}");
        }
    }
}

#[test]
fn marks_that_the_store_has_dropped_do_not_shift_the_others() {
    let mut kept = Kept::default();
    let count = i64::try_from(MARKS_MAX).unwrap();
    for offset in 0..count {
        let id = u64::try_from(offset).unwrap();
        kept.handle(&fingerprint(position(1, 0, offset), Some(id)), HOUR_MS);
    }
    // Their time to live has passed.
    for sequence in 0..100 {
        kept.rows.remove(&Coordinate::Mark(sequence));
    }
    kept.read_again();
    for offset in count..count + 300 {
        let id = u64::try_from(offset).unwrap();
        kept.handle(&fingerprint(position(1, 0, offset), Some(id)), HOUR_MS);
    }
    assert_eq!(kept.marks(), MARKS_MAX);
    let known = kept.ledger.marks.len();
    kept.read_again();
    assert_eq!(kept.ledger.marks.len(), known);
}

#[test]
fn cells_expire_and_weigh_what_they_hold() {
    let mut kept = Kept::default();
    let empty = kept.ledger.weight();
    let mut transaction = Transaction::default();
    let content = Bytes::from_static(b"content");
    transaction.upsert(cell("a", b"1"), Row::lasting(content.clone()));
    let row = Row {
        content,
        expires_at_ms: Some(1_000),
    };
    transaction.upsert(cell("a", b"2"), row);
    kept.commit(transaction);
    assert!(kept.ledger.weight() > empty);
    assert!(kept.ledger.cell(&cell("a", b"2"), 999).is_some());
    assert!(kept.ledger.cell(&cell("a", b"2"), 1_000).is_none());
    assert!(kept.ledger.cell(&cell("a", b"1"), i64::MAX).is_some());

    let mut transaction = Transaction::default();
    transaction.delete(cell("a", b"1"));
    transaction.delete(cell("a", b"2"));
    transaction.delete(cell("a", b"never there"));
    kept.commit(transaction);
    assert_eq!(kept.ledger.weight(), empty);
}

#[test]
fn a_row_of_a_later_version_is_not_taken_for_an_empty_one() {
    let mut kept = Kept::default();
    kept.handle(&fingerprint(position(1, 0, 0), Some(5)), HOUR_MS);
    for coordinate in [Coordinate::Meta, Coordinate::Mark(0)] {
        let mut rows = kept.rows.clone();
        let row = rows.get_mut(&coordinate).unwrap();
        let mut content = row.content.to_vec();
        content[0] += 1;
        row.content = content.into();
        let read = Ledger::from_rows(rows);
        assert!(
            matches!(read, Err(EncodingError::Version { .. })),
            "{coordinate:?}"
        );
    }
}

/// One event of a key as the model sees it.
#[derive(Clone, Debug)]
enum Event {
    Handle { place: Position, id: Option<u64> },
    Settle { place: Position },
    Look { place: Position, id: Option<u64> },
    Wait { ms: i64 },
    ReadAgain,
}

fn event() -> impl Strategy<Value = Event> {
    let place = (1_u128..3, 0_i32..3, 0_i64..30)
        .prop_map(|(topic, epoch, offset)| position(topic, epoch, offset));
    let id = prop::option::of(0_u64..6);
    prop_oneof![
        4 => (place.clone(), id.clone()).prop_map(|(place, id)| Event::Handle { place, id }),
        1 => place.clone().prop_map(|place| Event::Settle { place }),
        6 => (place, id).prop_map(|(place, id)| Event::Look { place, id }),
        1 => (0..HOUR_MS).prop_map(|ms| Event::Wait { ms }),
        1 => Just(Event::ReadAgain),
    ]
}

proptest! {
    /// A list of everything that happened gives the same verdicts.
    #[test]
    fn duplicates_are_those_of_a_plain_model(events in prop::collection::vec(event(), 1..100)) {
        let mut kept = Kept::default();
        let mut now_ms = 0;
        let mut last: Option<Position> = None;
        let mut handled: Vec<(u64, Position, i64)> = Vec::new();
        for event in events {
            match event {
                Event::Handle { place, id } => {
                    kept.handle(&fingerprint(place, id), now_ms + HOUR_MS);
                    last = Some(place);
                    handled.extend(id.map(|id| (id, place, now_ms + HOUR_MS)));
                }
                Event::Settle { place } => {
                    kept.settle(place);
                    last = Some(place);
                }
                Event::Wait { ms } => now_ms += ms,
                Event::ReadAgain => kept.read_again(),
                Event::Look { place, id } => {
                    let behind = last.is_some_and(|last| {
                        last.topic_id == place.topic_id
                            && last.leader_epoch >= place.leader_epoch
                            && last.offset >= place.offset
                    });
                    let newest = handled.iter().rev().find(|(known, _, _)| Some(*known) == id);
                    let marked = newest.is_some_and(|(_, by, until)| *by != place && *until > now_ms);
                    let expected = match (behind, marked) {
                        (true, _) => Some(Duplicate::Position),
                        (false, true) => Some(Duplicate::Id { content_differs: false }),
                        (false, false) => None,
                    };
                    prop_assert_eq!(kept.ledger.duplicate(&fingerprint(place, id), now_ms), expected);
                }
            }
        }
    }

    /// What is repeated in memory is what the store has.
    #[test]
    fn memory_and_rows_are_the_same(
        changes in prop::collection::vec((0_u8..5, prop::option::of(any::<u8>())), 0..60),
        ids in prop::collection::vec(0_u64..5, 0..20)
    ) {
        let mut kept = Kept::default();
        for (number, id) in ids.iter().enumerate() {
            let place = position(1, 0, i64::try_from(number).unwrap());
            kept.handle(&fingerprint(place, Some(*id)), HOUR_MS);
        }
        for (name, value) in changes {
            let mut transaction = Transaction::default();
            match value {
                Some(value) => {
                    transaction.upsert(cell("c", &[name]), Row::lasting(vec![value].into()));
                }
                None => transaction.delete(cell("c", &[name])),
            }
            kept.commit(transaction);
        }
        let read = Ledger::from_rows(kept.rows.clone()).unwrap();
        prop_assert_eq!(&read.cells, &kept.ledger.cells);
        prop_assert_eq!(read.position, kept.ledger.position);
        prop_assert_eq!(read.next_mark, kept.ledger.next_mark);
        prop_assert_eq!(&read.mark_order, &kept.ledger.mark_order);
        prop_assert_eq!(read.weight(), kept.ledger.weight());
    }

    /// Sending a transaction again changes nothing.
    #[test]
    fn applying_twice_is_applying_once(names in prop::collection::btree_set(0_u8..20, 0..10), before in 0_u8..20) {
        let mut rows = Rows::new();
        for name in 0..before {
            rows.insert(cell("c", &[name]), Row::lasting(Bytes::from_static(b"old")));
        }
        let mut transaction = Transaction::default();
        for name in names {
            if name % 3 == 0 {
                transaction.delete(cell("c", &[name]));
            } else {
                transaction.upsert(cell("c", &[name]), Row::lasting(Bytes::from_static(b"new")));
            }
        }
        transaction.apply_to(&mut rows);
        let once = rows.clone();
        transaction.apply_to(&mut rows);
        prop_assert_eq!(once, rows);
    }
}
