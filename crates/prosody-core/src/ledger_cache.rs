//! Hydrated ledgers of all partitions, bounded in bytes.

use std::sync::Arc;

use foldhash::fast::FixedState;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::backoff::Randomness;
use crate::event::Key;
use crate::ledger::Ledger;
use crate::ledger_writer::LedgerWriter;
use crate::record::{Generation, TopicPartition};

#[derive(Clone, PartialEq, Eq, Hash)]
struct Name {
    generation: Generation,
    topic_partition: TopicPartition,
    key: Key,
}

#[derive(Hash)]
struct NameRef<'a> {
    generation: Generation,
    topic_partition: &'a TopicPartition,
    key: &'a Key,
}

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        self.generation == name.generation
            && self.key == &name.key
            && self.topic_partition == &name.topic_partition
    }
}

/// A ledger with the weight that it had when it was taken in: the cache relies on a weight that
/// does not change.
#[derive(Clone)]
struct Weighed {
    ledger: Arc<LedgerWriter>,
    bytes: usize,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Name, Weighed> for ByBytes {
    fn weight(&self, name: &Name, weighed: &Weighed) -> u64 {
        (size_of::<Name>() + name.key.bytes().len() + weighed.bytes) as u64
    }
}

/// The ledgers that need not be read from the store. A full cache costs a read, nothing else.
pub(crate) struct LedgerCache {
    ledgers: Cache<Name, Weighed, ByBytes, FixedState>,
}

/// For the cache's own tables only; more ledgers than that may be held.
const EXPECTED_LEDGER_BYTES: usize = 512;

impl LedgerCache {
    /// Which ledgers it forgets depends on how names are hashed, and so on the randomness.
    pub(crate) fn new(bytes_max: usize, randomness: &Randomness) -> Self {
        let seed = randomness.fraction().to_bits();
        let hashing = FixedState::with_seed(seed);
        let ledgers = Cache::with(
            bytes_max / EXPECTED_LEDGER_BYTES,
            bytes_max as u64,
            ByBytes,
            hashing,
            quick_cache::sync::DefaultLifecycle::default(),
        );
        Self { ledgers }
    }

    pub(crate) fn get(
        &self,
        generation: Generation,
        topic_partition: &TopicPartition,
        key: &Key,
    ) -> Option<Arc<LedgerWriter>> {
        let name = NameRef {
            generation,
            topic_partition,
            key,
        };
        self.ledgers.get(&name).map(|weighed| weighed.ledger)
    }

    /// Takes a ledger in, or weighs it anew.
    pub(crate) fn insert(&self, generation: Generation, ledger: &Arc<LedgerWriter>) {
        let key = ledger.key();
        let name = Name {
            generation,
            topic_partition: key.partition.topic_partition.clone(),
            key: key.key.clone(),
        };
        let weighed = Weighed {
            ledger: Arc::clone(ledger),
            bytes: ledger.with(Ledger::weight),
        };
        self.ledgers.insert(name, weighed);
    }

    /// Forgets what an assignment has read.
    pub(crate) fn forget(&self, generation: Generation, topic_partition: &TopicPartition) {
        self.ledgers.retain(|name, _| {
            name.generation != generation || name.topic_partition != *topic_partition
        });
    }
}
