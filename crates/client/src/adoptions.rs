//! The namespaces that this process has adopted: it is their parent, for every daemon that comes.
//!
//! Those of a pool the pool remembers, and may have ended by then: no daemon is told of them again.
//! A client that disconnects ends them, because its session may live on with what it reads.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::Request;

/// The adopted namespaces, with their limits in bytes.
#[derive(Debug, Default)]
pub(crate) struct Adoptions(Mutex<BTreeMap<String, u64>>);

impl Adoptions {
    /// The daemon has accepted the adoption.
    pub(crate) fn insert(&self, namespace: &str, bytes_max: u64) {
        self.lock().insert(namespace.to_owned(), bytes_max);
    }

    /// The process has ended an adoption.
    pub(crate) fn remove(&self, namespace: &str) {
        self.lock().remove(namespace);
    }

    /// Tells a daemon that may be another one which namespaces are this process's. It reads that
    /// before the end of this connection, so there is no need to wait for the answers.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let request = |(namespace, bytes_max): (&String, &u64)| Request::Adopt {
            namespace: namespace.clone(),
            bytes_max: *bytes_max,
        };
        self.lock().iter().filter(|(namespace, _)| !is_pooled(namespace)).map(request).collect()
    }

    /// The namespaces of a pool, which end now.
    pub(crate) fn take_pooled(&self) -> Vec<String> {
        let mut adopted = self.lock();
        let pooled: Vec<String> = adopted.keys().filter(|it| is_pooled(it)).cloned().collect();
        adopted.retain(|namespace, _| !is_pooled(namespace));
        pooled
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_pooled(namespace: &str) -> bool {
    namespace.starts_with(POOLED_PREFIX)
}
