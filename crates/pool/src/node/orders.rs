//! What primaries tell a node about its copies.

use plasmon_cluster::{Epoch, Map, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use super::{CommitResult, Node};
use crate::event::{Class, Refusal, Told};
use crate::message::{HoldOutcome, Message};
use crate::pull::Wish;
use crate::record::Birth;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// What the primary of an id tells a node that has or shall have a copy. One that led the
    /// group before is not obeyed, nor one that knows a newer map: it says it again. That a copy
    /// may be evicted is not answered and not said again, so the node that still leads is obeyed
    /// with any map: what it says comes in order, and another one would have asked what is here.
    pub(super) fn order(&mut self, now: Mono, (from, epoch): (Slot, Epoch), message: Message) {
        let (Message::Hold { id, .. }
        | Message::Publish { id, .. }
        | Message::Drop { id, .. }
        | Message::Noted { id, .. }
        | Message::RemoveTombstone { id, .. }
        | Message::Discard { id, .. }
        | Message::Release { id, .. }) = message
        else {
            return;
        };
        let since = self.view.group(Map::group_of(&id)).since;
        let is_known = match message {
            Message::Release { .. } => epoch >= since || self.view.primary_of(&id) == Some(from),
            _ => (since..=self.view.epoch()).contains(&epoch),
        };
        if !is_known {
            return;
        }
        match message {
            Message::Hold { id, birth, content, sources, live } => {
                let class = if live { Class::Repair } else { Class::Replica };
                let (visible, hold, parts) = (live, true, None);
                let wish = Wish { id, birth, content, class, sources, visible, hold, parts };
                self.hold(now, wish);
            }
            Message::Publish { id, birth } => {
                self.copies.publish(&mut self.out, id, birth);
                self.pulls.publish(id, birth);
            }
            Message::Drop { id, birth, existed } => self.drop_copy(now, id, birth, existed),
            Message::Release { id, birth } => self.release(id, birth),
            Message::Noted { id, birth } => self.copies.noted(&id, birth),
            Message::RemoveTombstone { id, birth } => self.remove_tombstone(now, id, birth),
            Message::Discard { id, birth } => self.discard(now, id, birth),
            _ => {}
        }
    }

    fn hold(&mut self, now: Mono, wish: Wish) {
        let (id, birth) = (wish.id, wish.birth);
        let is_own = birth.slot == self.view.me() && birth.boot == self.view.config.boot;
        let outcome = match (self.copies.get(&id), self.pulls.get(&id)) {
            (Some(copy), _) if copy.birth == birth && self.copies.is_damaged(&id) => {
                HoldOutcome::Damaged
            }
            (Some(copy), _) if copy.birth == birth => {
                let is_cache = copy.content.keeping == Keeping::Cache;
                let (kept, is_sealing) = (copy.kept, self.copies.is_sealing(&id));
                let logs = self.view.logs(birth, &copy.content);
                let is_lasting = copy.is_lasting(&self.view);
                if wish.visible {
                    self.copies.publish(&mut self.out, id, birth);
                }
                match (kept, is_sealing) {
                    // It is answered when the store has sealed it.
                    (true, true) => return,
                    // A copy that is in the log is never evicted.
                    _ if logs && is_lasting => HoldOutcome::Held,
                    _ if logs => return self.out.tell(Told::Log { id, birth }),
                    (true, false) if id.home().is_some() => HoldOutcome::Held,
                    // It may be evicted.
                    (false, _) if is_cache => HoldOutcome::Held,
                    // The store may just have evicted it.
                    _ => return self.out.tell(Told::Keep { id, birth }),
                }
            }
            // Also where a later put of the id has come since.
            _ if is_own && !wish.visible && self.refusals.has(id, birth) => HoldOutcome::Withdrawn,
            // One store has one object of an id.
            (Some(_), _) => HoldOutcome::NoRoom,
            // Clients of other nodes may have seen it: the other holders decide.
            (None, _) if is_own && !wish.visible => HoldOutcome::Absent,
            (None, None) if wish.sources.is_empty() => HoldOutcome::Absent,
            (None, _) => {
                let is_moving = self.pulls.is_moving(now, &id, birth);
                match self.pulls.begin(context!(self, now), wish) {
                    true if is_moving => HoldOutcome::Arriving,
                    true => return,
                    false => HoldOutcome::NoRoom,
                }
            }
        };
        self.send_held(now, id, birth, outcome);
    }

    fn drop_copy(&mut self, now: Mono, id: ObjectId, birth: Birth, existed: bool) {
        self.end_openers(now, id, birth, existed);
        let result = if existed { Ok(()) } else { Err(Refusal::NotEnoughNodes) };
        if self.commit_dropped(now, (id, birth), result) && !existed {
            self.refusals.note(id, birth);
        }
        if self.pulls.get(&id).is_some_and(|wish| wish.birth == birth) {
            self.pulls.cancel(context!(self, now), id);
        }
        if self.copies.of(&id, birth).is_some() {
            if existed {
                self.notices.ended(context!(self, now), id, birth);
            }
            self.out.tell(Told::Drop { id, birth });
        } else {
            self.send_gone(now, id, birth);
        }
    }

    /// The commit of a copy that is about to be dropped ends, if it is under way: a client waits
    /// for it, and the store does not ask again. Whether it was under way.
    pub(super) fn commit_dropped(
        &mut self,
        now: Mono,
        (id, birth): (ObjectId, Birth),
        result: CommitResult,
    ) -> bool {
        let was_asked = self.requests.end_commit(id, birth);
        if was_asked {
            self.out.tell(Told::Committed { id, serial: birth.serial, result });
            self.notices.committed(context!(self, now), id, birth, result.is_ok());
        }
        was_asked
    }
}
