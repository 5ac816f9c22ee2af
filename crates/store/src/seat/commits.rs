//! Objects of the pool that are made here.

use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::pool::{Call, Refusal, Slot};
use plasmon_proto::{Attributes, Code, ObjectId};

use super::agent::commit_of;
use super::composites::are_members_of_a_pool;
use super::{Reason, no_pool};
use crate::asker::Asker;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether a client may begin an object of this pooled id.
    pub(crate) fn check_maker(
        &self,
        id: &ObjectId,
        sizes: &Sizes,
        traits: Traits,
    ) -> Result<(), Failure> {
        if !self.config.pool {
            return Err(no_pool().with_id(*id));
        }
        let detail = match (id.home(), self.seat.here) {
            _ if traits.owned => "an object of a pool cannot be owned by a composite",
            (None, _) if sizes.attributes == 0 => {
                "its id has the mark of a pool and is not made from a name: such ids are made by \
                 names that begin with @, or by the pool itself"
            }
            (None, _) => return Ok(()),
            (Some(_), None) => {
                let detail = "the pool daemon has not said yet which node this is";
                return Err(Failure::of(Code::Unreachable).with_id(*id).with_detail(detail));
            }
            (Some(home), Some(here)) if Slot(home) == here.slot => return Ok(()),
            (Some(_), Some(_)) => {
                "its id has the mark of a pool and the number of another node: such ids are made \
                 by the pool itself"
            }
        };
        Err(Failure::of(Code::BadRequest).with_id(*id).with_detail(detail))
    }

    /// Whether an object with these attributes may be published under this id, by a client.
    pub(crate) fn check_pooled(&self, id: &ObjectId, attributes: &Attributes) -> Result<(), Code> {
        let Attributes { name, ttl_ms, members, pool, durable } = attributes;
        if !id.is_pooled() {
            if members.iter().any(ObjectId::is_pooled) {
                return Err(Code::Unsupported);
            }
            return if pool.is_none() { Ok(()) } else { Err(Code::BadRequest) };
        }
        if ttl_ms.is_some() || *durable || !are_members_of_a_pool(members) {
            return Err(Code::Unsupported);
        }
        let is_made_here = pool.is_none_or(|pool| pool.origin.is_none());
        let is_named = match id.home() {
            None => pool.is_some() && name.as_ref().is_some_and(|name| name.id() == *id),
            Some(_) => name.as_ref().is_none_or(|name| name.is_of(id)),
        };
        if is_made_here && is_named { Ok(()) } else { Err(Code::BadRequest) }
    }

    /// An object with a free id was sealed and is withheld: the seal is answered when the directory
    /// of the pool has accepted it.
    pub(crate) fn begin_commit(&mut self, id: &ObjectId, asker: Option<Asker>, request: u64) {
        self.seat.await_agent(self.now_ms);
        if let Some(withheld) = self.seat.withheld.get_mut(id) {
            withheld.reason = Reason::Committing { asker, request };
        }
        self.seat.settles.forget_refused(id);
        self.call_commit(id);
    }

    /// An object with a home was published: the directory is to know it.
    pub(crate) fn commit_homed(&mut self, id: &ObjectId) {
        let Some(entry) = self.objects.find(id) else { return };
        let serial = self.pool_attributes(entry.record).map_or(0, |pool| pool.serial);
        self.seat.settles.forget_refused(id);
        self.seat.uncommitted.add(*id, serial);
        let extras = self.objects.extras_of(entry.record);
        if extras.is_some_and(|extras| !extras.attributes.members.is_empty()) {
            self.seat.incomplete.add(*id);
        }
        self.tell_commits();
    }

    /// Has the agent commit the objects with a home that it was not told of, as many as it may have
    /// under way.
    pub(super) fn tell_commits(&mut self) {
        if self.seat.hears().is_none() {
            return;
        }
        while let Some(id) = self.seat.uncommitted.tell_next() {
            self.call_commit(&id);
        }
    }

    /// Has the agent commit this object now, if it has a home and was not told of yet: what is said
    /// of it next would be about an object that the agent does not know.
    pub(super) fn tell_commit_of(&mut self, id: &ObjectId) {
        if self.seat.hears().is_some() && self.seat.uncommitted.tell(id) {
            self.call_commit(id);
        }
    }

    /// The agent asks whether an object with a home is here.
    pub(super) fn looked(&mut self, id: &ObjectId, number: u64) {
        self.tell_commit_of(id);
        self.call(Call::Looked { id: *id, number });
    }

    /// An object with a home that an earlier daemon left, and of which is not known whether the
    /// directory has it.
    pub(crate) fn recover_homed(&mut self, id: &ObjectId, attributes: &Attributes) {
        let is_made_here = attributes.pool.is_none_or(|pool| pool.origin.is_none());
        if self.config.pool && id.home().is_some() && is_made_here {
            let serial = attributes.pool.map_or(0, |pool| pool.serial);
            self.seat.uncommitted.add(*id, serial);
            if !attributes.members.is_empty() {
                self.seat.incomplete.add(*id);
            }
        }
    }

    /// Asks the agent to commit what is here under this id.
    pub(super) fn call_commit(&mut self, id: &ObjectId) {
        let record = self.seat.withheld(id).map(|withheld| withheld.record);
        let record = record.or_else(|| self.objects.find(id).map(|entry| entry.record));
        let (meta, extras) = match (record, self.objects.tier.get(id)) {
            (Some(record), _) => (self.objects.entry(record).meta, self.objects.extras_of(record)),
            (None, Some(spilled)) => (spilled.meta, Some(&spilled.extras)),
            (None, None) => return,
        };
        let pool = extras.and_then(|extras| extras.attributes.pool);
        let Some(birth) = self.birth(id, pool) else { return };
        let call = commit_of(*id, birth, &meta, extras);
        self.call(call);
    }

    /// A commit ended.
    pub(super) fn committed(&mut self, id: &ObjectId, serial: u64, result: Result<(), Refusal>) {
        if self.seat.uncommitted.has(id, serial) {
            self.seat.uncommitted.remove(id);
            match result {
                Ok(()) => self.accepted(id),
                Err(refusal) => {
                    self.seat.incomplete.remove(id);
                    self.note_refused(id, failure_of(refusal).code);
                    self.end_homed(id);
                }
            }
            return;
        }
        let Some(withheld) = self.seat.withheld(id).copied() else { return };
        let pool = self.pool_attributes(withheld.record);
        if pool.is_none_or(|pool| pool.origin.is_some() || pool.serial != serial) {
            return;
        }
        match (result, withheld.reason) {
            (Ok(()), Reason::Committing { asker, request }) => {
                self.totals.sealed += 1;
                self.show_withheld(id);
                self.notify_sealed(id);
                self.settle_decided(id, None);
                if let Some(asker) = asker.filter(|asker| self.sessions.clients.is_asking(*asker)) {
                    self.reply(asker.client, request, Reply::Done);
                }
            }
            (Ok(()), _) => self.show_withheld(id),
            (Err(refusal), _) => self.end_commit(id, refusal),
        }
    }

    /// A commit was refused: the object ends.
    pub(super) fn end_commit(&mut self, id: &ObjectId, refusal: Refusal) {
        let Some(withheld) = self.seat.withheld(id).copied() else { return };
        self.note_refused(id, failure_of(refusal).code);
        self.end_members_of(id);
        self.end_withheld(id);
        if let Reason::Committing { asker: Some(asker), request } = withheld.reason {
            self.fail_asker(asker, request, failure_of(refusal).with_id(*id));
        }
        self.seek_again(id);
    }

    /// An object with a home was refused: it ends, as one that is deleted. Clients may have seen it
    /// (docs/adr/0095-what-a-pool-refuses-ends.md).
    fn end_homed(&mut self, id: &ObjectId) {
        self.end_members_of(id);
        match self.objects.find(id) {
            Some(entry) => self.hide_deleted(vec![entry]),
            None => self.drop_spilled(id, plasmon_proto::ObjectState::Deleted),
        }
    }

    /// The seal of an object that is being committed, asked again on another connection.
    pub(crate) fn commit_goes_on(&mut self, client: ClientNo, request: u64, id: &ObjectId) -> bool {
        let Some(again) = self.sessions.clients.asker(client) else { return false };
        let Some(withheld) = self.seat.withheld.get_mut(id) else { return false };
        match &mut withheld.reason {
            Reason::Committing { asker: Some(asker), request: asked }
                if asker.session == again.session && asker.connection != again.connection =>
            {
                (*asker, *asked) = (again, request);
                true
            }
            _ => false,
        }
    }
}

/// Why a seal failed.
fn failure_of(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Exists => Failure::of(Code::Exists),
        Refusal::NotEnoughNodes => Failure::of(Code::NotEnoughNodes),
        Refusal::StoreFull => {
            let detail = "no node of the pool has room for the copies that it needs";
            Failure::of(Code::StoreFull).with_detail(detail)
        }
        Refusal::NotEnoughLogs => Failure::of(Code::NotEnoughNodes).with_detail(
            "too few live nodes have a log for durable objects, and a durable object needs at \
             least copies_min of them: start more nodes with --durable-dir, or ask for fewer \
             copies",
        ),
        Refusal::InUse(slot) => Failure::of(Code::InUse).with_detail(format!(
            "an object of this name was deleted, and the node in slot {slot} may still have a copy \
             (`plasmon pool nodes` names it): try again when it is back, or give it up with \
             `plasmon pool forget NODE`"
        )),
        Refusal::Unreachable => Failure::of(Code::Unreachable).with_detail(
            "whether the pool has accepted the object is not known: put it again, and if it was \
             accepted it exists",
        ),
    }
}
