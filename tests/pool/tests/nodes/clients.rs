//! Clients: what they do, step by step, as the client library does it.

use plasmon_pool::{Birth, Mono};
use plasmon_proto::extent::Range;
use plasmon_proto::message::{Grant, Reply, Request};
use plasmon_proto::object::{CopyPlacement, Durability, PoolAttributes, Sizes, Traits};
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState};
use plasmon_store::event::SealTarget;
use plasmon_store::{ClientNo, Event};

use super::history::{Operation, OperationNo, Outcome};
use super::machine::Pin;
use super::memory::Token;
use super::world::{Act, What, World};

/// Connected clients of each machine. The last one deletes.
pub(crate) const CLIENTS: u32 = 4;

/// Ids that clients compete for.
const FREE_IDS: u8 = 5;
pub(crate) const BASE_IDS: usize = FREE_IDS as usize;

/// Objects with a home that there are at once.
const HOMED_IDS_MAX: usize = 8;

/// A client that only asks waits in such steps for what is restored.
const RESTORE_STEP_MS: u64 = 200;

/// An operation that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) client: ClientNo,
    id: ObjectId,
    /// The number of its last request.
    pub(crate) request: u64,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Creating { token: Box<Token> },
    Writing { token: Box<Token>, range: Range },
    Sealing,
    Waiting { given: Until, until: Until },
    Deleting,
}

/// How long a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// It only asks.
    Question,
    At(Mono),
    Ever,
}

impl Until {
    fn after(now: Mono, timeout_ms: Option<u64>) -> Self {
        match timeout_ms {
            None => Self::Ever,
            Some(0) => Self::Question,
            Some(ms) => Self::At(now.after_ms(ms)),
        }
    }

    fn timeout_ms(self, now: Mono) -> Option<u64> {
        match self {
            Self::Question => Some(0),
            Self::At(at) => Some((at.0.saturating_sub(now.0) / 1000).max(1)),
            Self::Ever => None,
        }
    }

    fn is_past(self, now: Mono) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }
}

/// The name of an id that any node may make.
fn name(number: u8) -> Option<Name> {
    Name::new("@sim", number.to_string()).ok()
}

impl World {
    pub(crate) fn make_ids(&mut self) {
        let names = (0..FREE_IDS).filter_map(name);
        names.for_each(|name| _ = self.add_name(name));
    }

    /// An id that any node may make, with its name.
    pub(crate) fn add_name(&mut self, name: Name) -> ObjectId {
        let id = name.id();
        self.names.insert(id, name);
        self.free.push(id);
        self.ids.push(id);
        id
    }

    /// A client on this machine does something.
    pub(crate) fn operate(&mut self, at: usize) -> Result<(), String> {
        let homed = self.ids.len() - self.free.len();
        let id = if self.dice.percent(80) {
            self.any_free_id()
        } else if self.dice.percent(60) && homed < HOMED_IDS_MAX {
            let identity = std::array::from_fn(|_| self.dice.below(256) as u8);
            let id = ObjectId::pooled(identity, Some(at as u16));
            self.ids.push(id);
            return self.put(at, id);
        } else {
            self.ids[self.dice.size_below(self.ids.len())]
        };
        match self.dice.below(12) {
            0..=3 if id.home().is_none() => self.put(at, id),
            4 | 5 => self.begin(at, Operation::Delete { id }).map(|_| ()),
            6 => {
                let no = self.begin(at, Operation::Get { id, timeout_ms: None })?;
                let ms = 100 + self.dice.below(4_000);
                self.after_ms(ms, What::Act(Act::GiveUp(at, no)));
                Ok(())
            }
            7 => {
                let timeout_ms = Some(1 + self.dice.below(3_000));
                self.begin(at, Operation::Get { id, timeout_ms }).map(|_| ())
            }
            8 => {
                let bytes = self.dice.pick(&[1, 100_000, 1 << 20]);
                let number = self.machines[at].next_request();
                let request = Request::Evict { bytes };
                self.feed(at, Event::Request(ClientNo(1), number, request))
            }
            _ => self.begin(at, Operation::Get { id, timeout_ms: Some(0) }).map(|_| ()),
        }
    }

    fn put(&mut self, at: usize, id: ObjectId) -> Result<(), String> {
        let data_bytes = match id.home() {
            None => self.dice.pick(&[0, 100, 3_000, 60_000, 400_000, 1_500_000]),
            Some(_) => self.dice.pick(&[0, 100, 60_000, 200_000]),
        };
        let copies = self.dice.pick(&[1, 2, 2, 3]);
        let copies_min = 1 + self.dice.below(u64::from(copies)) as u8;
        let copies_min = copies_min.min(2);
        let placement = match self.dice.percent(30) {
            true => CopyPlacement::Spread,
            false => CopyPlacement::Local,
        };
        let put = Operation::Put { id, data_bytes, copies, copies_min, placement };
        self.begin(at, put).map(|_| ())
    }

