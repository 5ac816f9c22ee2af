//! A store as a node sees it, in a few maps: a double of `plasmond` for tests of many nodes.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::NodeLog;
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::event::{Call, Class, Effect, Event, Fate, Refusal, Ticket, Told};
use crate::record::{Birth, Content};
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::pieces::{Held, Pieces};

/// An object in the store.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) birth: Birth,
    pub(super) content: Content,
    /// Stands for the bytes.
    pub(super) token: (ObjectId, Birth),
    pub(super) visible: bool,
    pub(super) keep: bool,
    /// Whether it is in the log.
    pub(super) logged: bool,
    /// Since when it is here.
    pub(super) since: Mono,
    /// The put that made it, while it is not answered: copies, and how many at least.
    pub(super) pending: Option<(OperationNo, u8, u8)>,
}

/// What a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// Bytes of a whole object, which this stands for.
    Copy(ObjectId, Birth),
    /// Parts of objects.
    Parts(Pieces),
    /// Parts that came in a message.
    Bytes(Vec<u8>),
}

/// Memory for a copy, or for parts.
#[derive(Clone, Debug)]
pub(super) struct Landing {
    pub(super) id: ObjectId,
    pub(super) birth: Birth,
    pub(super) content: Content,
    pub(super) segments: BTreeMap<u32, Carried>,
}

/// A client that waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    operation: OperationNo,
    number: u64,
    /// Whether it waits for an absent object to be created.
    patient: bool,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Read(Birth),
    Fate(Fate),
    Put(Result<(), Refusal>),
    Deleted,
    DeleteUnreachable,
}

/// A put with its time, and where it is made.
pub(super) type Maker = (Mono, OperationNo, plasmon_cluster::Slot, u64);

pub(super) type Answers = Vec<(OperationNo, ObjectId, Outcome)>;

/// What outlives the power of a machine.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Whether there is a log, whether it has no room, and whether it takes nothing any more.
    pub(super) is_there: bool,
    pub(super) is_full: bool,
    pub(super) has_failed: bool,
    pub(super) objects: BTreeMap<ObjectId, Object>,
    /// Ends that it notes.
    pub(super) tombstones: BTreeSet<(ObjectId, Birth)>,
    /// Objects of which the records are damaged.
    pub(super) damaged: BTreeSet<ObjectId>,
}

impl Log {
    /// What the member of the node says of it.
    pub(super) fn state(&self) -> NodeLog {
        match (self.is_there, self.has_failed) {
            (false, _) => NodeLog::Absent,
            (true, false) => NodeLog::Open,
            (true, true) => NodeLog::Failed,
        }
    }
}

/// The double.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<ObjectId, Object>,
    pub(super) landings: BTreeMap<Ticket, Landing>,
    /// Local objects with parts of others.
    pub(super) locals: BTreeMap<ObjectId, Held>,
    /// The memory of regions that are not sealed.
    pub(super) regions: BTreeMap<ObjectId, Vec<u8>>,
    pub(super) log: Log,
    /// Objects of which no good bytes are here.
    pub(super) damaged: BTreeSet<ObjectId>,
    pub(super) vouched_until: Mono,
    pub(super) capacity_bytes: u64,
    waiters: BTreeMap<ObjectId, Vec<Waiter>>,
    deleters: BTreeMap<ObjectId, Vec<(u64, OperationNo)>>,
    /// Puts that wait until it is known whether the object of the copy here exists.
    verifications: BTreeMap<u64, (Maker, Operation)>,
    /// The births that puts made since the last look.
    made: Vec<(OperationNo, ObjectId, Birth)>,
    next_number: u64,
    next_serial: u64,
}

