//! Answering requests that wait for objects: `Wait`, `Get` and `Cancel`.

use plasmon_proto::limits::{
    PINS_PER_CLIENT_MAX, REQUEST_IDS_MAX, WAIT_IDS_MAX, WAIT_IDS_PER_CLIENT_MAX,
    WAIT_IDS_PER_USER_MAX, WAITS_PER_CLIENT_MAX,
};
use plasmon_proto::message::{Failure, Location, Reply};
use plasmon_proto::pool::Class;
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::clients::Client;
use crate::deletes::too_many_ids;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::records::LISTED;
use crate::seat::ABSENCE_MS;
use crate::sessions::Sessions;
use crate::store::Store;
use crate::wait_table::{Question, Waiter, WaiterNo};

/// How long a `Wait` waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// How many objects must be decided, 0 for all.
    pub(crate) count: u32,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) beyond_end: bool,
}

impl<D: Directory> Store<D> {
    pub(crate) fn wait(
        &mut self,
        client: ClientNo,
        request: u64,
        ids: Vec<ObjectId>,
        until: Until,
    ) {
        let count = if until.count == 0 { ids.len() } else { until.count as usize };
        if count > ids.len() {
            let failure = Failure::of(Code::BadRequest)
                .with_amounts(count as u64, ids.len() as u64)
                .with_detail("the wait needs more objects than it names");
            return self.fail(client, request, failure);
        }
        let Some((connection, uid)) = self.sessions.identity(client) else { return };
        let waiter = Waiter {
            client,
            connection,
            uid,
            request,
            question: Question::Wait { beyond_end: until.beyond_end },
            decided: Vec::new(),
            count,
            deadline_ms: until.timeout_ms.map(|ms| self.now_ms.saturating_add(ms)),
            ids,
            number: 0,
        };
        // A timeout of 0 only asks: it brings nothing back and is answered at once.
        self.park(waiter, until.timeout_ms == Some(0));
    }

    pub(crate) fn get(&mut self, client: ClientNo, request: u64, ids: Vec<ObjectId>) {
        self.ask(client, request, ids, Question::Get);
    }

    /// A question about objects that is answered as soon as it is known where they are: some may be
    /// in files, or of a pool and not here.
    pub(crate) fn ask(
        &mut self,
        client: ClientNo,
        request: u64,
        ids: Vec<ObjectId>,
        question: Question,
    ) {
        let Some((connection, uid)) = self.sessions.identity(client) else { return };
        let (count, decided) = (ids.len(), Vec::new());
        let waiter = Waiter {
            client,
            connection,
            uid,
            request,
            question,
            ids,
            decided,
            count,
            deadline_ms: None,
            number: 0,
        };
        self.park(waiter, false);
    }

    /// Answers a waiter at once, if that can be, or lets it wait for objects that are brought back.
    fn park(&mut self, mut waiter: Waiter, at_once: bool) {
        let (client, request) = (waiter.client, waiter.request);
        if waiter.ids.len() > REQUEST_IDS_MAX {
            return self.fail(client, request, too_many_ids(waiter.ids.len()));
        }
        let states: Vec<ObjectState> = waiter.ids.iter().map(|id| self.state_of(id)).collect();
        waiter.decided = states.iter().map(|state| waiter.question.is_decided_by(*state)).collect();
        let elsewhere = self.note_elsewhere(&mut waiter, at_once);
        let is_decided_here = matches!(waiter.question, Question::Wait { .. });
        if (at_once && is_decided_here) || waiter.is_done() {
            return self.answer(&waiter);
        }
        if let Err(failure) = self.sessions.check_waits(&waiter) {
            return self.fail(client, request, failure);
        }
        let Some(found) = self.sessions.clients.get_mut(client) else { return };
        if found.waits.contains_key(&request) {
            let failure = Failure::of(Code::BadRequest);
            return self.fail(client, request, failure.with_detail("a request number in use"));
        }
        let brings_back = !matches!(waiter.question, Question::States | Question::Stat);
        let spilled: Vec<ObjectId> = waiter
            .ids
            .iter()
            .zip(states)
            .filter_map(|(id, state)| (brings_back && state == ObjectState::Spilled).then_some(*id))
            .collect();
        let (count, question, number) = (waiter.ids.len(), waiter.question, waiter.number);
        let no = self.sessions.waits.add(waiter);
        if let Some(found) = self.sessions.clients.get_mut(client) {
            found.waits.insert(request, no);
            found.waiting_ids += count;
        }
        for id in &spilled {
            self.start_restore(id);
        }
        let class =
            if matches!(question, Question::Wait { .. }) { Class::Wait } else { Class::Get };
        for id in &elsewhere {
            self.seek(id, number, class);
        }
    }

