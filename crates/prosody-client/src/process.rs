//! What all clients of one process share.

use std::collections::HashMap;
use std::sync::Arc;

use prosody_core::clock::{Clock, SystemClock};
use prosody_core::in_process::InProcessCluster;
use prosody_core::sync::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that carry tasks. Handlers run in Ruby, so that two suffice for what is left.
const WORKER_THREADS: usize = 2;

/// Partitions of a topic that comes into being in mock mode (spec/configuration.md).
const MOCK_PARTITIONS: i32 = 4;

/// One tokio runtime and the logs of mock mode.
///
/// It must be forgotten, not dropped, in a forked child: the runtime's threads do not exist there.
pub struct Process {
    runtime: Runtime,
    mocks: Mutex<HashMap<String, Arc<InProcessCluster>>>,
}

impl Process {
    /// Starts the runtime.
    pub fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("prosody")
            .enable_time()
            .build()?;
        Ok(Self {
            runtime,
            mocks: Mutex::default(),
        })
    }

    /// The runtime.
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The in-process log of that name.
    pub(crate) fn mock(&self, name: &str) -> Arc<InProcessCluster> {
        let mut mocks = self.mocks.lock();
        let made = mocks.entry(name.to_owned()).or_insert_with(|| {
            let now_ms = Arc::new(|| SystemClock.now_ms());
            Arc::new(InProcessCluster::new(MOCK_PARTITIONS, now_ms))
        });
        Arc::clone(made)
    }

    /// Empties every in-process log.
    pub fn reset_mock(&self) {
        let mocks: Vec<_> = self.mocks.lock().values().cloned().collect();
        for mock in mocks {
            mock.clear();
        }
    }
}
