//! Files of the spill tier whose objects are in memory again.
//!
//! An object is immutable, so its file stays right after the object came back. It is kept: to spill
//! the object once more then takes no write, its memory is just dropped.
//!
//! ```text
//!     spilled --(restored)--> in memory, file kept --(chosen to go)--> hidden, looked for
//!        ^                        |          ^                               |
//!        |                        |          +------------ pinned -----------+
//!        |   deleted, or no room in the tier: the file is removed            |
//!        +---------------------------- unpinned -----------------------------+
//! ```
//!
//! Kept files count against the tier's budget and are the first to go when it is short, the one
//! that came back longest ago before the others: what has stayed in memory since then is in use,
//! and will be spilled last.
//!
//! Only the daemon that restored an object knows that the file is the object's. The next one finds
//! the id in memory and removes the file, as it does with every file whose object it has already.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

use crate::event::Ticket;
use crate::ports::{Directory, Entry};
use crate::records::{HIDDEN, SPILLING};
use crate::store::Store;
use crate::work::PIECE;

/// The file of one object in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) id: ObjectId,
    /// The incarnation that the file is named by, which is not the one in memory.
    pub(crate) file: u64,
    /// Bytes of the object in the file.
    pub(crate) bytes: u64,
    /// The object is about to give its memory up.
    leaving: bool,
}

/// All such files, by the incarnation of the object in memory: in the order in which they came
/// back.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles {
    files: BTreeMap<u64, Kept>,
    bytes: u64,
    leaving_bytes: u64,
}

impl KeptFiles {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of those that may be removed.
    fn spare_bytes(&self) -> u64 {
        self.bytes - self.leaving_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether the object of this incarnation has one.
    pub(crate) fn contains(&self, serial: u64) -> bool {
        self.files.contains_key(&serial)
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &Kept)> {
        self.files.iter()
    }

    fn insert(&mut self, serial: u64, id: ObjectId, file: u64, bytes: u64) {
        self.bytes += bytes;
        self.files.insert(serial, Kept { id, file, bytes, leaving: false });
    }

    fn remove(&mut self, serial: u64) -> Option<Kept> {
        let kept = self.files.remove(&serial)?;
        self.bytes -= kept.bytes;
        if kept.leaving {
            self.leaving_bytes -= kept.bytes;
        }
        Some(kept)
    }

    fn set_leaving(&mut self, serial: u64, leaving: bool) {
        if let Some(kept) = self.files.get_mut(&serial).filter(|kept| kept.leaving != leaving) {
            kept.leaving = leaving;
            if leaving {
                self.leaving_bytes += kept.bytes;
            } else {
                self.leaving_bytes -= kept.bytes;
            }
        }
    }

    /// The one to remove first.
    fn oldest(&self) -> Option<u64> {
        self.files.iter().find(|(_, kept)| !kept.leaving).map(|(serial, _)| *serial)
    }
}

impl<D: Directory> Store<D> {
    /// An object came back as this incarnation: its file stays, unless nothing is spilled any more.
    pub(crate) fn keep_file(&mut self, serial: u64, id: ObjectId, file: u64, bytes: u64) {
        if self.config.spill_bytes_max.is_some() {
            self.kept.insert(serial, id, file, bytes);
        } else {
            self.unspill(id, file);
        }
    }

    /// An object in memory ended, and its file with it.
    pub(crate) fn drop_file(&mut self, serial: u64) {
        if !self.kept.is_empty()
            && let Some(kept) = self.kept.remove(serial)
        {
            self.unspill(kept.id, kept.file);
        }
    }

    /// Removes files whose objects are in memory until so many bytes of the tier are free for
    /// others. False when not even all of them are enough; then they stay.
    pub(crate) fn spare_files(&mut self, bytes: u64) -> bool {
        if self.kept.spare_bytes() < bytes {
            return false;
        }
        self.drop_files(bytes);
        true
    }

    /// The same as far as that goes, after the tier refused to take so many bytes. False when none
    /// was removed.
    pub(crate) fn drop_files(&mut self, bytes: u64) -> bool {
        let until = self.kept.spare_bytes().saturating_sub(bytes);
        let mut is_any = false;
        while self.kept.spare_bytes() > until
            && let Some(serial) = self.kept.oldest()
        {
            self.drop_file(serial);
            is_any = true;
        }
        is_any
    }

    /// Has an object that has its file already give its memory up, with the next event: this one
    /// has looked through the ledgers.
    pub(crate) fn start_leaving(&mut self, ticket: Ticket, entry: &Entry) {
        self.kept.set_leaving(entry.serial, true);
        self.work.leaving.push_back(ticket);
    }

    /// Takes a piece of the objects that leave out of sight, and frees those that nobody pins. A
    /// daemon that ends in between leaves their files, which make them spilled objects.
    pub(crate) fn go_on_leaving(&mut self) {
        if self.work.leaving.is_empty() || !self.work.may_look() {
            return;
        }
        let (piece, is_any_deleted) = self.leaving_piece();
        self.hide(&piece);
        let serials: Vec<u64> = piece.iter().map(|entry| entry.serial).collect();
        if !serials.is_empty() {
            let pins = self.look(&serials).pins;
            for (entry, pins) in piece.iter().zip(pins) {
                if pins > 0 {
                    self.show(entry);
                } else if let Some(kept) = self.kept.remove(entry.serial) {
                    self.enter_tier(entry, kept.file);
                }
            }
        }
        if is_any_deleted {
            self.collect_fresh();
        }
        self.feed_starving();
    }

    /// Those that are looked for together. What other objects hold, or holds others, is looked for
    /// on its own: whether it may go depends on what went before it.
    fn leaving_piece(&mut self) -> (Vec<Entry>, bool) {
        let (mut piece, mut is_any_deleted) = (Vec::new(), false);
        while piece.len() < PIECE
            && let Some(ticket) = self.work.leaving.front().copied()
        {
            let Some(record) = self.tier.leaving(ticket) else {
                self.work.leaving.pop_front();
                continue;
            };
            let rare = self.rare_of(record);
            let is_bound =
                rare.is_some_and(|rare| rare.holders > 0 || !rare.attributes.members.is_empty());
            let is_in_use = rare.is_some_and(|rare| rare.is_in_use());
            if is_bound && !piece.is_empty() {
                break;
            }
            self.work.leaving.pop_front();
            self.tier.end_leaving(ticket);
            let entry = self.entry(record);
            self.kept.set_leaving(entry.serial, false);
            self.records.get_mut(record).flags &= !SPILLING;
            if self.records.get(record).is(HIDDEN) {
                self.lingering.look_again(entry.serial);
                is_any_deleted = true;
            } else if is_in_use {
                self.enlist(record);
            } else {
                piece.push(entry);
                if is_bound {
                    break;
                }
            }
        }
        (piece, is_any_deleted)
    }
}
