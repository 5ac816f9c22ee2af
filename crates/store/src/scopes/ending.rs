//! How scopes begin and end.

use plasmon_proto::limits::SCOPE_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::Scope;
use crate::clients::NOBODY;
use crate::event::ClientNo;
use crate::objects::Objects;
use crate::ports::Directory;
use crate::store::Store;
use crate::work::{Leftover, PIECE};

impl<D: Directory> Store<D> {
    /// Puts ids into a scope of the client, all or none of them.
    pub(crate) fn add_to_scope(
        &mut self,
        client: ClientNo,
        number: u64,
        ids: &[ObjectId],
        again: bool,
    ) -> Result<Reply, Failure> {
        let objects = &self.objects;
        let incarnation = |id| if again { objects.incarnation_of_nobody(id) } else { None };
        let found: Vec<_> = ids.iter().map(|id| (*id, incarnation(id))).collect();
        let Some(client) = self.sessions.clients.get_mut(client) else { return Ok(Reply::Done) };
        let count = client.scopes.len() + ids.len();
        if count > SCOPE_IDS_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(count as u64, SCOPE_IDS_MAX as u64)
                .with_detail("ids in the scopes of this client; publish some of them first"));
        }
        let scope = client.scopes.scope_mut(number);
        for (id, serial) in found {
            // What is known of an object that the client made itself needs no incarnation.
            scope.entry(id).and_modify(|known| *known = known.or(serial)).or_insert(serial);
        }
        Ok(Reply::Done)
    }

    /// Ends a scope of the client.
    pub(crate) fn end_scope(
        &mut self,
        client: ClientNo,
        number: u64,
        publish: bool,
    ) -> Result<Reply, Failure> {
        let Some(found) = self.sessions.clients.get_mut(client) else { return Ok(Reply::Done) };
        let session = found.session;
        let scope = found.scopes.take(number).ok_or_else(|| {
            Failure::of(Code::Absent).with_detail("this client has no scope of that number")
        })?;
        if publish {
            // A session that the same process left behind may have them as well.
            self.sessions.clients.release_from_scopes(&scope);
        } else {
            self.work.leave(Leftover::Scope(session, scope));
            self.go_on();
        }
        Ok(Reply::Done)
    }

    /// Deletes a piece of what a session made in a scope. What a composite holds stays.
    pub(crate) fn delete_unpublished(&mut self, session: u32, mut scope: Scope) -> Leftover {
        let mut batch = Vec::new();
        for _ in 0..PIECE {
            let Some((id, serial)) = scope.pop_first() else { break };
            let is_its_own = |owner: u32, found: u64| owner == session || serial == Some(found);
            if let Some(entry) = self.objects.find(&id) {
                let owner = self.objects.records.get(entry.record).owner;
                if is_its_own(owner, entry.serial) && self.objects.holders(entry.record) == 0 {
                    batch.push(entry);
                }
            } else if let Some(spilled) = self.objects.tier.get(&id)
                && is_its_own(spilled.owner, spilled.serial)
                && spilled.extras.holders == 0
            {
                self.drop_spilled(&id, ObjectState::Deleted);
            }
        }
        self.hide_deleted(batch);
        self.collect_fresh();
        Leftover::Scope(session, scope)
    }
}

impl<D: Directory> Objects<D> {
    /// The incarnation of an object whose maker is not known.
    fn incarnation_of_nobody(&self, id: &ObjectId) -> Option<u64> {
        if let Some(entry) = self.find(id) {
            return (self.records.get(entry.record).owner == NOBODY).then_some(entry.serial);
        }
        self.tier.get(id).filter(|spilled| spilled.owner == NOBODY).map(|spilled| spilled.serial)
    }
}