    /// Notes those of a waiter's objects about which the pool is asked. A question that does not
    /// wait for anything else waits for the answers. The pool daemon itself is told what is here.
    ///
    /// An object that was sealed here and is not accepted yet may be refused because the pool has
    /// another one, which is what a client gets then. So a client that wants it now waits for what
    /// the pool decides, as long as it would wait for an answer.
    fn note_elsewhere(&mut self, waiter: &mut Waiter, at_once: bool) -> Vec<ObjectId> {
        let is_pooled = self.config.pool && waiter.ids.iter().any(ObjectId::is_pooled);
        if !is_pooled || self.seat.is_agent(waiter.client) {
            return Vec::new();
        }
        let (mut elsewhere, mut is_undecided) = (Vec::new(), false);
        let wants_now = at_once || waiter.question == Question::Get;
        for (id, decided) in waiter.ids.iter().zip(&mut waiter.decided) {
            let is_elsewhere = self.is_elsewhere(id);
            *decided = !is_elsewhere && (*decided || at_once);
            if is_elsewhere {
                elsewhere.push(*id);
            }
            if wants_now && self.is_committing(id) {
                (*decided, is_undecided) = (false, true);
            }
        }
        waiter.number = self.next_question();
        if at_once && (!elsewhere.is_empty() || is_undecided) {
            (waiter.question, waiter.count) = (Question::States, waiter.ids.len());
            waiter.deadline_ms = None;
        }
        if is_undecided {
            waiter.deadline_ms = Some(self.now_ms.saturating_add(ABSENCE_MS));
        }
        elsewhere.sort_unstable();
        elsewhere.dedup();
        elsewhere
    }

    /// Answers a waiter and forgets it.
    pub(crate) fn answer_waiter(&mut self, no: WaiterNo) {
        let Some(waiter) = self.sessions.waits.remove(no) else { return };
        let asked = |found: &&mut Client| found.connection == waiter.connection && !found.away;
        if let Some(found) = self.sessions.clients.get_mut(waiter.client).filter(asked) {
            found.waits.remove(&waiter.request);
            found.waiting_ids -= waiter.ids.len();
            self.answer(&waiter);
        }
        self.forget_seeks(&waiter.ids);
    }

    /// Refuses what a waiter asked for, and forgets it.
    pub(crate) fn fail_waiter(&mut self, no: WaiterNo, failure: Failure) {
        let Some(waiter) = self.sessions.waits.remove(no) else { return };
        let asked = |found: &&mut Client| found.connection == waiter.connection && !found.away;
        if let Some(found) = self.sessions.clients.get_mut(waiter.client).filter(asked) {
            found.waits.remove(&waiter.request);
            found.waiting_ids -= waiter.ids.len();
            self.fail(waiter.client, waiter.request, failure);
        }
        self.forget_seeks(&waiter.ids);
    }

    fn answer(&mut self, waiter: &Waiter) {
        let reply = match waiter.question {
            Question::Wait { .. } | Question::States => {
                Reply::States(waiter.ids.iter().map(|id| self.state_of(id)).collect())
            }
            Question::Stat => Reply::Info(waiter.ids.first().and_then(|id| self.describe(id))),
            Question::Get => self.locate(waiter.client, &waiter.ids),
        };
        self.reply(waiter.client, waiter.request, reply);
    }

    pub(crate) fn cancel(&mut self, client: ClientNo, request: u64) -> Reply {
        // A wait that was answered meanwhile is no error: the two crossed on the way.
        let no =
            self.sessions.clients.get(client).and_then(|found| found.waits.get(&request).copied());
        match no {
            Some(no) => self.answer_waiter(no),
            None => self.cancel_settle(client, request),
        }
        Reply::Done
    }

