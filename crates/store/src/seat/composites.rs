//! Objects of the pool that consist of others (docs/adr/0110).
//!
//! A composite names its members by their ids, which have a home and so are never used again. The
//! store holds nothing for it: members are objects of the pool by themselves, each with its own
//! copies, and a reader asks for each of them as for any object.
//!
//! A composite may own its members. When the pool has a copy of it dropped, because it was deleted
//! or never came to exist, the store has the pool delete them:
//!
//! ```text
//! dropped ─► waiting ─(Delete)─► asked ─(Deleted)─► forgotten
//!               ▲                  │
//!               └── a second ──────┘ unreachable
//! ```
//!
//! Every node with a copy of the composite does so, and one delete does not harm another.
//!
//! A composite that is put without waiting for the pool is accepted once its members are, too: one
//! that is settled waits for them, and ends if one of them is refused.

use plasmon_proto::message::Failure;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectId};

use super::settles::Outcome;
use crate::clients::Clients;
use crate::event::ClientNo;
use crate::objects::Objects;
use crate::ports::Directory;
use crate::records::UNATTACHED;
use crate::store::Store;
use crate::work::PIECE;

/// Deletes of members that are under way at one time.
const UNDER_WAY_MAX: usize = 1024;

/// After so long what could not be deleted is deleted again.
const AGAIN_MS: u64 = 1_000;

/// Whether a composite of a pool may have these members: ids without a home can be used again, for
/// other content.
pub(super) fn are_members_of_a_pool(members: &[ObjectId]) -> bool {
    members.iter().all(|id| id.is_pooled() && id.home().is_some())
}

impl<D: Directory> Store<D> {
    /// The directory has accepted an object with a home.
    pub(super) fn accepted(&mut self, id: &ObjectId) {
        if self.seat.incomplete.remove(id) {
            self.complete(id);
        } else {
            self.settle_decided(id, None);
        }
    }

    /// Decides about a composite that was accepted, as soon as its members are decided.
    fn complete(&mut self, id: &ObjectId) {
        let Some(outcome) = self.commit_outcome(id) else { return self.await_members(id) };
        self.settle_decided(id, outcome);
        let is_here = !self.members_of(id).is_empty();
        if outcome.is_some() && is_here {
            self.delete_members(std::iter::once(*id));
        }
    }

    /// Whether the directory has accepted the members of a composite that is here: why not, or
    /// `None` while it has not decided.
    pub(super) fn outcome_of_members(&self, id: &ObjectId) -> Option<Outcome> {
        let members = self.members_of(id);
        let refusal = |id: &ObjectId| self.seat.settles.refusal_of(id);
        if let Some(code) = members.iter().find_map(refusal) {
            return Some(Some(code));
        }
        let is_waiting = members.iter().any(|id| self.seat.uncommitted.contains(id));
        (!is_waiting).then_some(None)
    }

    /// A composite is decided with its members.
    pub(super) fn await_members(&mut self, id: &ObjectId) {
        let waiting = |member: &&ObjectId| self.seat.uncommitted.contains(member);
        let members: Vec<ObjectId> = self.members_of(id).iter().filter(waiting).copied().collect();
        for member in members {
            self.seat.incomplete.by_member.entry(member).or_default().insert(*id);
        }
    }

    /// The directory has decided about an object, or it has ended: composites may have waited for
    /// that.
    pub(super) fn member_decided(&mut self, id: &ObjectId) {
        if self.seat.incomplete.by_member.is_empty() {
            return;
        }
        for composite in self.seat.incomplete.by_member.remove(id).into_iter().flatten() {
            self.complete(&composite);
        }
    }

    fn members_of(&self, id: &ObjectId) -> &[ObjectId] {
        let extras = match self.objects.find(id) {
            Some(entry) => self.objects.extras_of(entry.record),
            None => self.objects.tier.get(id).map(|spilled| &spilled.extras),
        };
        extras.map_or(&[], |extras| &extras.attributes.members)
    }

