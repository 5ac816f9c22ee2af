//! What happens to a node that takes part.

use std::sync::Arc;

use plasmon_cluster::Map;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The node may act until then, on [`crate::clock`].
    Lease {
        /// Milliseconds.
        until_ms: u64,
    },
    /// The lease is gone, or was not kept alive in time.
    LeaseLost,
    /// The map, newer than all before; after a lost lease perhaps the same again.
    Map(Arc<Map>),
    /// The leader does not let the node take part, and says why.
    Refused(String),
    /// The node leads from now on.
    Leads,
    /// Something does not work now, and is tried again.
    Trouble(String),
}
