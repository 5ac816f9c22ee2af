//! How long the store may show copies of free ids.
//!
//! A node without its lease does not hear that an object was deleted and its id used again. So it
//! vouches for its copies only while it holds the lease; after some time without, the store hides
//! them, and the other nodes count them as gone. A node that returns after that, or starts, asks
//! the directory about each copy before it vouches again.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;

use crate::copies::Copy;
use crate::event::Told;
use crate::limits::VOUCH_EVERY_MS;
use crate::message::Answer;
use crate::record::Birth;
use crate::time::Mono;

/// What the store is to do with a copy that was verified, before it shows it. A store forgets with
/// its daemon that a copy which came as a cached one is kept; once it is shown it could be evicted.
pub(crate) fn verdict(id: ObjectId, copy: &Copy, answer: &Answer) -> Option<Told> {
    let Copy { birth, kept, .. } = *copy;
    match answer {
        Answer::Found { birth: found, keeps, .. } if *found == birth => {
            (*keeps && !kept).then_some(Told::Keep { id, birth })
        }
        // With this copy a lost object is found again. A damaged one stays where no copy is right.
        Answer::Lost(found) | Answer::Damaged(found) if *found == birth => None,
        _ => Some(Told::Drop { id, birth }),
    }
}

#[derive(Debug)]
pub(crate) struct Vouching {
    isolated_serve_ms: u64,
    /// The last time that it vouched.
    last: Option<Mono>,
    /// Copies that the directory has not confirmed since the node was alone for long.
    unverified: BTreeSet<ObjectId>,
    is_verifying: bool,
    /// When to look again.
    due: Option<Mono>,
    vouch: bool,
    isolation: bool,
}

impl Vouching {
    pub(crate) fn new(isolated_serve_ms: u64) -> Self {
        Self {
            isolated_serve_ms,
            last: None,
            unverified: BTreeSet::new(),
            is_verifying: false,
            due: None,
            vouch: false,
            isolation: false,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.due
    }

    /// Goes on; the copies that the directory has to be asked about now.
    pub(crate) fn step(
        &mut self,
        now: Mono,
        holds_lease: bool,
        copies: impl FnOnce() -> Vec<(ObjectId, Birth)>,
    ) -> Vec<(ObjectId, Birth)> {
        let until = self.last.map(|last| last.after_ms(self.isolated_serve_ms));
        let is_isolated = until.is_none_or(|until| until <= now);
        if !holds_lease {
            self.isolation = is_isolated && self.last.take().is_some();
            // What was confirmed may end while the node is alone.
            self.is_verifying &= self.last.is_some();
            self.due = until.filter(|until| *until > now);
            return Vec::new();
        }
        if is_isolated && !self.is_verifying {
            self.isolation = self.last.take().is_some();
            self.is_verifying = true;
            let copies = copies();
            self.unverified = copies.iter().map(|(id, _)| *id).collect();
            self.finish(now);
            return copies;
        }
        self.finish(now);
        Vec::new()
    }

    fn finish(&mut self, now: Mono) {
        let is_due = self.last.is_none_or(|last| last.after_ms(VOUCH_EVERY_MS) <= now);
        if self.unverified.is_empty() && is_due {
            self.is_verifying = false;
            self.vouch = true;
            self.last = Some(now);
        }
        self.due = self.last.map(|last| last.after_ms(VOUCH_EVERY_MS));
    }

    /// The directory has confirmed a copy, or it is gone.
    pub(crate) fn verified(&mut self, id: &ObjectId) {
        self.unverified.remove(id);
    }

    /// Whether the store is to be told that it may show its copies.
    pub(crate) fn takes_vouch(&mut self) -> bool {
        std::mem::take(&mut self.vouch)
    }

    /// Whether the node has just been alone for too long.
    pub(crate) fn takes_isolation(&mut self) -> bool {
        std::mem::take(&mut self.isolation)
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;

    use super::*;

    #[test]
    fn copies_that_were_confirmed_before_the_lease_was_lost_are_asked_about_again() {
        let id = ObjectId::pooled([1; 12], None);
        let copies = vec![(id, Birth { slot: Slot(0), boot: 1, serial: 1 })];
        let mut vouching = Vouching::new(2_000);
        assert_eq!(vouching.step(Mono(1), true, || copies.clone()), copies);
        assert!(!vouching.takes_vouch());
        assert_eq!(vouching.step(Mono(2), false, || copies.clone()), []);
        vouching.verified(&id);
        assert_eq!(vouching.step(Mono(3), true, || copies.clone()), copies);
        assert!(!vouching.takes_vouch());
        vouching.verified(&id);
        assert_eq!(vouching.step(Mono(4), true, || copies.clone()), []);
        assert!(vouching.takes_vouch());
        // For some time it needs no lease.
        assert_eq!(vouching.step(Mono(5), false, || copies.clone()), []);
        assert_eq!(vouching.step(Mono(6), true, || copies.clone()), []);
    }
}