    /// Whether what a client let grow may be sealed as this object of the pool.
    pub(crate) fn check_grown_target(
        &self,
        target: &ObjectId,
        attributes: &Attributes,
        sizes: &Sizes,
    ) -> Result<(), Failure> {
        let failed = |code| Failure::of(code).with_id(*target);
        if !target.is_pooled() || target.home().is_none() || !attributes.members.is_empty() {
            return Err(failed(Code::BadRequest));
        }
        self.check_maker(target, sizes, Traits::default())?;
        attributes.check().map_err(|_| failed(Code::BadRequest))?;
        self.check_pooled(target, attributes).map_err(failed)?;
        self.sessions
            .check_name(target, attributes, sizes)
            .map_err(|code| self.refusal(code, target, attributes.name.as_ref(), sizes))?;
        let is_free = self.objects.is_free(target) && self.seat.withheld(target).is_none();
        if is_free { Ok(()) } else { Err(failed(Code::Exists)) }
    }

    /// Whether what this client let grow may be here as this object of the pool, sealed.
    pub(crate) fn may_have_sealed_as(
        &self,
        client: ClientNo,
        id: &ObjectId,
        target: &ObjectId,
    ) -> bool {
        id != target && !self.objects.is_free(target) && self.may_have_sealed(client, target)
    }

    /// The copy here of a composite ends, because the object has: its members do, if it owns them.
    pub(super) fn end_members_of(&mut self, id: &ObjectId) {
        let record = self.seat.withheld(id).map(|withheld| withheld.record);
        let record = record.or_else(|| self.objects.find(id).map(|entry| entry.record));
        let extras = match record {
            Some(record) => self.objects.extras_of(record),
            None => self.objects.tier.get(id).map(|spilled| &spilled.extras),
        };
        let Some(Attributes { members, pool: Some(pool), .. }) = extras.map(|it| &it.attributes)
        else {
            return;
        };
        if pool.owns_members {
            let members = members.clone();
            self.delete_members(members.into_iter());
        }
    }

    /// Has the pool delete members, a piece at a time.
    pub(crate) fn delete_members(&mut self, members: impl Iterator<Item = ObjectId>) {
        self.seat.orphans.waiting.extend(members);
        self.go_on_deleting_members();
    }

    /// Asks for as many deletes as may be under way.
    pub(crate) fn go_on_deleting_members(&mut self) {
        if self.seat.orphans.waiting.is_empty() || self.seat.hears().is_none() {
            return;
        }
        if self.seat.orphans.again_ms.is_some_and(|at_ms| at_ms > self.now_ms) {
            return;
        }
        self.seat.orphans.again_ms = None;
        for _ in 0..PIECE {
            if self.seat.orphans.asked.len() >= UNDER_WAY_MAX {
                return;
            }
            let Some(id) = self.seat.orphans.waiting.pop_front() else { return };
            // One that is named twice is deleted once.
            if self.seat.orphans.asked.insert(id) {
                self.forward_delete(&id);
            }
        }
    }

    /// A delete ended.
    pub(super) fn member_answered(&mut self, id: &ObjectId, outcome: Option<Code>) {
        if !self.seat.orphans.asked.remove(id) || outcome.is_none() {
            return;
        }
        self.seat.orphans.waiting.push_back(*id);
        self.seat.orphans.again_ms = Some(self.now_ms.saturating_add(AGAIN_MS));
    }
}

impl<D: Directory> Objects<D> {
    /// A composite of the pool was made of this object: it does not end with its creator any more.
    pub(crate) fn attach_member(&mut self, clients: &mut Clients, id: &ObjectId) {
        let Some(entry) = self.find(id) else { return };
        let record = self.records.get_mut(entry.record);
        if record.flags & UNATTACHED == 0 {
            return;
        }
        record.flags &= !UNATTACHED;
        let owner = record.owner;
        if let Some((_, client)) = clients.of_session_mut(owner) {
            client.unattached.remove(id);
        }
        self.enlist(entry.record);
    }
}
