//! Which event goes where.

use plasmon_proto::message::{Failure, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::request::Class;
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::status::Status;
use plasmon_proto::{Attributes, Code, ObjectId};

use crate::accounts::Owner;
use crate::construction::LandedSeal;
use crate::effect::Effect;
use crate::event::{ClientNo, Event, LogFailure, SealLanded, SealTarget};
use crate::ports::Directory;
use crate::records::LISTED;
use crate::seat::no_pool;
use crate::store::Store;
use crate::wait_table::Question;
use crate::work::PIECE;

/// The object that a refusal without an object names.
const NO_OBJECT: ObjectId = ObjectId::new([0; 20]);

impl<D: Directory> Store<D> {
    /// Applies one event and appends what is to be done. `now_ms` is milliseconds since 1970 by a
    /// clock that never runs backwards.
    #[inline]
    pub fn step(&mut self, now_ms: u64, event: Event, effects: &mut Vec<Effect>) {
        self.now_ms = now_ms.max(self.now_ms);
        self.work.begin_event();
        std::mem::swap(&mut self.out, effects);
        match event {
            // The most frequent by far: told apart here, it need not be moved as an event.
            Event::Submit(client, position, submission, attributes) => {
                self.submit(client, position, submission, attributes);
            }
            event => self.apply(event),
        }
        if !self.objects.detached_members.is_empty() && !self.work.collect {
            self.collect_fresh();
        }
        std::mem::swap(&mut self.out, effects);
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit(..) => unreachable!("submissions are handled before"),
            Event::Touched(record) => {
                if self.objects.records.used(record).is_some_and(|found| found.is(LISTED)) {
                    self.objects.records.touch(record);
                }
            }
            Event::Request(client, request, body) => self.request(client, request, body),
            Event::Seal(client, request, SealTarget { id, target }, attributes) => {
                if self.admits(client, request, true) {
                    self.seal(client, request, id, target, attributes);
                }
            }
            Event::PutDurable(client, request, put, target, attributes) => {
                if self.admits(client, request, true) {
                    self.put_durable(client, request, put, target, attributes);
                }
            }
            Event::SealGrown(client, request, sealing, attributes) => {
                if self.admits(client, request, true) {
                    self.seal_grown_as(client, request, sealing, attributes);
                }
            }
            Event::SealLanded(client, request, landed, attributes) => {
                if self.admits(client, request, true) {
                    let SealLanded { id, birth, visible, keep } = landed;
                    let seal = LandedSeal { visible, keep };
                    self.seal_landed(client, request, (id, birth), seal, attributes);
                }
            }
            Event::Agent(client, request, here) => {
                if self.admits(client, request, true) {
                    self.take_seat(client, request, here);
                }
            }
            Event::Connect(client, peer) => {
                self.disconnect(client);
                let owner = Owner::of(&peer, self.config.owner_uid);
                self.sessions.clients.connect(client, peer, owner);
            }
            Event::Resume(client, leases, creating) => self.resume(client, &leases, creating),
            Event::Part(client) => self.part(client),
            Event::Disconnect(client) => self.disconnect(client),
            Event::Reserved(ticket, done) => self.reserved(ticket, done),
            Event::Hardened(ticket, done) => self.hardened(ticket, done),
            Event::Unpunched(range) => self.space.memory.unpunched(range),
            Event::Retained(extent, bytes) => {
                self.space.memory.retain(extent, bytes);
                self.retry_waiting_for_room();
            }
            Event::Released(extent) => {
                self.space.memory.released(extent);
                self.retry_waiting_for_room();
            }
            Event::Spilled(ticket, done) => self.spilled(ticket, done),
            Event::Restored(ticket, outcome) => self.restored(ticket, outcome),
            Event::Opened(ticket, outcome) => self.opened(ticket, outcome),
            Event::Logged(ticket, outcome) => self.logged(ticket, outcome),
            Event::Unlogged(ticket, outcome) => self.unlogged(ticket, outcome),
            Event::LogChecked(ticket, found) => self.log_checked(ticket, found),
            Event::LogFailed(detail) => {
                self.note_log_failure(&LogFailure { code: Code::Io, detail });
            }
            Event::LogDamaged(id, lsn) => self.log_damaged(&id, lsn),
            Event::Tick => self.tick(),
        }
    }

    fn tick(&mut self) {
        for _ in 0..PIECE {
            let Some(waiter) = self.sessions.waits.overdue(self.now_ms) else { break };
            self.answer_waiter(waiter);
        }
        self.go_on();
        self.end_settles();
        self.end_overdue_adoptions();
        self.tell_usage();
        self.end_pending();
        self.end_vouching();
        self.expire();
        if self.objects.deferred_deletes.is_due(self.now_ms) {
            self.collect_unused(&[]);
        }
        if self.objects.deferred_frees.is_due(self.now_ms) {
            self.collect_deferred_frees();
        }
    }

    /// When the store wants a [`Event::Tick`] at the latest, on the clock of [`Self::step`].
    pub fn next_deadline(&self) -> Option<u64> {
        if self.has_work() {
            return Some(self.now_ms);
        }
        let expiry = self.objects.expiries.first().map(|(at_ms, ..)| *at_ms);
        let dues = [self.objects.deferred_frees.due_ms(), self.objects.deferred_deletes.due_ms()];
        let seat = [self.seat.next_deadline(), self.usage_due_ms()];
        let others = [self.sessions.waits.next_deadline(), expiry];
        others.into_iter().chain(seat).chain(dues).flatten().min()
    }

    fn submit(
        &mut self,
        client: ClientNo,
        position: u64,
        submission: Submission,
        attributes: Option<Attributes>,
    ) {
        let Some(found) = self.sessions.clients.get(client) else { return };
        let allowed = found.may_write();
        let result = match submission {
            _ if !allowed => Err((Code::NotPermitted, submission_id(&submission))),
            Submission::Put(put) => {
                self.put(client, put, attributes).map_err(|code| (code, put.id))
            }
            Submission::Announce { id } if id.is_pooled() => {
                // What becomes of it is known when it is put.
                let named = Sizes { attributes: 1, ..Sizes::default() };
                self.check_maker(&id, &named, Traits::default())
                    .map_err(|failure| failure.code)
                    .and_then(|()| self.announce(client, id))
                    .map_err(|code| (code, id))
            }
            Submission::Delete { id } if id.is_pooled() => {
                if !self.config.pool {
                    Err((Code::Unsupported, id))
                } else if self.objects.pending_objects.get(&id).is_some() {
                    self.abort(client, &id).map_err(|code| (code, id))
                } else {
                    self.forward_delete(&id);
                    Ok(())
                }
            }
            Submission::Announce { id } => self.announce(client, id).map_err(|code| (code, id)),
            Submission::Abort { id } => self.abort(client, &id).map_err(|code| (code, id)),
            Submission::Delete { id } => self.delete_soon(client, &id).map_err(|code| (code, id)),
            Submission::LeaseWanted { bytes_min, bytes_wanted } => {
                let size = crate::jobs::Size { bytes_min, bytes_wanted };
                let answer = crate::asker::Answer::Ring(position);
                self.lease(client, answer, size);
                Ok(())
            }
            Submission::LeaseReturn(range) => {
                self.return_lease(client, range).map_err(|code| (code, NO_OBJECT))
            }
        };
        if let Err((code, id)) = result {
            self.refuse(client, position, code, id);
        }
    }

    /// Whether the client is there and may do this; answers the request if not.
    fn admits(&mut self, client: ClientNo, request: u64, writes: bool) -> bool {
        match self.sessions.clients.get(client) {
            Some(found) if found.may_write() || !writes => true,
            Some(_) => {
                self.fail(client, request, Failure::of(Code::NotPermitted));
                false
            }
            None => false,
        }
    }

    fn request(&mut self, client: ClientNo, request: u64, body: Request) {
        let writes = body.class() == Class::Write;
        if !self.admits(client, request, writes) {
            return;
        }
        let body = match body.ids().iter().find(|id| id.is_pooled()).copied() {
            Some(id) => match self.pooled_request(client, request, body, &id) {
                Some(body) => body,
                None => return,
            },
            None => body,
        };
        self.collect_unused_for(&body);
        let reply = match body {
            Request::Lease { bytes_min, bytes_wanted } => {
                let size = crate::jobs::Size { bytes_min, bytes_wanted };
                return self.lease(client, crate::asker::Answer::Socket(request), size);
            }
            Request::Create { id, sizes, traits, strict } => {
                let landing = None;
                let wanted =
                    crate::construction::CreateRequest { id, sizes, traits, strict, landing };
                return self.create(client, request, wanted);
            }
            Request::CreateGrowing { id, traits, bytes, open_ended } => {
                let beginning =
                    crate::growing_objects::NewGrowing { id, traits, bytes, open_ended };
                return self.create_growing(client, request, beginning);
            }
            Request::Grow { id, bytes } => return self.grow(client, request, id, bytes),
            Request::SealGrown { id, data } => return self.seal_grown(client, request, id, data),
            Request::Seal { id } => {
                let plain = self.creating(client, &id).is_none_or(|(_, it)| it.attributes == 0);
                return self.seal(client, request, id, id, plain.then(Attributes::default));
            }
            Request::Replace { id, target } => {
                let plain = self.creating(client, &id).is_none_or(|(_, it)| it.attributes == 0);
                return self.seal(client, request, id, target, plain.then(Attributes::default));
            }
            Request::Get { ids } => return self.get(client, request, ids),
            Request::OpenSpilled { id } => return self.open_spilled(client, request, id),
            Request::Wait { ids, count, timeout_ms, beyond_end } => {
                let until = crate::wait_requests::Until { count, timeout_ms, beyond_end };
                return self.wait(client, request, ids, until);
            }
            Request::Abort { id } => self
                .abort(client, &id)
                .map(|()| Reply::Done)
                .map_err(|code| Failure::of(code).with_id(id)),
            Request::Delete { ids } => return self.delete_now(client, request, &ids),
            Request::DeleteUnused { ids } => return self.delete_when_unused(client, request, &ids),
            Request::Evict { bytes } => return self.evict_on_request(client, request, bytes),
            Request::Quota { bytes } => Ok(self.set_quota(client, bytes)),
            Request::Share { bytes } => self.set_share(client, bytes),
            Request::TellAdoptions { told } => self.tell_adoptions(client, told),
            Request::EndAdoption { namespace } => {
                return self.end_adoption(client, request, namespace);
            }
            Request::Tell { told } => self.tell(client, told),
            Request::Adopt { namespace, bytes_max } => {
                return self.adopt(client, request, namespace, bytes_max);
            }
            Request::Scope { scope, ids, again } => self.add_to_scope(client, scope, &ids, again),
            Request::EndScope { scope, publish } => {
                return self.end_scope(client, request, scope, publish);
            }
            other => self.question(client, other),
        };
        self.reply(client, request, reply.unwrap_or_else(Reply::Failed));
    }

    /// Does what a request for a pooled object asks differently from one for a local object. Gives
    /// it back where that is nothing.
    fn pooled_request(
        &mut self,
        client: ClientNo,
        request: u64,
        body: Request,
        id: &ObjectId,
    ) -> Option<Request> {
        if !self.config.pool {
            self.fail(client, request, no_pool().with_id(*id));
            return None;
        }
        match body {
            Request::Create { id, sizes, traits, strict } => {
                if let Err(failure) = self.check_maker(&id, &sizes, traits) {
                    self.fail(client, request, failure);
                } else if self.has_copy_to_verify(&id) {
                    let landing = None;
                    let wanted =
                        crate::construction::CreateRequest { id, sizes, traits, strict, landing };
                    self.verify(client, request, wanted);
                } else {
                    return Some(body);
                }
            }
            Request::Delete { ids } => self.delete_pooled(client, request, &ids),
            Request::Settle { ids, timeout_ms } => {
                self.await_commits(client, request, &ids, timeout_ms);
            }
            Request::Land(landing) => self.land(client, request, landing),
            Request::States { ids } if ids.iter().any(|id| self.is_elsewhere(id)) => {
                self.ask(client, request, ids, Question::States);
            }
            Request::Stat { id } if self.is_elsewhere(&id) => {
                self.ask(client, request, vec![id], Question::Stat);
            }
            Request::CheckLogged { id, birth } => {
                self.check_logged_copy(client, request, (id, birth))
            }
            Request::CreateGrowing { .. }
            | Request::Replace { .. }
            | Request::DeleteUnused { .. }
            | Request::Scope { .. } => {
                let detail = "objects of a pool cannot grow, be replaced, be deleted when unused, \
                              or be in a scope";
                let failure = Failure::of(Code::Unsupported).with_id(*id).with_detail(detail);
                self.fail(client, request, failure);
            }
            other => return Some(other),
        }
        None
    }

    fn question(&mut self, client: ClientNo, body: Request) -> Result<Reply, Failure> {
        match body {
            Request::Release { serials } => self.release(client, &serials),
            Request::Cancel { request } => Ok(self.cancel(client, request)),
            Request::States { ids } => self.states(&ids),
            // None of them is of a pool.
            Request::Settle { ids, .. } => {
                Ok(Reply::Outcomes(vec![Some(Code::BadRequest); ids.len()]))
            }
            Request::Stat { id } => Ok(Reply::Info(self.stat(&id))),
            Request::List { filter, cursor, limit } => self.list(&filter, cursor, limit),
            Request::ListNamespace(query) => self.list_namespace(&query),
            Request::Describe { id, birth } => self.describe_copy(client, &id, birth),
            Request::Touch { ids } => self.touch(&ids),
            Request::Demote { ids } => self.demote(&ids),
            Request::Subscribe { filter } => {
                self.sessions.clients.subscribe(client, Some(filter));
                Ok(Reply::Done)
            }
            Request::Unsubscribe => {
                self.sessions.clients.subscribe(client, None);
                Ok(Reply::Done)
            }
            Request::Status => {
                let mut status = Status::default();
                self.status_into(&mut status);
                Ok(Reply::Status(Box::new(status)))
            }
            Request::Lease { .. }
            | Request::Create { .. }
            | Request::CreateGrowing { .. }
            | Request::Grow { .. }
            | Request::SealGrown { .. }
            | Request::Seal { .. }
            | Request::Replace { .. }
            | Request::Get { .. }
            | Request::OpenSpilled { .. }
            | Request::Wait { .. }
            | Request::Abort { .. }
            | Request::Delete { .. }
            | Request::DeleteUnused { .. }
            | Request::Evict { .. }
            | Request::Quota { .. }
            | Request::Share { .. }
            | Request::Scope { .. }
            | Request::EndScope { .. }
            | Request::Tell { .. }
            | Request::TellAdoptions { .. }
            | Request::EndAdoption { .. }
            | Request::Adopt { .. } => unreachable!("it was answered before"),
            Request::Hello(_)
            | Request::Index
            | Request::Extents { .. }
            | Request::Clients { .. }
            | Request::Sync
            | Request::Shutdown
            | Request::ShutdownUnused
            | Request::Agent { .. }
            | Request::Land(_)
            | Request::SealLanded { .. }
            | Request::SealGrownPooled { .. }
            | Request::PutDurable { .. }
            | Request::CheckLogged { .. }
            | Request::Slot { .. } => {
                Err(Failure::of(Code::BadRequest).with_detail("not a question to the store"))
            }
        }
    }

    fn set_quota(&mut self, client: ClientNo, bytes: u64) -> Reply {
        // A client may tighten the quota that the store's owner gave it, not loosen it.
        let most = self.config.client_quota_bytes;
        let bytes = match (bytes, most) {
            (bytes, 0) => bytes,
            (0, most) => most,
            (bytes, most) => bytes.min(most),
        };
        if let Some(found) = self.sessions.clients.get_mut(client) {
            found.quota_bytes = bytes;
        }
        Reply::Done
    }
}

fn submission_id(submission: &Submission) -> ObjectId {
    match submission {
        Submission::Announce { id }
        | Submission::Put(Put { id, .. })
        | Submission::Abort { id }
        | Submission::Delete { id } => *id,
        Submission::LeaseWanted { .. } | Submission::LeaseReturn(_) => NO_OBJECT,
    }
}