    pub(crate) fn begin(&mut self, at: usize, operation: Operation) -> Result<OperationNo, String> {
        let no = self.history.begin(self.now, at, operation);
        let client = match operation {
            Operation::Delete { .. } => CLIENTS,
            _ => 1 + self.dice.below(u64::from(CLIENTS) - 1) as u32,
        };
        self.note(|| format!("client {client} of {at} begins {no:?} {operation:?}"));
        let (client, now) = (ClientNo(client), self.now);
        let id = operation.id();
        match operation {
            Operation::Put { data_bytes, copies, copies_min, placement, .. } => {
                let token = self.token_of(at, &id, (copies, copies_min, placement));
                let attributes = token.attributes.encode().len() as u64;
                let sizes = Sizes { data: data_bytes, attributes, ..Sizes::default() };
                let traits = Traits::default();
                let stage = Stage::Creating { token: Box::new(token) };
                let request = Request::Create { id, sizes, traits, strict: false };
                self.ask(at, no, (client, id, stage), request)?;
            }
            Operation::Get { timeout_ms, .. } => {
                let given = Until::after(now, timeout_ms);
                if !self.read(at, no, &id)? {
                    self.wait(at, no, (client, id), (given, given))?;
                }
            }
            Operation::Delete { .. } => {
                let request = Request::Delete { ids: vec![id] };
                self.ask(at, no, (client, id, Stage::Deleting), request)?;
            }
        }
        Ok(no)
    }

    /// What a put makes.
    fn token_of(
        &mut self,
        at: usize,
        id: &ObjectId,
        (copies, copies_min, placement): (u8, u8, CopyPlacement),
    ) -> Token {
        let is_homed = id.home().is_some();
        if !is_homed {
            self.last_serial += 1;
        }
        let serial = if is_homed { 0 } else { self.last_serial };
        let draw = self.last_serial + u64::from(id.as_bytes()[0]);
        let is_durable = self.has_logs() && !draw.is_multiple_of(3);
        let class = if is_durable { Durability::Durable } else { Durability::Memory };
        let origin = None;
        let pool = Some(PoolAttributes {
            copies,
            copies_min,
            class,
            placement,
            origin,
            serial,
            owns_members: false,
        });
        let name = self.names.get(id).cloned();
        let attributes = Attributes { name, pool, ..Attributes::default() };
        let machine = &self.machines[at];
        let birth = Birth { slot: machine.slot(), boot: machine.boot, serial };
        if is_durable {
            self.durable_puts.insert((*id, birth));
        }
        Token { id: *id, birth, attributes, parts: None }
    }

    fn ask(
        &mut self,
        at: usize,
        no: OperationNo,
        (client, id, stage): (ClientNo, ObjectId, Stage),
        request: Request,
    ) -> Result<(), String> {
        let machine = &mut self.machines[at];
        let number = machine.next_request();
        machine.asked.insert((client, number), no);
        machine.tasks.insert(no, Task { client, id, request: number, stage });
        self.feed(at, Event::Request(client, number, request))
    }

    /// Reads an object that is in the index; whether it is.
    fn read(&mut self, at: usize, no: OperationNo, id: &ObjectId) -> Result<bool, String> {
        let Some((entry, token)) = self.machines[at].visible(id)? else { return Ok(false) };
        self.machines[at].directory_mut().pin(id);
        self.last_pin += 1;
        let (pin, birth, boot) = (self.last_pin, token.birth, self.machines[at].boot);
        let held = Pin { serial: entry.serial, range: entry.range, token };
        self.machines[at].pins.insert(pin, held);
        let ms = if self.dice.percent(3) { 3_000 } else { 100 };
        let ms = self.dice.below(ms);
        self.after_ms(ms, What::Act(Act::Unpin { at, boot, pin }));
        self.end(at, no, Outcome::Read(birth))?;
        Ok(true)
    }

    /// A reader is done. What it read did not change.
    pub(crate) fn unpin(&mut self, at: usize, boot: u64, pin: u64) -> Result<(), String> {
        let machine = &mut self.machines[at];
        if machine.boot != boot {
            return Ok(());
        }
        let Some(Pin { serial, range, token }) = machine.pins.remove(&pin) else { return Ok(()) };
        let now = machine.memory.read(&range);
        if now != Some(&token) {
            return Err(format!("{at} has {now:?} where a client reads {token:?}"));
        }
        machine.directory_mut().unpin(serial);
        Ok(())
    }

