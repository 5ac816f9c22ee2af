//! What the store of this node wants of etcd for the namespaces that its clients adopt.

use std::collections::BTreeMap;

use plasmon_cluster::adoption::Progress;

/// How long an adoption is tried.
pub(crate) const WITHIN_MS: u64 = 10_000;

/// A client of this node's store wants to adopt a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdoptionAsk {
    pub(crate) number: u64,
    pub(crate) namespace: String,
    pub(crate) session: u64,
    /// What was known in this revision counts: the client may know it.
    pub(crate) after: i64,
    pub(crate) until_ms: u64,
}

/// What this node's store says of namespaces.
#[derive(Debug, Default)]
pub(crate) struct AdoptionWishes {
    pub(crate) asks: Vec<AdoptionAsk>,
    /// Namespaces and the sessions that had adopted them. What was known in this revision counts.
    pub(crate) orphaned: BTreeMap<(String, u64), i64>,
    pub(crate) progress: Option<Progress>,
}