impl Store {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..Self::default() }
    }

    /// The store of a machine whose power was lost: what is in the log is there, and what became of
    /// it since is not known.
    pub(super) fn after_loss_of_power(self) -> Self {
        let Self { capacity_bytes, mut log, next_number, next_serial, .. } = self;
        log.has_failed = false;
        let (objects, damaged) = (log.objects.clone(), log.damaged.clone());
        Self { objects, damaged, log, next_number, next_serial, ..Self::new(capacity_bytes) }
    }

    /// The copy of an incarnation goes, also from the log.
    fn remove(&mut self, id: &ObjectId, birth: Birth) {
        if self.has(id, birth) {
            self.objects.remove(id);
            self.damaged.remove(id);
        }
        self.unlog(id, birth);
    }

    /// The log forgets a copy, unless it has failed.
    fn unlog(&mut self, id: &ObjectId, birth: Birth) {
        if self.is_in_log(id, birth) && !self.log.has_failed {
            self.log.objects.remove(id);
            self.log.damaged.remove(id);
        }
    }

    /// Whether the log has a copy of an incarnation.
    pub(super) fn is_in_log(&self, id: &ObjectId, birth: Birth) -> bool {
        self.log.objects.get(id).is_some_and(|object| object.birth == birth)
    }

    /// Says that a copy has ended, unless it may be there again at the next start.
    fn say_ended(&self, id: ObjectId, birth: Birth, calls: &mut Vec<Call>) {
        if !self.is_in_log(&id, birth) {
            calls.push(Call::Ended { id, birth });
        }
    }

    /// The node wants a copy in the log.
    pub(super) fn log_copy(&mut self, id: ObjectId, birth: Birth, calls: &mut Vec<Call>) {
        let is_full = self.log.is_full && !self.log.has_failed;
        let is_closed = is_full || self.log.has_failed;
        let Some(object) = self.objects.get_mut(&id).filter(|o| o.birth == birth) else { return };
        if !self.log.is_there || (is_closed && !object.logged) {
            return calls.push(Call::NotLogged { id, birth, is_full });
        }
        (object.keep, object.logged) = (true, true);
        let logged = Object { visible: false, pending: None, ..object.clone() };
        self.log.objects.insert(id, logged);
        self.log.damaged.remove(&id);
        calls.push(Call::Logged { id, birth });
    }

    /// The record of a copy is damaged: it is written again from what is right here.
    fn relog(&mut self, id: ObjectId, birth: Birth, calls: &mut Vec<Call>) -> Answers {
        if self.has(&id, birth) && self.damaged.contains(&id) {
            calls.push(Call::Damaged { id, birth });
        } else if self.has(&id, birth) {
            self.log.damaged.remove(&id);
        }
        Answers::new()
    }

    /// What clients of this node see under an id.
    pub(super) fn visible(&self, now: Mono, id: &ObjectId) -> Option<Birth> {
        let shown = id.home().is_some() || now < self.vouched_until;
        self.objects.get(id).filter(|object| object.visible && shown).map(|object| object.birth)
    }

    /// What a daemon that is started again does not know any more.
    pub(super) fn forget_with_daemon(&mut self) {
        self.vouched_until = Mono(0);
        self.objects.values_mut().for_each(|object| object.keep = false);
    }

    pub(super) fn has(&self, id: &ObjectId, birth: Birth) -> bool {
        self.objects.get(id).is_some_and(|object| object.birth == birth)
    }

    /// Whether it has had the object since this time.
    pub(super) fn has_since(&self, id: &ObjectId, birth: Birth, at: Mono) -> bool {
        self.objects.get(id).is_some_and(|object| object.birth == birth && object.since <= at)
    }

    fn used_bytes(&self) -> u64 {
        let objects = self.objects.values().map(|object| object.content.bytes());
        let locals = self.locals.values().map(Held::bytes);
        let landings = self.landings.values().map(|landing| landing.content.bytes());
        let regions = self.regions.values().map(|bytes| bytes.len() as u64);
        objects.chain(landings).chain(locals).chain(regions).sum()
    }

    /// Drops cached copies until there is room.
    pub(super) fn make_room(&mut self, bytes: u64, calls: &mut Vec<Call>) -> bool {
        while self.used_bytes() + bytes > self.capacity_bytes {
            let cached = self.objects.iter().find(|(_, o)| !o.keep && o.pending.is_none());
            let Some((id, birth)) = cached.map(|(id, object)| (*id, object.birth)) else {
                return false;
            };
            self.objects.remove(&id);
            self.say_ended(id, birth, calls);
        }
        true
    }

    /// A client begins something. What can be answered at once is.
    pub(super) fn begin(
        &mut self,
        maker: Maker,
        operation: &Operation,
        calls: &mut Vec<Call>,
    ) -> Answers {
        let (now, no, ..) = maker;
        match *operation {
            Operation::Put { id, .. } => {
                if id.home().is_none() && self.has_copy(&id) {
                    self.verify(maker, *operation, calls);
                    return Vec::new();
                }
                self.put(maker, operation, calls)
            }
            Operation::Get { id, patient } => {
                if let Some(birth) = self.visible(now, &id) {
                    return vec![(no, id, Outcome::Read(birth))];
                }
                self.next_number += 1;
                let number = self.next_number;
                self.waiters.entry(id).or_default().push(Waiter { operation: no, number, patient });
                let class = if patient { Class::Wait } else { Class::Get };
                calls.push(Call::Seek { id, number, class });
                Vec::new()
            }
            Operation::Delete { id } => {
                self.next_number += 1;
                let number = self.next_number;
                self.deleters.entry(id).or_default().push((number, no));
                calls.push(Call::Delete { id, number });
                Vec::new()
            }
        }
    }

    /// Whether a copy is here or comes here, seen or not.
    fn has_copy(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id) || self.landings.values().any(|landing| landing.id == *id)
    }

    /// Whether it is not decided whether the object of such a copy exists.
    fn is_undecided(&self, id: &ObjectId) -> bool {
        self.has_copy(id) && !self.objects.get(id).is_some_and(|object| object.visible)
    }

    /// A put waits until the pool was asked whether an object of its id exists.
    fn verify(&mut self, maker: Maker, operation: Operation, calls: &mut Vec<Call>) {
        self.next_number += 1;
        let (number, id) = (self.next_number, operation.id());
        self.verifications.insert(number, (maker, operation));
        calls.push(Call::Verify { id, number });
    }

    /// A client makes an object.
    fn put(
        &mut self,
        (now, no, slot, boot): Maker,
        operation: &Operation,
        calls: &mut Vec<Call>,
    ) -> Answers {
        let Operation::Put { id, content, copies, copies_min } = *operation else {
            return Vec::new();
        };
        let refusal = if self.has_copy(&id) {
            Some(Refusal::Exists)
        } else {
            (!self.make_room(content.bytes(), calls)).then_some(Refusal::StoreFull)
        };
        if let Some(refusal) = refusal {
            return vec![(no, id, Outcome::Put(Err(refusal)))];
        }
        self.next_serial += 1;
        let serial = self.next_serial;
        let birth = Birth { slot, boot, serial };
        let (visible, keep) = (id.home().is_some(), content.keeping != Keeping::Cache);
        let pending = Some((no, copies, copies_min));
        let token = (id, birth);
        let (logged, since) = (false, now);
        let object = Object { birth, content, token, visible, keep, logged, since, pending };
        self.damaged.remove(&id);
        self.objects.insert(id, object);
        self.made.push((no, id, birth));
        calls.push(if visible && keep {
            Call::CommitKept { id, serial, content, copies, copies_min }
        } else {
            Call::Commit { id, serial, content, copies, copies_min }
        });
        Vec::new()
    }

    /// Takes the puts that an answer of the pool is for.
    fn take_verified(&mut self, id: ObjectId, number: u64) -> Vec<(Maker, Operation)> {
        let of_id = self.verifications.range(..=number).filter(|(_, (_, it))| it.id() == id);
        let answered: Vec<u64> = of_id.map(|(call, _)| *call).collect();
        answered.iter().filter_map(|call| self.verifications.remove(call)).collect()
    }

    /// No object of an id exists, or the pool could not be asked.
    fn verified(
        &mut self,
        now: Mono,
        id: ObjectId,
        (number, known): (u64, bool),
        calls: &mut Vec<Call>,
    ) -> Answers {
        let mut answers = Answers::new();
        for ((_, no, slot, boot), operation) in self.take_verified(id, number) {
            let maker = (now, no, slot, boot);
            if !known {
                answers.push((no, id, Outcome::Put(Err(Refusal::Unreachable))));
            } else if self.is_undecided(&id) {
                self.verify(maker, operation, calls);
            } else {
                answers.extend(self.put(maker, &operation, calls));
            }
        }
        answers
    }

    /// An object of an id exists.
    fn exists(&mut self, id: ObjectId, number: u64) -> Answers {
        let refused =
            |((_, no, ..), _): (Maker, Operation)| (no, id, Outcome::Put(Err(Refusal::Exists)));
        self.take_verified(id, number).into_iter().map(refused).collect()
    }

    /// The births that puts made since the last look.
    pub(super) fn take_made(&mut self) -> Vec<(OperationNo, ObjectId, Birth)> {
        std::mem::take(&mut self.made)
    }

    /// A client gives up.
    pub(super) fn cancel(&mut self, id: &ObjectId, no: OperationNo, calls: &mut Vec<Call>) {
        if let Some(waiters) = self.waiters.get_mut(id) {
            waiters.retain(|waiter| waiter.operation != no);
            if waiters.is_empty() {
                self.waiters.remove(id);
                calls.push(Call::Unseek(*id));
            }
        }
    }

    /// What the node tells.
    pub(super) fn told(&mut self, now: Mono, told: Told, calls: &mut Vec<Call>) -> Answers {
        match told {
            Told::Sought { id, number, fate } => self.sought(id, number, fate, calls),
            Told::Committed { id, serial, result } => {
                self.committed(now, id, serial, result, calls)
            }
            Told::Deleted { id, number } => self.deleted(id, number, &Outcome::Deleted),
            Told::DeleteUnreachable { id, number } => {
                self.deleted(id, number, &Outcome::DeleteUnreachable)
            }
            Told::Drop { id, birth } | Told::Discard { id, birth } => {
                self.remove(&id, birth);
                self.say_ended(id, birth, calls);
                Vec::new()
            }
            Told::Publish { id, birth } => {
                if let Some(object) = self.objects.get_mut(&id).filter(|o| o.birth == birth) {
                    object.visible = true;
                }
                self.wake(now, id, calls)
            }
            Told::Keep { id, birth } => {
                if let Some(object) = self.objects.get_mut(&id).filter(|o| o.birth == birth) {
                    object.keep = true;
                    calls.push(Call::Kept { id, birth });
                }
                Vec::new()
            }
            Told::Release { id, birth } => {
                if let Some(object) = self.objects.get_mut(&id).filter(|o| o.birth == birth) {
                    (object.keep, object.logged) = (false, false);
                    self.unlog(&id, birth);
                }
                Vec::new()
            }
            Told::Log { id, birth } => {
                self.log_copy(id, birth, calls);
                Vec::new()
            }
            Told::AddTombstone { id, birth } => {
                if self.log.is_there && !self.log.is_full && !self.log.has_failed {
                    self.log.tombstones.insert((id, birth));
                    calls.push(Call::TombstoneAdded { id, birth });
                }
                Vec::new()
            }
            Told::Relog { id, birth } => self.relog(id, birth, calls),
            Told::RemoveTombstone { id, birth } => {
                if !self.log.has_failed {
                    self.log.tombstones.remove(&(id, birth));
                    calls.push(Call::TombstoneRemoved { id, birth });
                }
                Vec::new()
            }
            Told::Look { id, number } => {
                calls.push(Call::Looked { id, number });
                Vec::new()
            }
            Told::Verified { id, number, known } => self.verified(now, id, (number, known), calls),
            Told::Exists { id, number } => self.exists(id, number),
            Told::Found { .. } => Vec::new(),
            Told::Vouch { ms } => {
                self.vouched_until = now.after_ms(ms);
                let ids: Vec<_> = self.waiters.keys().copied().collect();
                ids.into_iter().flat_map(|id| self.wake(now, id, calls)).collect()
            }
        }
    }

    fn deleted(&mut self, id: ObjectId, number: u64, outcome: &Outcome) -> Answers {
        let Some(deleters) = self.deleters.get_mut(&id) else { return Vec::new() };
        let is_ended = |(call, _): &mut (u64, OperationNo)| *call <= number;
        let ended: Vec<_> = deleters.extract_if(.., is_ended).collect();
        if deleters.is_empty() {
            self.deleters.remove(&id);
        }
        ended.into_iter().map(|(_, no)| (no, id, outcome.clone())).collect()
    }

    fn sought(&mut self, id: ObjectId, number: u64, fate: Fate, calls: &mut Vec<Call>) -> Answers {
        let Some(waiters) = self.waiters.get_mut(&id) else { return Vec::new() };
        let ends =
            |waiter: &Waiter| waiter.number <= number && !(fate == Fate::Absent && waiter.patient);
        let ended: Vec<_> = waiters.iter().copied().filter(ends).collect();
        waiters.retain(|waiter| !ends(waiter));
        if waiters.is_empty() {
            self.waiters.remove(&id);
            calls.push(Call::Unseek(id));
        }
        ended.into_iter().map(|waiter| (waiter.operation, id, Outcome::Fate(fate))).collect()
    }

    fn committed(
        &mut self,
        now: Mono,
        id: ObjectId,
        serial: u64,
        result: Result<(), Refusal>,
        calls: &mut Vec<Call>,
    ) -> Answers {
        let object = self.objects.get_mut(&id).filter(|object| object.birth.serial == serial);
        let Some(object) = object else { return Vec::new() };
        let pending = object.pending.take();
        let birth = object.birth;
        let mut answers: Answers =
            pending.into_iter().map(|(no, ..)| (no, id, Outcome::Put(result))).collect();
        if result.is_ok() {
            object.visible = true;
            answers.extend(self.wake(now, id, calls));
        } else {
            self.remove(&id, birth);
            self.say_ended(id, birth, calls);
        }
        answers
    }

    /// Answers the clients that wait for an object that is here.
    fn wake(&mut self, now: Mono, id: ObjectId, calls: &mut Vec<Call>) -> Answers {
        let Some(birth) = self.visible(now, &id) else { return Vec::new() };
        let waiters = self.waiters.remove(&id).unwrap_or_default();
        if !waiters.is_empty() {
            calls.push(Call::Unseek(id));
        }
        waiters.into_iter().map(|waiter| (waiter.operation, id, Outcome::Read(birth))).collect()
    }

    /// Makes memory for a copy.
    pub(super) fn land(
        &mut self,
        ticket: Ticket,
        (id, birth, content): (ObjectId, Birth, Content),
        calls: &mut Vec<Call>,
    ) -> bool {
        let room = !self.objects.contains_key(&id) && self.make_room(content.bytes(), calls);
        if room {
            let segments = BTreeMap::new();
            self.landings.insert(ticket, Landing { id, birth, content, segments });
        }
        room
    }

    /// The bytes of a small copy: which object they are of, and zeros.
    pub(super) fn bytes(&self, id: &ObjectId, birth: Birth) -> Option<Vec<u8>> {
        if self.damaged.contains(id) {
            return None;
        }
        let object = self.objects.get(id).filter(|object| object.birth == birth)?;
        let mut bytes = postcard::to_allocvec(&object.token).ok()?;
        bytes.resize(object.content.bytes() as usize, 0);
        Some(bytes)
    }

    /// A small copy arrived.
    pub(super) fn fill(&mut self, ticket: Ticket, bytes: &[u8]) -> Result<(), String> {
        let landing = self.landings.get_mut(&ticket).ok_or("an object without memory")?;
        if bytes.len() as u64 != landing.content.bytes() {
            return Err(format!("{} bytes of {}", bytes.len(), landing.id));
        }
        if !landing.id.is_pooled() {
            landing.segments.insert(0, Carried::Bytes(bytes.to_vec()));
            return Ok(());
        }
        // An empty object has no bytes that could say what it is.
        let own = (landing.id, landing.birth);
        let token = if bytes.is_empty() {
            Ok(own)
        } else {
            postcard::take_from_bytes(bytes).map(|(token, _)| token)
        };
        let (id, birth) = token.map_err(|error| error.to_string())?;
        landing.segments.insert(0, Carried::Copy(id, birth));
        Ok(())
    }

    /// A copy is complete. `Err` when its bytes are not those of the object.
    pub(super) fn seal(
        &mut self,
        now: Mono,
        ticket: Ticket,
        (visible, keep): (bool, bool),
        calls: &mut Vec<Call>,
    ) -> Result<Answers, String> {
        let landing = self.landings.remove(&ticket).ok_or("sealed what was never landed")?;
        let Landing { id, birth, content, segments } = landing;
        let wanted = (0..content.segments()).collect::<Vec<_>>();
        let is_whole = segments.keys().eq(&wanted);
        if !id.is_pooled() {
            let held = parts_of(segments).filter(|held| held.bytes() == content.bytes());
            let Some(held) = held.filter(|_| is_whole) else {
                return Err(format!("parts of {birth:?} are not there"));
            };
            self.locals.insert(id, held);
            return Ok(Vec::new());
        }
        let token = (id, birth);
        let right = segments.values().all(|found| *found == Carried::Copy(id, birth));
        if !right || !is_whole {
            return Err(format!("a copy of {id} {birth:?} has wrong bytes: {segments:?}"));
        }
        if self.objects.contains_key(&id) {
            return Err(format!("a copy of {id} was sealed over another object"));
        }
        let (logged, since, pending) = (false, now, None);
        let object = Object { birth, content, token, visible, keep, logged, since, pending };
        self.damaged.remove(&id);
        self.objects.insert(id, object);
        Ok(self.wake(now, id, calls))
    }

    /// What the node is told when this has sealed a copy.
    pub(super) fn sealed_by(&self, effect: &Effect) -> Option<Event> {
        let Effect::Seal { ticket, .. } = effect else { return None };
        let Landing { id, birth, .. } = *self.landings.get(ticket)?;
        id.is_pooled().then_some(Event::CopySealed { id, birth })
    }

    /// What a node that was started again is told, and what it is asked again.
    pub(super) fn resume(&mut self) -> Vec<Call> {
        self.landings.clear();
        let tombstones = self.log.tombstones.iter();
        let mut calls: Vec<Call> =
            tombstones.map(|(id, birth)| Call::TombstoneAdded { id: *id, birth: *birth }).collect();
        for (id, object) in &self.objects {
            let (id, birth, content, visible) = (*id, object.birth, object.content, object.visible);
            match object.pending {
                Some((_, copies, copies_min)) if id.home().is_some() => {
                    let serial = birth.serial;
                    calls.push(if object.keep {
                        Call::CommitKept { id, serial, content, copies, copies_min }
                    } else {
                        Call::Commit { id, serial, content, copies, copies_min }
                    });
                }
                _ => {
                    let (kept, logged) = (object.keep, object.logged);
                    calls.push(Call::Has { id, birth, content, visible, kept, logged });
                }
            }
            if self.damaged.contains(&id) {
                calls.push(Call::Damaged { id, birth });
            }
        }
        for (id, object) in &self.objects {
            if let Some((_, copies, copies_min)) = object.pending
                && id.home().is_none()
            {
                let (serial, content) = (object.birth.serial, object.content);
                calls.push(Call::Commit { id: *id, serial, content, copies, copies_min });
            }
        }
        for (id, waiters) in &self.waiters {
            let number = waiters.iter().map(|waiter| waiter.number).max().unwrap_or_default();
            let class = if waiters.iter().all(|w| w.patient) { Class::Wait } else { Class::Get };
            calls.push(Call::Seek { id: *id, number, class });
        }
        for (id, deleters) in &self.deleters {
            let number = deleters.iter().map(|(number, _)| *number).max().unwrap_or_default();
            calls.push(Call::Delete { id: *id, number });
        }
        for (number, (_, operation)) in &self.verifications {
            calls.push(Call::Verify { id: operation.id(), number: *number });
        }
        calls
    }

    /// Evicts a cached copy, as a store may do at any time.
    pub(super) fn evict(&mut self, at: usize, calls: &mut Vec<Call>) {
        let mut cached = self.objects.iter().filter(|(_, o)| !o.keep && o.pending.is_none());
        if let Some((id, birth)) = cached.nth(at).map(|(id, object)| (*id, object.birth)) {
            self.objects.remove(&id);
            self.say_ended(id, birth, calls);
        }
    }
}

/// What these segments are together, if they are parts.
fn parts_of(segments: BTreeMap<u32, Carried>) -> Option<Held> {
    let mut all = Pieces::default();
    for carried in segments.into_values() {
        match carried {
            Carried::Bytes(bytes) => return Some(Held::Bytes(bytes)),
            Carried::Parts(pieces) => all.append(&pieces),
            Carried::Copy(..) => return None,
        }
    }
    Some(Held::Pieces(all))
}
