//! Deletes of pooled objects: the pool does them, and answers.

use std::collections::BTreeMap;

use plasmon_proto::message::Reply;
use plasmon_proto::pool::Call;
use plasmon_proto::{Code, ObjectId};

use super::DeleteRequest;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// A `Delete` request with pooled objects: the others are deleted here, and it is answered
    /// after the last.
    pub(crate) fn delete_pooled(&mut self, client: ClientNo, request: u64, ids: &[ObjectId]) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        // What this client is still making, it gives up. What another one makes is no object yet,
        // and a copy that arrives is one of an object that is elsewhere.
        let is_made = |id: &ObjectId| {
            let creating = self.objects.pending_objects.get(id);
            creating.is_some_and(|creating| self.sessions.is_creator(client, creating))
        };
        let is_local = |id: &ObjectId| !id.is_pooled() || is_made(id);
        let local: Vec<ObjectId> = ids.iter().copied().filter(is_local).collect();
        let places = ids.iter().map(is_local).collect::<Vec<_>>();
        let answered = match self.delete(client, &local) {
            Ok(Reply::Outcomes(answered)) => answered,
            Ok(other) => return self.reply(client, request, other),
            Err(failure) => return self.fail(client, request, failure),
        };
        let (mut outcomes, mut missing) = (vec![None; ids.len()], BTreeMap::new());
        let mut answered = answered.into_iter();
        for (at, id) in ids.iter().enumerate() {
            if places[at] {
                outcomes[at] = answered.next().flatten();
            } else {
                missing.entry(*id).or_insert_with(Vec::new).push(at);
            }
        }
        if missing.is_empty() {
            return self.reply_after_log(client, request, ids, Reply::Outcomes(outcomes));
        }
        let number = self.next_delete();
        let pooled: Vec<ObjectId> = missing.keys().copied().collect();
        let waiting = DeleteRequest { asker, request, outcomes, missing };
        self.seat.delete_requests.insert(number, waiting);
        for id in pooled {
            self.call_new_delete(&id, number);
        }
    }

    /// Has the pool delete an object; no client waits for that.
    pub(crate) fn forward_delete(&mut self, id: &ObjectId) {
        let number = self.next_delete();
        self.call_new_delete(id, number);
    }

    fn next_delete(&mut self) -> u64 {
        self.seat.last_delete += 1;
        self.seat.last_delete
    }

    fn call_new_delete(&mut self, id: &ObjectId, number: u64) {
        self.seat.await_agent(self.now_ms);
        self.seat.deletes.entry(*id).or_default().push(number);
        self.tell_commit_of(id);
        self.call(Call::Delete { id: *id, number });
    }

    /// Calls for the deletes of an id that are not answered, by the last of them.
    pub(super) fn call_delete(&mut self, id: &ObjectId) {
        if let Some(number) = self.seat.deletes.get(id).and_then(|calls| calls.last().copied()) {
            self.tell_commit_of(id);
            self.call(Call::Delete { id: *id, number });
        }
    }

    /// The deletes of an id up to this call ended. An answer to an earlier call says nothing about
    /// a later one: between them the id may have been created again.
    pub(super) fn delete_answered(&mut self, id: &ObjectId, number: u64, outcome: Option<Code>) {
        let Some(calls) = self.seat.deletes.get_mut(id) else { return };
        let later = calls.split_off(calls.partition_point(|call| *call <= number));
        let answered = std::mem::replace(calls, later);
        let calls_are_over = calls.is_empty();
        if calls_are_over {
            self.seat.deletes.remove(id);
        }
        if calls_are_over {
            self.member_answered(id, outcome);
        }
        if self.seat.sweep.is_under_way() {
            self.sessions.adoptions.pool.is_dirty = true;
        }
        for call in answered {
            let Some(asked) = self.seat.delete_requests.get_mut(&call) else { continue };
            for at in asked.missing.remove(id).unwrap_or_default() {
                asked.outcomes[at] = outcome;
            }
            if !asked.missing.is_empty() {
                continue;
            }
            if let Some(asked) = self.seat.delete_requests.remove(&call)
                && self.sessions.clients.is_asking(asked.asker)
            {
                let reply = Reply::Outcomes(asked.outcomes);
                self.reply(asked.asker.client, asked.request, reply);
            }
        }
    }
}