    fn wait(
        &mut self,
        at: usize,
        no: OperationNo,
        (client, id): (ClientNo, ObjectId),
        (given, until): (Until, Until),
    ) -> Result<(), String> {
        let timeout_ms = until.timeout_ms(self.now);
        let stage = Stage::Waiting { given, until };
        let request = Request::Wait { ids: vec![id], count: 1, timeout_ms, beyond_end: false };
        self.ask(at, no, (client, id, stage), request)
    }

    /// A client is answered.
    pub(crate) fn replied(
        &mut self,
        at: usize,
        client: ClientNo,
        request: u64,
        reply: Reply,
    ) -> Result<(), String> {
        if self.adoption_replied(at, (client, request), &reply)? {
            return Ok(());
        }
        let machine = &mut self.machines[at];
        let Some(no) = machine.asked.remove(&(client, request)) else { return Ok(()) };
        let Some(task) = machine.tasks.remove(&no) else { return Ok(()) };
        let Task { id, stage, .. } = task;
        match (stage, reply) {
            (Stage::Creating { token }, Reply::Created(grant)) => {
                self.created(at, no, (client, id), token, &grant)
            }
            (Stage::Creating { .. }, Reply::Failed(failure)) => {
                self.end(at, no, Outcome::Put(Err(failure.code)))
            }
            (Stage::Sealing, Reply::Failed(failure)) => {
                // What the pool refuses has ended; this is still under construction.
                if failure.code == Code::Cancelled {
                    let number = self.machines[at].next_request();
                    self.feed(at, Event::Request(client, number, Request::Abort { id }))?;
                }
                self.end(at, no, Outcome::Put(Err(failure.code)))
            }
            (Stage::Sealing, Reply::Done) => self.end(at, no, Outcome::Put(Ok(()))),
            (Stage::Deleting, Reply::Outcomes(outcomes)) => match outcomes.first() {
                Some(None) => self.end(at, no, Outcome::Deleted),
                Some(Some(code)) => self.end(at, no, Outcome::NotDeleted(*code)),
                None => Err("a delete without an outcome".into()),
            },
            (Stage::Waiting { .. }, Reply::Failed(failure)) => {
                self.end(at, no, Outcome::Failed(failure.code))
            }
            (Stage::Waiting { given, until }, Reply::States(states)) => {
                let state = states.first().copied().unwrap_or(ObjectState::Absent);
                self.waited(at, no, (client, id), (given, until), state)
            }
            (stage, reply) => Err(format!("{reply:?} is no answer in {stage:?}")),
        }
    }

    fn created(
        &mut self,
        at: usize,
        no: OperationNo,
        (client, id): (ClientNo, ObjectId),
        token: Box<Token>,
        grant: &Grant,
    ) -> Result<(), String> {
        if self.dice.percent(3) {
            let number = self.machines[at].next_request();
            self.feed(at, Event::Request(client, number, Request::Abort { id }))?;
            return self.end(at, no, Outcome::Aborted);
        }
        let us = if self.dice.percent(5) { 200_000 } else { 3_000 };
        let us = self.dice.below(us);
        let stage = Stage::Writing { token, range: grant.range };
        let machine = &mut self.machines[at];
        machine.tasks.insert(no, Task { client, id, request: 0, stage });
        let life = machine.life;
        self.after_us(us, What::Act(Act::Written { at, life, no }));
        Ok(())
    }

    /// A client has written an object, and seals it.
    pub(crate) fn written(&mut self, at: usize, life: u64, no: OperationNo) -> Result<(), String> {
        let machine = &mut self.machines[at];
        if machine.life != life {
            return Ok(());
        }
        let Some(Task { client, id, stage, .. }) = machine.tasks.remove(&no) else {
            return Ok(());
        };
        let Stage::Writing { token, range } = stage else { return Err("written twice".into()) };
        let attributes = token.attributes.clone();
        let birth = token.birth;
        machine.memory.write(&range, *token)?;
        let number = machine.next_request();
        machine.asked.insert((client, number), no);
        machine.tasks.insert(no, Task { client, id, request: number, stage: Stage::Sealing });
        if let Some(record) = self.history.records.get_mut(&no) {
            record.birth = Some(birth);
        }
        self.kept.entry((id, birth)).or_default().insert(at);
        let target = SealTarget { id, target: id };
        self.feed(at, Event::Seal(client, number, target, Some(attributes)))
    }

