//! Whose bytes count against which quota.
//!
//! A quota is of a process and not of its connection: what a session made stays charged when the
//! session ends, for as long as it is there. All processes of a user who does not own the store are
//! one, because such a user can start as many as it likes.

use std::collections::BTreeMap;

use crate::event::Peer;

/// The account that is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    uid: u32,
    /// `None` for all processes of the user.
    pid: Option<u32>,
}

impl Owner {
    /// The account of a client of a store of this user, if that is known.
    pub(crate) fn of(peer: &Peer, owner_uid: Option<u32>) -> Self {
        let is_foreign = owner_uid.is_some_and(|uid| uid != peer.uid);
        Self { uid: peer.uid, pid: (!is_foreign).then_some(peer.pid) }
    }
}

/// What every owner has.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    bytes: BTreeMap<Owner, u64>,
    /// Sessions that ended and left something.
    ended: BTreeMap<u32, (Owner, u64)>,
}

impl Accounts {
    /// What the owner has.
    pub(crate) fn bytes(&self, owner: Owner) -> u64 {
        self.bytes.get(&owner).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, owner: Owner, bytes: u64) {
        if bytes > 0 {
            let account = self.bytes.entry(owner).or_default();
            *account = account.saturating_add(bytes);
        }
    }

    pub(crate) fn subtract(&mut self, owner: Owner, bytes: u64) {
        if let Some(account) = self.bytes.get_mut(&owner) {
            *account = account.saturating_sub(bytes);
            if *account == 0 {
                self.bytes.remove(&owner);
            }
        }
    }

    /// A session ended; what it had stays charged.
    pub(crate) fn end(&mut self, session: u32, owner: Owner, bytes: u64) {
        if bytes > 0 {
            self.ended.insert(session, (owner, bytes));
        }
    }

    /// Something of a session that ended is back in memory. Where nothing else of it was left, it
    /// is not known any more whose it was.
    pub(crate) fn own(&mut self, session: u32, bytes: u64) {
        if let Some((owner, left)) = self.ended.get_mut(&session) {
            *left = left.saturating_add(bytes);
            let owner = *owner;
            self.add(owner, bytes);
        }
    }

    /// Something of a session that ended is gone.
    pub(crate) fn uncharge(&mut self, session: u32, bytes: u64) {
        let Some((owner, left)) = self.ended.get_mut(&session) else { return };
        let owner = *owner;
        let gone = bytes.min(*left);
        *left -= gone;
        if *left == 0 {
            self.ended.remove(&session);
        }
        self.subtract(owner, gone);
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn ended(&self) -> impl Iterator<Item = (u32, u64)> {
        self.ended.iter().map(|(session, (_, bytes))| (*session, *bytes))
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn total(&self) -> u64 {
        self.bytes.values().sum()
    }
}
