//! Seals of durable objects.

use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::ObjectMeta;
use plasmon_proto::pool::Call;
use plasmon_proto::{Attributes, Code, ObjectId};

use super::{LogRecord, LogState};
use crate::asker::PendingReply;
use crate::construction::Stage;
use crate::effect::{Effect, SpillOrder};
use crate::event::{ClientNo, LogFailure, Lsn, Ticket};
use crate::objects::Objects;
use crate::ports::Directory;
use crate::records::List;
use crate::spill::Backing;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// The list of objects that may give their memory up and stay, if there is any.
    pub(crate) fn spillable(&self) -> Option<List> {
        match self.config.spill_bytes_max {
            Some(_) => Some(List::Keep),
            None => self.config.durable.then_some(List::Logged),
        }
    }

    /// Whether a client may seal what it created under `id` as a durable object.
    pub(crate) fn check_durable(
        &self,
        client: ClientNo,
        id: &ObjectId,
        target: &ObjectId,
        attributes: &Attributes,
    ) -> Result<(), Failure> {
        if target.is_pooled() {
            return self.check_durable_of_pool(client, id, target, attributes);
        }
        let owned = self.objects.pending_objects.get(id).is_some_and(|it| it.traits.owned);
        let is_in_scope =
            |id| self.sessions.clients.get(client).is_some_and(|found| found.scopes.contains(id));
        let volatile = attributes.members.iter().find(|id| !self.objects.is_id_durable(id));
        let mut code = Code::Unsupported;
        let detail = if !self.config.durable {
            "the store has no log for durable objects: start it with --durable-dir, or put the \
             object without durable"
                .to_owned()
        } else if owned {
            "an object that is owned by a composite cannot be durable: leave one of the two out"
                .to_owned()
        } else if is_in_scope(id) || is_in_scope(target) {
            "objects of a scope are deleted unless it is published, so they cannot be durable: \
             put the object outside of the scope"
                .to_owned()
        } else if let Some(volatile) = volatile {
            format!(
                "its member {volatile} is not durable, or is not there: a durable object has \
                 durable members"
            )
        } else if let Some(fault) = self.objects.durable.fault() {
            code = Code::Io;
            fault
        } else {
            return Ok(());
        };
        Err(Failure::of(code).with_id(*target).with_detail(detail))
    }

    /// The same for an object of a pool, which other nodes may have in their logs.
    fn check_durable_of_pool(
        &self,
        client: ClientNo,
        id: &ObjectId,
        target: &ObjectId,
        attributes: &Attributes,
    ) -> Result<(), Failure> {
        let is_in_scope =
            |id| self.sessions.clients.get(client).is_some_and(|found| found.scopes.contains(id));
        let detail = if !attributes.members.is_empty() {
            "a composite of a pool cannot be durable yet: put the value as one object"
        } else if is_in_scope(id) || is_in_scope(target) {
            "objects of a scope are deleted unless it is published, so they cannot be durable: \
             put the object outside of the scope"
        } else {
            return Ok(());
        };
        Err(Failure::of(Code::Unsupported).with_id(*target).with_detail(detail))
    }

    /// Has the object written to the log. Its seal, which was checked, is answered after that.
    pub(crate) fn begin_log(
        &mut self,
        id: &ObjectId,
        target: &ObjectId,
        attributes: Attributes,
        asked: PendingReply,
    ) {
        let before = self.objects.durable_meta(target);
        let ticket = self.objects.durable.ticket();
        let Some(creating) = self.objects.pending_objects.get_mut(id) else { return };
        let Stage::Writing(range) = creating.stage else { return };
        let mut meta = ObjectMeta {
            sizes: creating.sizes,
            traits: creating.traits,
            created_ms: creating.since_ms,
            construct_ms: self.now_ms.saturating_sub(creating.since_ms),
        };
        // A daemon that takes over tells the two apart by this.
        if before.is_some_and(|before| is_same(&before, &meta)) {
            meta.created_ms += 1;
            meta.construct_ms = meta.construct_ms.saturating_sub(1);
        }
        let order = SpillOrder { id: *target, serial: creating.serial, range, meta, attributes };
        let attributes = Box::new(order.attributes.clone());
        creating.stage = Stage::Logging { range, asked, target: *target, attributes, meta };
        self.objects.durable.logging.insert(ticket, (*id, creating.serial));
        if id != target {
            self.objects.durable.replacing.insert(*target);
        }
        self.out.push(Effect::Log(ticket, order));
    }

    /// An object is in the log, or is not.
    pub(crate) fn logged(&mut self, ticket: Ticket, outcome: Result<Lsn, LogFailure>) {
        let is_other = self.copy_written(ticket, &outcome)
            || self.rewritten(ticket, &outcome)
            || self.tombstone_added(ticket, &outcome);
        if is_other {
            return;
        }
        let Some((id, serial)) = self.objects.durable.logging.remove(&ticket) else { return };
        let creating = self.objects.pending_objects.get(&id).filter(|it| it.serial == serial);
        let Some(creating) = creating.cloned() else { return };
        let Stage::Logging { asked, target, attributes, .. } = creating.stage.clone() else {
            return;
        };
        self.objects.durable.replacing.remove(&target);
        let lsn = match outcome {
            Ok(lsn) => lsn,
            Err(failure) => {
                self.note_log_failure(&failure);
                match self.sessions.clients.of_session(creating.owner) {
                    Some(_) => self.give_up(&id),
                    None => self.creator_died(&id),
                }
                let failure = failure.about(target);
                self.answer_creator(&creating, asked, Reply::Failed(failure));
                return self.retry_waiting_for_room();
            }
        };
        let allowed = self.sessions.check_name(&target, &attributes, &creating.sizes);
        let name = attributes.name.clone();
        self.objects.supersede(&target);
        self.finish_seal(&id, &target, *attributes);
        self.objects.durable.insert(serial, LogRecord { id: target, lsn });
        let reply = match allowed {
            Ok(()) => Reply::Done,
            Err(code) => {
                // Its namespace ended meanwhile, or has no room for it any more.
                let entry = self.objects.find(&target);
                self.hide_deleted(entry.into_iter().collect());
                self.collect_fresh();
                Reply::Failed(self.refusal(code, &target, name.as_ref(), &creating.sizes))
            }
        };
        self.answer_creator_after_log(&creating, asked, &target, reply);
    }

    /// A failure of the log itself: it takes nothing more.
    pub(crate) fn note_log_failure(&mut self, failure: &LogFailure) {
        if failure.code == Code::Io && self.objects.durable.is_open() {
            self.objects.durable.state = LogState::Failed(failure.detail.clone());
            self.call(Call::LogFailed);
        }
    }
}

