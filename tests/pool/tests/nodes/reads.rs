//! Programs that read parts of objects and gather, through the pool daemon of their machine: the
//! right bytes, and an end for each read.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_pool::{Birth, Content, Effect, Event};
use plasmon_proto::gather::{GatherReply, Gathered};
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::message::Request;
use plasmon_proto::parts::{Parts, ReadFailure, ReadReply};
use plasmon_proto::{ObjectId, ObjectState};
use plasmon_store::{ClientNo, Event as StoreEvent};
use plasmon_testkit::Random;

use super::agents::{Input, Purpose};
use super::clients::CLIENTS;
use super::history::{Operation, OperationNo, Outcome};
use super::machine::Pin;
use super::pieces::Held;
use super::questions::{Put, Question, check_gathered, check_parts, question};
use super::world::{Act, What, World};

/// Of so many turns of clients one is a read.
const READ_ONE_OF: u64 = 4;

/// After so long without faults every object can be reached.
const SETTLE_MS: u64 = 15_000;

/// Ids that are asked for more often than others.
const OFTEN: usize = 5;

#[derive(Clone, Debug)]
enum Answer {
    One(ReadReply),
    Many(GatherReply),
}

/// A read that a program waits for.
#[derive(Debug)]
struct Asked {
    at: usize,
    question: Question,
    /// Of each object.
    entries: Vec<OperationNo>,
    /// Local objects that the store has not sealed, has, and cannot.
    unsealed: BTreeSet<ObjectId>,
    sealed: BTreeSet<ObjectId>,
    failed: BTreeSet<ObjectId>,
    answer: Option<Answer>,
}

/// The reads of a run. They have dice of their own.
#[derive(Debug)]
pub(crate) struct Reads {
    dice: Random,
    /// Of three runs two have them.
    are_made: bool,
    asked: BTreeMap<u64, Asked>,
    /// Reads that no program waits for any more.
    left: BTreeSet<u64>,
    /// What stores are sealing: on which machine, and for which read.
    sealing: BTreeMap<ObjectId, (usize, u64)>,
    last: u64,
}

impl Reads {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Random::new(seed ^ 0x7265_6164),
            are_made: !seed.is_multiple_of(3),
            asked: BTreeMap::new(),
            left: BTreeSet::new(),
            sealing: BTreeMap::new(),
            last: 0,
        }
    }
}

impl World {
    /// A program reads parts of objects now and then.
    pub(crate) fn read_at_random(&mut self, at: usize) -> Result<(), String> {
        let is_time = self.reads.are_made && self.reads.dice.below(READ_ONE_OF) == 0;
        if !is_time || !self.is_asked(at) {
            return Ok(());
        }
        let dice = &mut self.reads.dice;
        let count = if dice.percent(70) { self.ids.len().min(OFTEN) } else { self.ids.len() };
        let history = &self.history;
        let birth_of = |id: &ObjectId| history.puts(*id).last().map(|(_, birth)| birth);
        let question = question(dice, &self.ids[..count], birth_of);
        let number = self.begin_read(at, question)?;
        if self.reads.dice.percent(15) {
            let ms = self.reads.dice.below(2_000);
            self.after_ms(ms, What::Act(Act::EndRead(number)));
        }
        Ok(())
    }

    /// Whether the pool daemon of a machine takes what programs ask: before it takes part it has
    /// them ask again.
    pub(crate) fn is_asked(&self, at: usize) -> bool {
        let agent = self.machines[at].agent.as_ref();
        agent.is_some_and(|agent| agent.is_ready && agent.node.is_some())
    }

