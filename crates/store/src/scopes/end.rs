//! How scopes begin and end.

use plasmon_proto::limits::SCOPE_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::{Scope, UnpublishedObjects};
use crate::clients::NO_OWNER;
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
        let incarnation = |id| if again { objects.unowned_incarnation(id) } else { None };
        let found: Vec<_> = ids.iter().map(|id| (*id, incarnation(id))).collect();
        let Some(client) = self.sessions.clients.get_mut(client) else { return Ok(Reply::Done) };
        let count = client.scopes.len_with(number, ids);
        if count > SCOPE_IDS_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(count as u64, SCOPE_IDS_MAX as u64)
                .with_detail(
                    "ids in the scopes of this client: publish or abort one of them first",
                ));
        }
        let scope = client.scopes.scope_mut(number);
        for (id, serial) in found {
            // What is known of an object that the client made itself needs no incarnation.
            scope.entry(id).and_modify(|known| *known = known.or(serial)).or_insert(serial);
        }
        Ok(Reply::Done)
    }

    /// Ends a scope of the client. The request is answered when what it promises holds.
    pub(crate) fn end_scope(&mut self, client: ClientNo, request: u64, number: u64, publish: bool) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        let session = found.session;
        let Some(scope) = found.scopes.take(number) else {
            let detail = "this client has no scope of that number";
            return self.fail(client, request, Failure::of(Code::Absent).with_detail(detail));
        };
        if publish {
            // A session that the same process left behind may have them as well.
            self.sessions.clients.release_from_scopes(&scope);
            return self.reply(client, request, Reply::Done);
        }
        let unpublished = self.objects.unpublished(session, &scope);
        if unpublished.is_empty() {
            return self.reply(client, request, Reply::Done);
        }
        let request = Some((asker, request));
        self.work.leave(Leftover::Scope(UnpublishedObjects { request, ..unpublished }));
        self.go_on();
    }

    /// Deletes a piece of what a session made in a scope. What a composite holds stays.
    pub(crate) fn delete_unpublished(
        &mut self,
        mut unpublished: UnpublishedObjects,
    ) -> UnpublishedObjects {
        let mut batch = Vec::new();
        for _ in 0..PIECE {
            let Some((id, serial)) = unpublished.objects.pop() else { break };
            if let Some(entry) = self.objects.find(&id) {
                if entry.serial == serial && self.objects.holders(entry.record) == 0 {
                    batch.push(entry);
                }
            } else if let Some(spilled) = self.objects.tier.get(&id)
                && spilled.serial == serial
                && spilled.extras.holders == 0
            {
                self.drop_spilled(&id, ObjectState::Deleted);
            }
        }
        self.hide_deleted(batch);
        self.collect_fresh();
        if unpublished.is_empty()
            && let Some((asker, request)) = unpublished.request
        {
            self.reply_when_log_rests(asker, request, Reply::Done);
        }
        unpublished
    }
}

impl<D: Directory> Objects<D> {
    /// What the session made of a scope, by now.
    pub(crate) fn unpublished(&self, session: u32, scope: &Scope) -> UnpublishedObjects {
        let of_session = |(id, known): (&ObjectId, &Option<u64>)| {
            let (owner, serial) = self.owner_and_incarnation(id)?;
            (owner == session || *known == Some(serial)).then_some((*id, serial))
        };
        let objects = scope.iter().filter_map(of_session).collect();
        UnpublishedObjects { objects, request: None }
    }

    /// The incarnation of an object whose maker is not known.
    fn unowned_incarnation(&self, id: &ObjectId) -> Option<u64> {
        let (owner, serial) = self.owner_and_incarnation(id)?;
        (owner == NO_OWNER).then_some(serial)
    }

    /// The session that made an object, in memory or in the tier, and its incarnation.
    fn owner_and_incarnation(&self, id: &ObjectId) -> Option<(u32, u64)> {
        match self.find(id) {
            Some(entry) => Some((self.records.get(entry.record).owner, entry.serial)),
            None => self.tier.get(id).map(|spilled| (spilled.owner, spilled.serial)),
        }
    }
}
