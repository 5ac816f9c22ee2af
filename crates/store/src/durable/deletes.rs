//! Ends of durable objects, and the replies that wait for them.

use plasmon_proto::message::Reply;
use plasmon_proto::{Code, ObjectId};

use super::ParkedReply;
use crate::asker::{Asker, PendingReply};
use crate::construction::Construction;
use crate::effect::Effect;
use crate::event::{ClientNo, LogFailure, Lsn, Ticket};
use crate::objects::Objects;
use crate::ports::Directory;
use crate::spill::{Backing, SpilledObject};
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// A `Delete` request.
    pub(crate) fn delete_now(&mut self, client: ClientNo, request: u64, ids: &[ObjectId]) {
        let reply = self.delete(client, ids).unwrap_or_else(Reply::Failed);
        self.reply_after_log(client, request, ids, reply);
    }

    /// A `DeleteUnused` request.
    pub(crate) fn delete_when_unused(&mut self, client: ClientNo, request: u64, ids: &[ObjectId]) {
        let reply = self.delete_unused(ids).unwrap_or_else(Reply::Failed);
        self.reply_after_log(client, request, ids, reply);
    }

    /// Answers a request as soon as the deletes of these ids are in the log: at once, mostly.
    pub(crate) fn reply_after_log(
        &mut self,
        client: ClientNo,
        request: u64,
        ids: &[ObjectId],
        reply: Reply,
    ) {
        match self.sessions.clients.asker(client) {
            Some(asker) => self.park_reply(asker, request, ids.to_vec(), reply),
            None => self.reply(client, request, reply),
        }
    }

    /// The same for the seal of an object under construction.
    pub(crate) fn answer_creator_after_log(
        &mut self,
        creating: &Construction,
        asked: PendingReply,
        target: &ObjectId,
        reply: Reply,
    ) {
        let Construction { client, owner: session, .. } = *creating;
        let asker = Asker { client, session, connection: asked.connection };
        self.park_reply(asker, asked.request, vec![*target], reply);
    }

    /// Answers a request when all deletes that are on their way by now are in the log.
    pub(crate) fn reply_when_log_rests(&mut self, asker: Asker, request: u64, reply: Reply) {
        let ids = self.objects.durable.dying.keys().copied().collect();
        self.park_reply(asker, request, ids, reply);
    }

    fn park_reply(&mut self, asker: Asker, request: u64, ids: Vec<ObjectId>, reply: Reply) {
        let durable = &mut self.objects.durable;
        let mut tickets: Vec<Ticket> = match durable.dying.is_empty() {
            true => Vec::new(),
            false => ids.iter().filter_map(|id| durable.dying.get(id)).copied().collect(),
        };
        tickets.sort_unstable();
        tickets.dedup();
        if tickets.is_empty() {
            if self.sessions.clients.is_asking(asker) {
                self.reply(asker.client, request, reply);
            }
            return;
        }
        let number = durable.number();
        let left = tickets.len();
        durable.parked.insert(number, ParkedReply { asker, request, ids, reply, left });
        for ticket in tickets {
            durable.waiting.entry(ticket).or_default().push(number);
        }
    }

    /// A delete is in the log, or is not.
    pub(crate) fn unlogged(&mut self, ticket: Ticket, outcome: Result<(), LogFailure>) {
        if self.tombstone_removed(ticket, &outcome) {
            return;
        }
        let durable = &mut self.objects.durable;
        let Some((id, lsn)) = durable.unlogging.remove(&ticket) else { return };
        if durable.dying.get(&id) == Some(&ticket) {
            durable.dying.remove(&id);
        }
        let parked = durable.waiting.remove(&ticket).unwrap_or_default();
        if outcome.is_err() && id.is_pooled() {
            durable.stuck.insert(id, lsn);
        }
        if let Err(failure) = &outcome {
            self.note_log_failure(failure);
        }
        self.tell_ends(&id);
        for number in parked {
            let Some(parked) = self.objects.durable.parked.get_mut(&number) else { continue };
            if let Err(failure) = &outcome {
                parked.fail(&id, failure);
            }
            parked.left -= 1;
            if parked.left == 0
                && let Some(parked) = self.objects.durable.parked.remove(&number)
                && self.sessions.clients.is_asking(parked.asker)
            {
                self.reply(parked.asker.client, parked.request, parked.reply);
            }
        }
    }

    /// Has the log take the end of a copy that it did not take before.
    pub(crate) fn end_again(&mut self, id: &ObjectId) {
        if self.objects.durable.is_open()
            && let Some(lsn) = self.objects.durable.stuck.remove(id)
        {
            self.objects.unlog(*id, lsn, &mut self.out);
        }
    }

    /// Whether the durable object of this id can be deleted now, or be replaced by one that is not
    /// durable.
    pub(crate) fn check_log_for(&self, id: &ObjectId) -> Result<(), Code> {
        let is_refused = self.config.durable
            && !self.objects.durable.is_open()
            && self.objects.is_id_durable(id);
        if is_refused { Err(Code::Io) } else { Ok(()) }
    }
}

impl ParkedReply {
    /// What the reply says of an object whose delete is not in the log.
    fn fail(&mut self, id: &ObjectId, failure: &LogFailure) {
        match &mut self.reply {
            Reply::Outcomes(outcomes) => {
                let of_id = self.ids.iter().zip(outcomes).filter(|(named, _)| *named == id);
                for (_, outcome) in of_id {
                    outcome.get_or_insert(failure.code);
                }
            }
            Reply::Failed(_) => {}
            other => *other = Reply::Failed(failure.clone().about(*id)),
        }
    }
}

impl<D: Directory> Objects<D> {
    /// Has the record of an object that ended marked as dead.
    pub(crate) fn unlog(&mut self, id: ObjectId, lsn: Lsn, out: &mut Vec<Effect>) {
        let ticket = self.durable.ticket();
        self.durable.unlogging.insert(ticket, (id, lsn));
        self.durable.dying.insert(id, ticket);
        out.push(Effect::Unlog(ticket, id, lsn));
    }

    /// An object in memory ended, and its record in the log with it.
    pub(crate) fn drop_record(&mut self, serial: u64, out: &mut Vec<Effect>) {
        if let Some(record) = self.durable.take(serial) {
            self.unlog(record.id, record.lsn, out);
        }
    }

    /// An object out of memory ended, and with it what there is of it.
    pub(crate) fn drop_backing(
        &mut self,
        id: ObjectId,
        spilled: &SpilledObject,
        out: &mut Vec<Effect>,
    ) {
        match spilled.backing {
            Backing::File => self.unspill(id, spilled.serial, out),
            Backing::Log(lsn) => {
                self.durable.forget_suspect(lsn);
                self.unlog(id, lsn, out);
            }
            Backing::Superseded => {}
        }
    }
}
