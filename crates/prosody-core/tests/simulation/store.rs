//! A store that outlives its members, made of a memory store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use prosody_core::event::Key;
use prosody_core::in_process::{InProcessCluster, MemberId};
use prosody_core::ledger::{Claim, Ledger, LedgerKey, LedgerPartition, Rows, Transaction};
use prosody_core::record::{Generation, TopicPartition};
use prosody_core::store::{CommitError, MemoryStore, Store, StoreError};

use super::plan::GROUP;

/// Ledgers that stay when a claim ends.
#[derive(Default)]
pub struct Durable {
    memory: MemoryStore,
    claims: Mutex<HashMap<LedgerPartition, Claim>>,
}

impl Durable {
    fn claim_now(&self, partition: &LedgerPartition, generation: Generation) -> Claim {
        let claim = self.memory.claim(partition, generation).now_or_never();
        let claim = claim.unwrap().unwrap();
        self.claims.lock().unwrap().insert(partition.clone(), claim);
        claim
    }

    /// Ends whatever claim there is on a partition, as somebody does who then claims nothing.
    pub fn end_claim(&self, topic_partition: &TopicPartition) {
        let partition = LedgerPartition {
            group_id: GROUP.into(),
            topic_partition: topic_partition.clone(),
        };
        self.claim_now(&partition, Generation(0));
    }

    /// A ledger's rows, without a claim of one's own.
    pub fn peek(&self, topic_partition: &TopicPartition, key: &str) -> Rows {
        let partition = LedgerPartition {
            group_id: GROUP.into(),
            topic_partition: topic_partition.clone(),
        };
        let Some(claim) = self.claims.lock().unwrap().get(&partition).copied() else {
            return Rows::new();
        };
        let key = Key::new(key.to_owned().into()).unwrap();
        let name = LedgerKey { partition, key };
        let rows = self.memory.hydrate(&name, claim).now_or_never();
        rows.unwrap().unwrap()
    }

    /// The offset that a key has come to.
    pub fn position(&self, topic_partition: &TopicPartition, key: &str) -> Option<i64> {
        let ledger = Ledger::from_rows(self.peek(topic_partition, key)).unwrap();
        ledger.position().map(|position| position.offset)
    }
}

/// The durable store as one member reaches it. Its claims are proved: one by a member that does
/// not own the partition any more never counts.
pub struct DurableClient {
    pub durable: Arc<Durable>,
    pub cluster: InProcessCluster,
    pub member: MemberId,
}

impl Store for DurableClient {
    fn claim<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>> {
        async move {
            let owner = self.cluster.owner(GROUP, &partition.topic_partition);
            if owner != Some(self.member) {
                return Err(StoreError::Unavailable("claim is not proved".to_owned()));
            }
            Ok(self.durable.claim_now(partition, generation))
        }
        .boxed()
    }

    fn release<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        claim: Claim,
        _clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let present = self.durable.claims.lock().unwrap().get(partition).copied();
            if present != Some(claim) {
                return Err(StoreError::Ended);
            }
            // From now on the claim is nobody's.
            self.durable.claim_now(partition, Generation(0));
            Ok(())
        }
        .boxed()
    }

    fn hydrate<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>> {
        self.durable.memory.hydrate(ledger, claim)
    }

    fn commit<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
        transaction: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), CommitError>> {
        self.durable.memory.commit(ledger, claim, transaction)
    }
}
