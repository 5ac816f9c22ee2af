//! Where the deletes of namespaces that have ended go on ([`super::sweeping`]).

use plasmon_proto::ObjectId;

/// Where the deletes go on.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// After this object of this namespace.
    pub(super) after: Option<(String, ObjectId)>,
    /// When to look again.
    pub(super) again_ms: Option<u64>,
    /// What the agent was last told of it: which revision is known, and which is swept.
    pub(super) told: Option<(u64, u64)>,
}

impl Sweep {
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.again_ms
    }

    /// Whether the last piece was not the last of all.
    pub(crate) fn is_under_way(&self) -> bool {
        self.after.is_some()
    }
}