impl<D: Directory> Objects<D> {
    /// Whether the object of this record is durable.
    pub(crate) fn is_durable(&self, record: u32) -> bool {
        self.extras_of(record).is_some_and(|extras| extras.attributes.durable)
    }

    /// Whether a durable object of this id is there.
    pub(crate) fn is_id_durable(&self, id: &ObjectId) -> bool {
        match self.find(id) {
            Some(entry) => self.is_durable(entry.record),
            None => self.tier.get(id).is_some_and(|it| it.extras.attributes.durable),
        }
    }

    /// Sizes and times of the durable object of this id.
    fn durable_meta(&self, id: &ObjectId) -> Option<ObjectMeta> {
        match self.find(id) {
            Some(entry) => Some(entry.meta).filter(|_| self.is_durable(entry.record)),
            None => self.tier.get(id).filter(|it| it.extras.attributes.durable).map(|it| it.meta),
        }
    }

    /// The log has a newer record of this id: the one before needs no end.
    fn supersede(&mut self, id: &ObjectId) {
        if let Some(entry) = self.find(id) {
            self.durable.take(entry.serial);
        } else if let Some(spilled) = self.tier.get_mut(id)
            && matches!(spilled.backing, Backing::Log(_))
        {
            spilled.backing = Backing::Superseded;
        }
    }
}

/// Whether these are the same object, as far as the index and the log both know it.
pub(super) fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.created_ms == other.created_ms && one.sizes == other.sizes
}