    fn begin_read(&mut self, at: usize, question: Question) -> Result<u64, String> {
        self.reads.last += 1;
        let number = self.reads.last;
        let bytes: [u8; OBJECT_ID_BYTES] =
            std::array::from_fn(|_| self.reads.dice.below(256) as u8);
        let landing = ObjectId::new(bytes).unmarked();
        let mut entries = Vec::new();
        for id in question.ids() {
            let operation = Operation::Get { id, timeout_ms: Some(0) };
            entries.push(self.history.begin(self.now, at, operation));
        }
        self.note(|| format!("{at} begins read {number}, {entries:?}: {question:?}"));
        let event = match question.clone() {
            Question::One(request) => Event::Read { number, landing, request },
            Question::Many(request) => Event::Gather { number, landing, request },
        };
        let (unsealed, sealed, failed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let asked = Asked { at, question, entries, unsealed, sealed, failed, answer: None };
        self.reads.asked.insert(number, asked);
        self.give(at, Input::Node(event))?;
        Ok(number)
    }

    /// In quiet times, programs read parts of everything on every node.
    pub(crate) fn read_everything(&mut self) -> Result<Vec<OperationNo>, String> {
        let mut entries = Vec::new();
        let ids = if self.reads.are_made { self.ids.clone() } else { Vec::new() };
        for ids in ids.chunks(4) {
            for at in 0..self.machines.len() {
                let question = question(&mut self.reads.dice, ids, |_| None);
                let number = self.begin_read(at, question)?;
                let asked = self.reads.asked.get(&number);
                entries.extend(asked.into_iter().flat_map(|asked| asked.entries.iter().copied()));
            }
        }
        Ok(entries)
    }

    /// A program does not wait any more.
    pub(crate) fn end_read(&mut self, number: u64) -> Result<(), String> {
        let Some(at) = self.reads.asked.get(&number).map(|asked| asked.at) else { return Ok(()) };
        let sealed = self.leave_read(number);
        self.delete_parts(at, sealed);
        self.give(at, Input::Node(Event::EndRead(number)))
    }

    /// No program waits for a read; its local objects that are sealed.
    fn leave_read(&mut self, number: u64) -> BTreeSet<ObjectId> {
        let Some(asked) = self.reads.asked.remove(&number) else { return BTreeSet::new() };
        self.reads.left.insert(number);
        asked.entries.into_iter().for_each(|no| self.leave_entry(no));
        asked.sealed
    }

    /// The pool daemon of a machine ended, and the connections of its programs. What it had sealed
    /// deletes itself some time.
    pub(crate) fn leave_reads(&mut self, at: usize) {
        let of_machine = |(_, asked): &(&u64, &Asked)| asked.at == at;
        let numbers = self.reads.asked.iter().filter(of_machine).map(|(number, _)| *number);
        for number in numbers.collect::<Vec<_>>() {
            self.leave_read(number);
        }
        self.reads.sealing.retain(|_, (of, _)| *of != at);
    }

    fn delete_parts(&mut self, at: usize, ids: impl IntoIterator<Item = ObjectId>) {
        let ids: Vec<_> = ids.into_iter().collect();
        if !ids.is_empty() {
            self.ask_store(at, Request::Delete { ids }, Purpose::Delete);
        }
    }

    /// A node answers a read, or tells of a local object.
    pub(crate) fn read_effect(&mut self, at: usize, effect: Effect) -> Result<(), String> {
        self.note(|| format!("node {at} answers {effect:?}"));
        let (number, answer) = match effect {
            Effect::GatherLanded { number, object } => return self.landed_for(at, number, object),
            Effect::Gathered { number, reply } => (number, Answer::Many(reply)),
            Effect::Read { number, reply } => {
                if let ReadReply::Parts(Parts { object: Some(object), .. }) = reply {
                    self.landed_for(at, number, object)?;
                }
                (number, Answer::One(reply))
            }
            other => return Err(format!("{other:?} is no answer")),
        };
        match self.reads.asked.get_mut(&number).filter(|asked| asked.at == at) {
            Some(asked) if asked.answer.is_some() => Err(format!("read {number} ends twice")),
            Some(asked) => {
                asked.answer = Some(answer);
                self.answer_read(number)
            }
            None if self.reads.left.contains(&number) => Ok(()),
            None => Err(format!("nothing asked for read {number}")),
        }
    }

    /// The store is told to seal a local object.
    fn landed_for(&mut self, at: usize, number: u64, object: ObjectId) -> Result<(), String> {
        let before = self.reads.sealing.insert(object, (at, number));
        if before.is_some() {
            return Err(format!("{object} is of two reads"));
        }
        if let Some(asked) = self.reads.asked.get_mut(&number) {
            asked.unsealed.insert(object);
        }
        Ok(())
    }

    /// The store has sealed a local object, or cannot.
    pub(crate) fn parts_sealed(
        &mut self,
        at: usize,
        id: ObjectId,
        is_sealed: bool,
    ) -> Result<(), String> {
        let number = self.reads.sealing.remove(&id);
        let Some((number, asked)) =
            number.and_then(|(_, number)| Some((number, self.reads.asked.get_mut(&number)?)))
        else {
            self.delete_parts(at, [id]);
            return Ok(());
        };
        asked.unsealed.remove(&id);
        if is_sealed {
            asked.sealed.insert(id)
        } else {
            asked.failed.insert(id)
        };
        self.answer_read(number)
    }

    /// Answers the program, if everything is there.
    fn answer_read(&mut self, number: u64) -> Result<(), String> {
        let is_ready = |asked: &Asked| asked.unsealed.is_empty() && asked.answer.is_some();
        if !self.reads.asked.get(&number).is_some_and(is_ready) {
            return Ok(());
        }
        let Some(asked) = self.reads.asked.remove(&number) else { return Ok(()) };
        let Asked { at, question, entries, sealed, failed, answer, .. } = asked;
        let mut held = BTreeMap::new();
        for id in sealed {
            if let Some(parts) = self.take_local(at, id)? {
                held.insert(id, parts);
            }
        }
        match answer {
            Some(Answer::One(reply)) => {
                self.read_one(&question, entries[0], reply, (&held, &failed))
            }
            Some(Answer::Many(reply)) => self.gathered(&question, &entries, &reply, &held),
            None => Ok(()),
        }
    }

    fn read_one(
        &mut self,
        question: &Question,
        no: OperationNo,
        reply: ReadReply,
        (held, failed): (&BTreeMap<ObjectId, Held>, &BTreeSet<ObjectId>),
    ) -> Result<(), String> {
        let Question::One(request) = question else { return Err("no read of one object".into()) };
        match reply {
            ReadReply::Parts(parts) => {
                let object = parts.object.as_ref();
                let local = object.and_then(|id| held.get(id));
                if object.is_some_and(|id| failed.contains(id) || !held.contains_key(id)) {
                    // The store could not seal it, or has evicted it since.
                    self.leave_entry(no);
                    return Ok(());
                }
                let birth = check_parts(request, &parts, local, &self.puts(&request.id))?;
                self.end_entry(no, Outcome::Read(birth))
            }
            ReadReply::Here => {
                self.leave_entry(no);
                Ok(())
            }
            ReadReply::Failed(failure) => self.read_failed(no, (question, 0), failure),
        }
    }

    fn gathered(
        &mut self,
        question: &Question,
        entries: &[OperationNo],
        reply: &GatherReply,
        held: &BTreeMap<ObjectId, Held>,
    ) -> Result<(), String> {
        let Question::Many(request) = question else { return Err("no gather".into()) };
        if reply.reads.len() != request.reads.len() {
            return Err(format!("{reply:?} does not answer {request:?}"));
        }
        for (place, (gathered, read)) in reply.reads.iter().zip(&request.reads).enumerate() {
            let no = entries[place];
            match gathered {
                Gathered::Parts { object, .. } => {
                    let local = reply.objects.get(usize::from(*object));
                    let local = local.and_then(|id| held.get(id));
                    if local.is_none() && !read.spans.is_empty() {
                        self.leave_entry(no);
                        continue;
                    }
                    match check_gathered(read, gathered, local, &self.puts(&read.id))? {
                        Some(birth) => self.end_entry(no, Outcome::Read(birth))?,
                        None => self.leave_entry(no),
                    }
                }
                Gathered::Here => self.leave_entry(no),
                Gathered::Failed(failure) => self.read_failed(no, (question, place), *failure)?,
            }
        }
        Ok(())
    }

    /// A program pins a local object, and deletes it. It may be evicted before.
    fn take_local(&mut self, at: usize, id: ObjectId) -> Result<Option<Held>, String> {
        let Some((entry, token)) = self.machines[at].visible(&id)? else { return Ok(None) };
        self.last_pin += 1;
        let (pin, boot) = (self.last_pin, self.machines[at].boot);
        let machine = &mut self.machines[at];
        machine.directory_mut().pin(&id);
        let held = token.parts.clone();
        machine.pins.insert(pin, Pin { serial: entry.serial, range: entry.range, token });
        let ms = self.reads.dice.below(50);
        self.after_ms(ms, What::Act(Act::Unpin { at, boot, pin }));
        let number = self.machines[at].next_request();
        let request = Request::Delete { ids: vec![id] };
        self.feed(at, StoreEvent::Request(ClientNo(CLIENTS), number, request))?;
        Ok(held)
    }

    fn puts(&self, id: &ObjectId) -> Vec<Put> {
        let put = |(record, birth): (&super::history::Record, Birth)| match record.operation {
            Operation::Put { id, data_bytes, .. } => {
                let content = Content { data_bytes, ..Content::default() };
                Some(Put { id, birth, content })
            }
            _ => None,
        };
        self.history.puts(*id).filter_map(put).collect()
    }

    fn end_entry(&mut self, no: OperationNo, outcome: Outcome) -> Result<(), String> {
        let at = self.history.records.get(&no).map_or(0, |record| record.node);
        self.end(at, no, outcome)
    }

    /// What a program was told says nothing about incarnations.
    fn leave_entry(&mut self, no: OperationNo) {
        self.history.records.entry(no).and_modify(|record| record.left = true);
    }

    fn read_failed(
        &mut self,
        no: OperationNo,
        (question, place): (&Question, usize),
        failure: ReadFailure,
    ) -> Result<(), String> {
        let Some(record) = self.history.records.get(&no) else { return Ok(()) };
        let (id, begin, now) = (record.operation.id(), record.begin, self.now);
        let is_wiped = self.history.wiped.contains_key(&id);
        match failure {
            ReadFailure::Absent => return self.end_entry(no, Outcome::State(ObjectState::Absent)),
            ReadFailure::Deleted if question.birth().is_none() => {
                return self.end_entry(no, Outcome::State(ObjectState::Deleted));
            }
            ReadFailure::Deleted => {
                let exists = self.history.certain(id, begin, now);
                if exists.is_some() && exists == question.birth() && !is_wiped {
                    return Err(format!("{id} is deleted, and {exists:?} exists"));
                }
            }
            ReadFailure::Beyond { data_bytes } => {
                let puts = self.puts(&id);
                let is_so = puts.iter().any(|put| put.content.data_bytes == data_bytes);
                if !is_so || data_bytes >= question.end(place) {
                    return Err(format!("{id} is said to end at {data_bytes}: {question:?}"));
                }
            }
            ReadFailure::Busy => return Err("a node is busy with a few reads".into()),
            ReadFailure::Damaged => return Err(format!("{id} is said to be damaged")),
            ReadFailure::Lost if !self.has_faults && begin > self.quiet_at.after_ms(SETTLE_MS) => {
                if let Some(machine) = self.machines.iter().find(|m| m.has_any(&id)) {
                    return Err(format!("{id} is lost, but {} has it", machine.index));
                }
            }
            ReadFailure::Unreachable
                if !self.has_faults && begin > self.quiet_at.after_ms(SETTLE_MS) =>
            {
                return Err(format!("{id} is unreachable in quiet times: {question:?}"));
            }
            // There is no room, or no node can be asked now.
            ReadFailure::Lost | ReadFailure::Unreachable | ReadFailure::NoRoom => {}
        }
        self.leave_entry(no);
        Ok(())
    }

    /// Every read has an end.
    pub(crate) fn check_reads(&self) -> Result<(), String> {
        match self.reads.asked.first_key_value() {
            Some((number, asked)) => Err(format!("read {number} has no end: {asked:?}")),
            None if self.reads.sealing.is_empty() => Ok(()),
            None => Err(format!("local objects are not sealed: {:?}", self.reads.sealing)),
        }
    }
}
