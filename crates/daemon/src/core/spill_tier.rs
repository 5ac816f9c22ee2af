//! The spill tier as the core sees it: its folder's lock, its fault, and the files that the core
//! waits for.
//!
//! While files are being removed, the control page lists those that count for nothing, so that a
//! daemon that is started meanwhile does not take one for an object.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use plasmon_spill::FolderLock;
use plasmon_store::Ticket;

/// The spill tier.
#[derive(Debug)]
pub(super) struct Tier {
    /// The lock on the folder, where there is one.
    pub(super) lock: Option<FolderLock>,
    /// Why the tier cannot be used; empty when it can.
    pub(super) fault: String,
    /// Files on their way out.
    pub(super) removals: Removals,
    /// Files opened for clients, until the store says to whom they go.
    pub(super) opened: BTreeMap<Ticket, OwnedFd>,
}

impl Tier {
    /// A tier whose files all rest.
    pub(super) fn new(lock: Option<FolderLock>, fault: String) -> Self {
        Self { lock, fault, removals: Removals::default(), opened: BTreeMap::new() }
    }
}

/// How many files are being removed.
#[derive(Debug, Default)]
pub(super) struct Removals {
    under_way: u64,
    /// Whether any could not be removed.
    any_left: bool,
}

impl Removals {
    /// One more is to be removed.
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One was removed, or could not be. True when none is left.
    pub(super) fn end(&mut self, is_gone: bool) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.any_left |= !is_gone;
        self.under_way == 0 && !self.any_left
    }

    /// Those that could not be removed are looked for again.
    pub(super) fn forgive(&mut self) {
        self.any_left = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_stay_while_a_file_may_be_there() {
        let mut removals = Removals::default();
        removals.begin();
        removals.begin();
        assert!(!removals.end(true), "one is under way");
        assert!(removals.end(true));
        removals.begin();
        assert!(!removals.end(false), "it is still there");
        removals.begin();
        assert!(!removals.end(true), "the one before, too");
        removals.forgive();
        removals.begin();
        assert!(removals.end(true));
    }
}
