//! What happens to a node that takes part.

use std::collections::BTreeSet;
use std::sync::Arc;

use plasmon_cluster::{Map, Slot};
use plasmon_membership::adoption_news::KnownAdoptions;
use plasmon_membership::usage::UsageByLife;
use plasmon_proto::pool_adoption::AdoptionRefusal;

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
    /// The node has to stop, because others do not reach it. It says so with
    /// [`Membership::stopped`](super::Membership::stopped), and then its lease ends.
    Fenced,
    /// The nodes of the map that hold a lease and are not live.
    Waiting(BTreeSet<Slot>),
    /// The map, newer than all before; after a lost lease perhaps the same again.
    Map(Arc<Map>),
    /// What is known of adopted namespaces, newer than all before. It comes before every map that
    /// is as new.
    Adoptions(KnownAdoptions),
    /// What nodes have of namespaces that are limited, this node among them.
    Usage(Arc<UsageByLife>),
    /// An adoption is decided about.
    AdoptionAnswered {
        /// What it was asked with.
        number: u64,
        /// Why not.
        result: Result<(), AdoptionRefusal>,
    },
    /// The leader does not let the node take part, and says why.
    Refused(String),
    /// The node leads from now on.
    Leads,
    /// Something does not work now, and is tried again.
    Trouble(String),
}