    /// A wait ended: the client looks, waits again, or is told why there is nothing.
    fn waited(
        &mut self,
        at: usize,
        no: OperationNo,
        (client, id): (ClientNo, ObjectId),
        (given, until): (Until, Until),
        state: ObjectState,
    ) -> Result<(), String> {
        let now = self.now;
        let is_left = self.history.records.get(&no).is_none_or(|record| record.left);
        if state == ObjectState::Sealed && self.read(at, no, &id)? || is_left {
            return Ok(());
        }
        let question = Until::Question;
        let again = match state {
            ObjectState::Sealed => Some(until),
            // It gives up after a minute, which is longer than a run, or when a wait for it ends
            // early: there is no room.
            ObjectState::Spilled
                if given == question && (until == question || until.is_past(now)) =>
            {
                Some(Until::At(now.after_ms(RESTORE_STEP_MS)))
            }
            ObjectState::Absent | ObjectState::Creating
                if given != question && !until.is_past(now) =>
            {
                Some(until)
            }
            _ => None,
        };
        match again {
            Some(until) => self.wait(at, no, (client, id), (given, until)),
            None if matches!(given, Until::At(_)) && !is_ended(state) => {
                self.end(at, no, Outcome::Late(state))
            }
            None => self.end(at, no, Outcome::State(state)),
        }
    }

    pub(crate) fn give_up(&mut self, at: usize, no: OperationNo) -> Result<(), String> {
        let Some(record) = self.history.records.get_mut(&no) else { return Ok(()) };
        if record.end.is_some() || record.left {
            return Ok(());
        }
        record.left = true;
        let Some(task) = self.machines[at].tasks.get(&no) else { return Ok(()) };
        let (client, request) = (task.client, task.request);
        let number = self.machines[at].next_request();
        self.feed(at, Event::Request(client, number, Request::Cancel { request }))
    }

    /// A client dies, and another one takes its place.
    pub(crate) fn kill_client(&mut self, at: usize) -> Result<(), String> {
        let client = ClientNo(1 + self.dice.below(u64::from(CLIENTS)) as u32);
        self.end_client(at, client)
    }

    pub(crate) fn end_client(&mut self, at: usize, client: ClientNo) -> Result<(), String> {
        self.note(|| format!("client {client:?} of {at} dies"));
        let machine = &mut self.machines[at];
        let of_client = |(_, task): &(&OperationNo, &Task)| task.client == client;
        let gone: Vec<_> = machine.tasks.iter().filter(of_client).map(|(no, _)| *no).collect();
        machine.asked.retain(|(of, _), _| *of != client);
        for no in gone {
            machine.tasks.remove(&no);
            if let Some(record) = self.history.records.get_mut(&no) {
                record.left = true;
            }
        }
        self.feed(at, Event::Disconnect(client))?;
        self.end_session(at, client);
        self.connect_client(at, client)
    }

    /// An operation ended.
    pub(crate) fn end(
        &mut self,
        at: usize,
        no: OperationNo,
        outcome: Outcome,
    ) -> Result<(), String> {
        let now = self.now;
        let Some(record) = self.history.records.get_mut(&no) else { return Ok(()) };
        if record.end.is_some() || record.left {
            return Ok(());
        }
        record.end = Some((now, outcome.clone()));
        let (id, begin, birth) = (record.operation.id(), record.begin, record.birth);
        self.note(|| format!("{at} answers {no:?} {id}: {outcome:?}"));
        match outcome {
            Outcome::Put(Ok(())) if id.home().is_none() => {
                let birth = birth.ok_or("a put without a birth")?;
                self.acknowledge(id, birth)
            }
            Outcome::Put(Err(code)) => {
                check_refusal(code)?;
                self.check_cancelled(&id, code)
            }
            Outcome::Failed(Code::Io) => Ok(()),
            Outcome::Failed(code) => Err(format!("{id} cannot be read: {code:?}")),
            Outcome::State(ObjectState::Absent) => self.check_absent(id, begin),
            _ => Ok(()),
        }
    }
}

/// Whether a wait ends with this state, and not because its time is over.
fn is_ended(state: ObjectState) -> bool {
    let goes_on =
        [ObjectState::Absent, ObjectState::Creating, ObjectState::Spilled, ObjectState::Remote];
    !goes_on.contains(&state)
}

/// A put is refused for a reason that a client understands.
fn check_refusal(code: Code) -> Result<(), String> {
    let is_known = matches!(
        code,
        Code::Exists
            | Code::NotEnoughNodes
            | Code::StoreFull
            | Code::InUse
            | Code::Unreachable
            | Code::Cancelled
    );
    if is_known { Ok(()) } else { Err(format!("a put is refused with {code:?}")) }
}
