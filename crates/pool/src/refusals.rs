//! The commits of this node that primaries have refused.
//!
//! A primary may accept what is an old message of an origin that has been refused already, and
//! another primary may find the record of that. The origin says then that the object can never
//! exist. It says so of what it knows to be refused alone: of a commit that ended without an
//! answer, or that an earlier start of this pool daemon asked for, clients of other nodes may have
//! seen the object, and its holders decide.

use std::collections::{BTreeSet, VecDeque};

use plasmon_proto::ObjectId;

use crate::limits::REFUSALS_MAX;
use crate::record::Birth;

/// What was refused, as far as it is remembered.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    known: BTreeSet<(ObjectId, Birth)>,
    /// The same, the newest last.
    order: VecDeque<(ObjectId, Birth)>,
}

impl Refusals {
    /// A commit was refused.
    pub(crate) fn note(&mut self, id: ObjectId, birth: Birth) {
        if !self.known.insert((id, birth)) {
            return;
        }
        self.order.push_back((id, birth));
        if self.order.len() > REFUSALS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether this incarnation is known to be refused.
    pub(crate) fn has(&self, id: ObjectId, birth: Birth) -> bool {
        self.known.contains(&(id, birth))
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;

    use super::*;

    #[test]
    fn so_many_are_remembered_and_then_the_oldest_is_forgotten() {
        let (id, mut refusals) = (ObjectId::pooled([1; 12], None), Refusals::default());
        let birth = |serial| Birth { slot: Slot(0), boot: 1, serial };
        for serial in 0..REFUSALS_MAX as u64 {
            refusals.note(id, birth(serial));
            refusals.note(id, birth(0));
        }
        assert!(refusals.has(id, birth(0)) && !refusals.has(id, birth(REFUSALS_MAX as u64)));
        refusals.note(id, birth(REFUSALS_MAX as u64));
        assert!(!refusals.has(id, birth(0)) && refusals.has(id, birth(1)));
        assert!(refusals.has(id, birth(REFUSALS_MAX as u64)));
        assert_eq!(refusals.known.len(), REFUSALS_MAX);
    }
}
