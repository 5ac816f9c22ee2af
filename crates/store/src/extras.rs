//! The properties that only some objects have: a name, a time to live, members, holders.

use plasmon_proto::Attributes;
use plasmon_proto::object::{ObjectMeta, Policy};

use crate::content::content_bytes;

/// The rarer properties of one object in memory, kept beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) attributes: Attributes,
    /// When it deletes itself.
    pub(crate) expires_ms: Option<u64>,
    /// How often it is a member of composite objects.
    pub(crate) holders: u32,
    /// How many of these are in the spill tier, where they have no readers.
    pub(crate) holders_spilled: u32,
    /// Whether its pool keeps this copy or not, whatever its own policy is.
    pub(crate) pool_policy: Option<Policy>,
}

/// How often composites name an object that is not there, and how many of them are in the tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) holders: u32,
    pub(crate) spilled: u32,
}

impl Extras {
    /// The object is there from now on: composites that name it hold it.
    pub(crate) fn take_holds(&mut self, holds: Holds) {
        self.holders += holds.holders;
        self.holders_spilled += holds.spilled;
    }

    /// Whether a composite in memory holds it: then a client may read it without a pin on it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.holders > self.holders_spilled
    }

    /// By which policy it is treated, when this is its own.
    pub(crate) fn policy(&self, own: Policy) -> Policy {
        self.pool_policy.unwrap_or(own)
    }

    /// How many bytes count in its namespace. A copy in a pool that may be evicted, because the
    /// object is kept elsewhere, counts none: it takes no room that is wanted for anything else.
    pub(crate) fn counted_bytes(&self, meta: &ObjectMeta) -> u64 {
        let is_of_another_node = self.attributes.pool.is_some_and(|pool| pool.origin.is_some());
        let is_cache = self.policy(meta.traits.policy) != Policy::Keep
            && (is_of_another_node || self.pool_policy.is_some());
        if is_cache { 0 } else { content_bytes(&meta.sizes) }
    }

    /// The form in which it is kept: not at all where there is nothing.
    pub(crate) fn kept(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}
