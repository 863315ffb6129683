//! Makes the store that the configuration names.

use std::sync::Arc;

use prosody_core::store::{MemoryStore, Store};

use crate::client::ClientError;
use crate::settings::StoreKind;

/// Makes the store, or says why not and what to do.
pub(crate) fn make(kind: Option<StoreKind>) -> Result<Arc<dyn Store>, ClientError> {
    match kind {
        Some(StoreKind::Memory) => Ok(memory()),
        Some(StoreKind::Local) => Err(not_yet("local")),
        Some(StoreKind::Cassandra) => Err(not_yet("cassandra")),
        None => Err(ClientError::Misconfigured(
            "store is not configured: give `mock: true` (tests and demos), `store: :memory` (state \
             ends with the process), `store: :local` with `store_dir` (one process), or \
             `cassandra_nodes` (any number of processes)"
                .to_owned(),
        )),
    }
}

fn not_yet(store: &str) -> ClientError {
    ClientError::Misconfigured(format!(
        "store {store:?} is not part of this version of prosody yet (see README, \"What comes \
         later\"); it never falls back to memory by itself: give `store: :memory` to keep state in \
         this process only"
    ))
}

#[cfg(not(feature = "hostile-store"))]
fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[cfg(feature = "hostile-store")]
fn memory() -> Arc<dyn Store> {
    use prosody_core::backoff::Randomness;
    use prosody_core::store::hostile::HostileStore;

    let randomness = Randomness::from_entropy();
    Arc::new(HostileStore::new(Arc::new(MemoryStore::new()), randomness))
}
