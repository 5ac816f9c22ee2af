//! Keeping files of objects in memory, and dropping memory whose file is there.

use plasmon_proto::ObjectId;

use crate::effect::Effect;
use crate::event::Ticket;
use crate::objects::Objects;
use crate::ports::{Directory, Entry};
use crate::records::{HIDDEN, SPILLING};
use crate::spill::Backing;
use crate::store::Store;
use crate::work::PIECE;

impl<D: Directory> Store<D> {
    /// An object came back as this incarnation: its file stays, unless nothing is spilled any more.
    pub(crate) fn keep_file(&mut self, serial: u64, id: ObjectId, file: u64, bytes: u64) {
        if self.config.spill_bytes_max.is_some() {
            self.objects.kept.insert(serial, id, file, bytes);
        } else {
            self.objects.unspill(id, file, &mut self.out);
        }
    }

    /// Has an object that has its file already give its memory up, with the next event: this one
    /// has looked through the ledgers.
    pub(crate) fn start_leaving(&mut self, ticket: Ticket, entry: &Entry) {
        self.objects.kept.set_leaving(entry.serial, true);
        self.work.leaving.push_back(ticket);
    }

    /// Hides some of the objects that leave, and frees those that are not pinned. A
    /// daemon that ends in between leaves their files, which make them spilled objects.
    pub(crate) fn go_on_leaving(&mut self) {
        if self.work.leaving.is_empty() || !self.work.may_look() {
            return;
        }
        let (piece, is_any_deleted) = self.leaving_piece();
        self.objects.hide(&piece);
        let serials: Vec<u64> = piece.iter().map(|entry| entry.serial).collect();
        if !serials.is_empty() {
            let pins = self.look(&serials).pins;
            for (entry, pins) in piece.iter().zip(pins) {
                if pins > 0 {
                    self.objects.show(entry);
                } else if let Some(kept) = self.objects.kept.remove(entry.serial) {
                    self.enter_tier(entry, kept.file, Backing::File);
                } else if let Some(record) = self.objects.durable.take(entry.serial) {
                    self.enter_tier(entry, entry.serial, Backing::Log(record.lsn));
                }
            }
        }
        if is_any_deleted {
            self.collect_fresh();
        }
        self.retry_waiting_for_room();
    }

    /// Those that are looked for together. What other objects hold, or holds others, is looked for
    /// on its own: whether it may go depends on what went before it.
    fn leaving_piece(&mut self) -> (Vec<Entry>, bool) {
        let (mut piece, mut is_any_deleted) = (Vec::new(), false);
        while piece.len() < PIECE
            && let Some(ticket) = self.work.leaving.front().copied()
        {
            let Some(record) = self.objects.tier.leaving(ticket) else {
                self.work.leaving.pop_front();
                continue;
            };
            let extras = self.objects.extras_of(record);
            let is_bound = extras
                .is_some_and(|extras| extras.holders > 0 || !extras.attributes.members.is_empty());
            let is_in_use = extras.is_some_and(|extras| extras.is_in_use());
            if is_bound && !piece.is_empty() {
                break;
            }
            self.work.leaving.pop_front();
            self.objects.tier.end_leaving(ticket);
            let entry = self.objects.entry(record);
            self.objects.kept.set_leaving(entry.serial, false);
            self.objects.records.get_mut(record).flags &= !SPILLING;
            if self.objects.records.get(record).is(HIDDEN) {
                self.objects.deferred_frees.look_again(entry.serial);
                is_any_deleted = true;
            } else if is_in_use {
                self.objects.enlist(record);
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

impl<D: Directory> Objects<D> {
    /// An object in memory ended, and its file with it.
    pub(crate) fn drop_file(&mut self, serial: u64, out: &mut Vec<Effect>) {
        if !self.kept.is_empty()
            && let Some(kept) = self.kept.remove(serial)
        {
            self.unspill(kept.id, kept.file, out);
        }
    }

    /// Removes files whose objects are in memory until this many bytes of the tier are free for
    /// others. False when not even all of them are enough; then they stay.
    pub(crate) fn spare_files(&mut self, bytes: u64, out: &mut Vec<Effect>) -> bool {
        if self.kept.spare_bytes() < bytes {
            return false;
        }
        self.drop_files(bytes, out);
        true
    }

    /// The same as far as that goes, after the tier refused to take this many bytes. False when
    /// none was removed.
    pub(crate) fn drop_files(&mut self, bytes: u64, out: &mut Vec<Effect>) -> bool {
        let until = self.kept.spare_bytes().saturating_sub(bytes);
        let mut is_any = false;
        while self.kept.spare_bytes() > until
            && let Some(serial) = self.kept.oldest()
        {
            self.drop_file(serial, out);
            is_any = true;
        }
        is_any
    }
}