    /// Pins objects for a client whose pins the store counts.
    fn locate(&mut self, client: ClientNo, ids: &[ObjectId]) -> Reply {
        let held = self.sessions.clients.get(client).map_or(0, |found| found.pins_count);
        if held + ids.len() > PINS_PER_CLIENT_MAX {
            let failure = Failure::of(Code::TooManyPins);
            let wanted = (held + ids.len()) as u64;
            return Reply::Failed(failure.with_amounts(wanted, PINS_PER_CLIENT_MAX as u64));
        }
        let mut located = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(entry) = self.objects.find(id).or_else(|| self.find_withheld(client, id))
            else {
                located.push(Err(self.state_of(id)));
                continue;
            };
            *self.sessions.pins.entry(entry.serial).or_default() += 1;
            if let Some(found) = self.sessions.clients.get_mut(client) {
                *found.pins.entry(entry.serial).or_default() += 1;
                found.pins_count += 1;
            }
            if self.objects.records.get(entry.record).is(LISTED) {
                self.objects.records.touch(entry.record);
            }
            let (serial, range) = (entry.serial, entry.range);
            located.push(Ok(Location {
                serial,
                range,
                sizes: entry.meta.sizes,
                traits: entry.meta.traits,
            }));
        }
        Reply::Located(located)
    }

    /// Drops pins that the store counts. A serial that the client does not pin ends the request;
    /// what stands before it is dropped.
    pub(crate) fn release(&mut self, client: ClientNo, serials: &[u64]) -> Result<Reply, Failure> {
        let mut result = Ok(Reply::Done);
        let mut is_deferred = false;
        for serial in serials {
            let pinned = self.sessions.clients.get_mut(client).and_then(|found| {
                let count = found.pins.get_mut(serial)?;
                *count -= 1;
                if *count == 0 {
                    found.pins.remove(serial);
                }
                found.pins_count -= 1;
                Some(())
            });
            if pinned.is_none() {
                let failure = Failure::of(Code::BadRequest).with_amounts(*serial, 0);
                result = Err(failure.with_detail("this client holds no pin on that object"));
                break;
            }
            self.unpin(*serial, 1);
            is_deferred |= self.objects.deferred_frees.is_pinned(*serial);
            self.objects.deferred_frees.look_again(*serial);
        }
        if is_deferred {
            self.collect_fresh();
        }
        result
    }

    pub(crate) fn unpin(&mut self, serial: u64, count: u32) {
        self.space.jobs.stuck = None;
        if let Some(pins) = self.sessions.pins.get_mut(&serial) {
            *pins = pins.saturating_sub(count);
            if *pins == 0 {
                self.sessions.pins.remove(&serial);
            }
        }
    }
}

impl Sessions {
    /// The connection and the user of a client.
    fn identity(&self, client: ClientNo) -> Option<(u64, u32)> {
        self.clients.get(client).map(|found| (found.connection, found.peer.uid))
    }

    /// Whether a client, its user and all together may wait for so much more.
    fn check_waits(&self, waiter: &Waiter) -> Result<(), Failure> {
        let Some(found) = self.clients.get(waiter.client) else { return Ok(()) };
        let count = waiter.ids.len();
        let (all, of_user) = self.waits.ids(waiter.uid);
        let limits = [
            (found.waits.len() + 1, WAITS_PER_CLIENT_MAX, "too many requests of this client wait"),
            (
                found.waiting_ids + count,
                WAIT_IDS_PER_CLIENT_MAX,
                "this client waits for too many objects",
            ),
            (
                of_user + count,
                WAIT_IDS_PER_USER_MAX,
                "this user's clients wait for too many objects",
            ),
            (all + count, WAIT_IDS_MAX, "all clients together wait for too many objects"),
        ];
        match limits.into_iter().find(|(wanted, most, _)| wanted > most) {
            None => Ok(()),
            Some((wanted, most, detail)) => Err(Failure::of(Code::LimitReached)
                .with_amounts(wanted as u64, most as u64)
                .with_detail(detail)),
        }
    }
}
