//! Files of the spill tier that are on their way out. While there are any, the control page lists
//! those that count for nothing, so that a daemon that is started meanwhile does not take one for
//! an object.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use plasmon_store::Ticket;

/// Files of the spill tier that the core waits for.
#[derive(Debug, Default)]
pub(super) struct SpillFiles {
    /// On their way out.
    pub(super) removals: Removals,
    /// Opened for clients, until the store says to whom they go.
    pub(super) opened: BTreeMap<Ticket, OwnedFd>,
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
