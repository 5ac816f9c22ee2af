//! Reads of parts and gathers of random runs: the right bytes, and an end for each of them.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, Gathered};
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::parts::{ReadFailure, ReadReply, Span};
use plasmon_testkit::Random;

use crate::event::{Assembled, Event, Fate};
use crate::limits::{INLINE_BYTES_MAX, SEGMENT_BYTES};
use crate::message::{InlineBytes, ObjectParts, SegmentRange, TransferNo};
use crate::object_parts::next_start;
use crate::record::Birth;

use super::history::{Operation, OperationNo};
use super::pieces::{Held, Pieces};
use super::questions::{Put, Question, check_gathered, check_parts, question};
use super::store::{Carried, Outcome, Store};
use super::world::{Act, What, World};

/// Of so many turns of clients one is a read.
const READ_ONE_OF: u64 = 4;

/// A read that a program asked for.
#[derive(Debug)]
struct Asked {
    at: usize,
    question: Question,
    /// Of each object.
    entries: Vec<OperationNo>,
    /// The local objects that the program was told of.
    landed: Vec<ObjectId>,
    /// The program does not want it any more.
    left: bool,
}

/// The reads of a run. They have dice of their own.
#[derive(Debug)]
pub(super) struct Reads {
    dice: Random,
    /// Of three runs two have them.
    are_made: bool,
    /// Those that are under way.
    asked: BTreeMap<u64, Asked>,
    last: u64,
}

impl Reads {
    pub(super) fn new(seed: u64) -> Self {
        let dice = Random::new(seed ^ 0x7265_6164);
        Self { dice, are_made: !seed.is_multiple_of(3), asked: BTreeMap::new(), last: 0 }
    }
}

impl Store {
    /// Parts of an object, if it is here.
    fn pieces(&self, id: &ObjectId, birth: Birth, spans: &[Span]) -> Option<Pieces> {
        let object = self.objects.get(id).filter(|object| object.birth == birth)?;
        let bytes = object.content.data_bytes + u64::from(object.content.metadata_bytes);
        let is_there = spans.last().is_none_or(|last| last.end() <= bytes);
        is_there.then(|| Pieces::of_spans(object.token.0, object.token.1, spans))
    }
}

impl World {
    /// A program reads parts of objects now and then.
    pub(super) fn read_at_random(&mut self, at: usize) -> Result<(), String> {
        let dice = &mut self.reads.dice;
        if !self.reads.are_made || dice.below(READ_ONE_OF) > 0 {
            return Ok(());
        }
        let history = &self.history;
        let birth_of = |id: &ObjectId| history.puts(*id).last().map(|(_, birth)| birth);
        // The first ones are asked for more often.
        let count = if dice.percent(70) { self.ids.len().min(5) } else { self.ids.len() };
        let question = question(dice, &self.ids[..count], birth_of);
        let number = self.begin_read(at, question)?;
        if self.reads.dice.percent(15) {
            let ms = self.reads.dice.below(2_000);
            self.after_ms(ms, What::Act(Act::EndRead(number)));
        }
        Ok(())
    }

    /// A program on a machine reads parts.
    pub(super) fn begin_read(&mut self, at: usize, question: Question) -> Result<u64, String> {
        self.reads.last += 1;
        let number = self.reads.last;
        let bytes: [u8; OBJECT_ID_BYTES] =
            std::array::from_fn(|_| self.reads.dice.below(256) as u8);
        let landing = ObjectId::new(bytes).unmarked();
        let mut entries = Vec::new();
        for id in question.ids() {
            let operation = Operation::Get { id, patient: false };
            entries.push(self.history.begin(self.now, at, operation));
        }
        self.note(|| format!("{at} begins read {number}, {entries:?}: {question:?}"));
        let event = match question.clone() {
            Question::One(request) => Event::Read { number, landing, request },
            Question::Many(request) => Event::Gather { number, landing, request },
        };
        let (landed, left) = (Vec::new(), false);
        self.reads.asked.insert(number, Asked { at, question, entries, landed, left });
        self.give(at, event)?;
        Ok(number)
    }

    /// In quiet times, programs read parts of everything on every node.
    pub(super) fn read_everything(&mut self) -> Result<Vec<OperationNo>, String> {
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
    pub(super) fn end_read(&mut self, number: u64) -> Result<(), String> {
        let Some(asked) = self.reads.asked.get(&number) else { return Ok(()) };
        let at = asked.at;
        self.leave_read(number);
        self.give(at, Event::EndRead(number))
    }

    fn leave_read(&mut self, number: u64) {
        let Some(asked) = self.reads.asked.get_mut(&number) else { return };
        asked.left = true;
        for no in &asked.entries {
            self.history.entries.entry(*no).and_modify(|entry| entry.left = true);
        }
        let landed = std::mem::take(&mut asked.landed);
        let locals = &mut self.machines[asked.at].store.locals;
        landed.iter().for_each(|id| _ = locals.remove(id));
    }

    /// The pool daemon of a machine ended, and the connections of its programs.
    pub(super) fn leave_reads(&mut self, at: usize) {
        let of_machine = |(_, asked): &(&u64, &Asked)| asked.at == at;
        let numbers = self.reads.asked.iter().filter(of_machine).map(|(number, _)| *number);
        for number in numbers.collect::<Vec<_>>() {
            self.leave_read(number);
            self.reads.asked.remove(&number);
        }
        self.machines[at].store.locals.clear();
    }

    /// A local object was sealed for a gather.
    pub(super) fn gather_landed(
        &mut self,
        at: usize,
        number: u64,
        object: ObjectId,
    ) -> Result<(), String> {
        let asked = self.reads.asked.get_mut(&number).filter(|asked| asked.at == at);
        let Some(asked) = asked else { return Err(format!("{object} is of no gather")) };
        if asked.left {
            self.machines[at].store.locals.remove(&object);
        } else {
            asked.landed.push(object);
        }
        Ok(())
    }

    /// A read of one object is answered.
    pub(super) fn read_answered(
        &mut self,
        at: usize,
        number: u64,
        reply: ReadReply,
    ) -> Result<(), String> {
        self.note(|| format!("{at} answers read {number}: {reply:?}"));
        let asked = self.reads.asked.remove(&number).filter(|asked| asked.at == at);
        let Some(Asked { question: Question::One(request), entries, left, .. }) = asked else {
            return Err(format!("nothing asked for {reply:?}"));
        };
        let (no, question) = (entries[0], Question::One(request.clone()));
        match reply {
            ReadReply::Parts(parts) => {
                let held = self.take_local(at, parts.object)?;
                if left {
                    return Ok(());
                }
                let birth = check_parts(&request, &parts, held.as_ref(), &self.puts(&request.id))?;
                self.end_entry(no, Outcome::Read(birth))
            }
            ReadReply::Here => {
                self.left_entry(no);
                Ok(())
            }
            ReadReply::Failed(failure) => self.read_failed(no, (&question, 0), failure),
        }
    }

    /// A gather is answered.
    pub(super) fn gathered(
        &mut self,
        at: usize,
        number: u64,
        reply: &GatherReply,
    ) -> Result<(), String> {
        self.note(|| format!("{at} answers gather {number}: {reply:?}"));
        let asked = self.reads.asked.remove(&number).filter(|asked| asked.at == at);
        let Some(Asked { question, entries, landed, left, .. }) = asked else {
            return Err(format!("nothing asked for {reply:?}"));
        };
        let Question::Many(request) = &question else { return Err("no gather".into()) };
        if left {
            return Ok(());
        }
        if reply.reads.len() != request.reads.len() || reply.objects != landed {
            return Err(format!("{reply:?} does not answer {request:?}, {landed:?}"));
        }
        let mut objects = Vec::new();
        for object in &reply.objects {
            objects.push(self.take_local(at, Some(*object))?);
        }
        for (place, (gathered, read)) in reply.reads.iter().zip(&request.reads).enumerate() {
            let no = entries[place];
            match gathered {
                Gathered::Parts { object, .. } => {
                    let held = objects.get(usize::from(*object)).and_then(Option::as_ref);
                    match check_gathered(read, gathered, held, &self.puts(&read.id))? {
                        Some(birth) => self.end_entry(no, Outcome::Read(birth))?,
                        None => self.left_entry(no),
                    }
                }
                Gathered::Here => self.left_entry(no),
                Gathered::Failed(failure) => self.read_failed(no, (&question, place), *failure)?,
            }
        }
        Ok(())
    }

    /// A program takes a local object, and deletes it.
    fn take_local(&mut self, at: usize, id: Option<ObjectId>) -> Result<Option<Held>, String> {
        let Some(id) = id else { return Ok(None) };
        let held = self.machines[at].store.locals.remove(&id);
        held.map(Some).ok_or_else(|| format!("{at} has no local object {id}"))
    }

    fn puts(&self, id: &ObjectId) -> Vec<Put> {
        let put = |(entry, birth): (&super::history::Entry, Birth)| match entry.operation {
            Operation::Put { id, content, .. } => Some(Put { id, birth, content }),
            _ => None,
        };
        self.history.puts(*id).filter_map(put).collect()
    }

    fn end_entry(&mut self, no: OperationNo, outcome: Outcome) -> Result<(), String> {
        let now = self.now;
        let Some(entry) = self.history.entries.get_mut(&no) else { return Ok(()) };
        let (id, begin) = (entry.operation.id(), entry.begin);
        if entry.left {
            return Ok(());
        }
        let is_absent = outcome == Outcome::Fate(Fate::Absent);
        entry.end = Some((now, outcome));
        if is_absent { self.check_absent(id, begin) } else { Ok(()) }
    }

    /// What a program was told says nothing about incarnations: it reads the object in its own
    /// store, or wanted no bytes.
    fn left_entry(&mut self, no: OperationNo) {
        self.history.entries.entry(no).and_modify(|entry| entry.left = true);
    }

    fn read_failed(
        &mut self,
        no: OperationNo,
        (question, place): (&Question, usize),
        failure: ReadFailure,
    ) -> Result<(), String> {
        let Some(entry) = self.history.entries.get_mut(&no).filter(|entry| !entry.left) else {
            return Ok(());
        };
        let (id, begin, now) = (entry.operation.id(), entry.begin, self.now);
        match failure {
            ReadFailure::Absent => self.end_entry(no, Outcome::Fate(Fate::Absent)),
            ReadFailure::Deleted if question.birth().is_some() => {
                entry.left = true;
                let exists = self.history.certain(id, begin, now);
                let is_wrong = exists.is_some() && exists == question.birth();
                if is_wrong && !self.history.wiped.contains_key(&id) {
                    return Err(format!("{id} is deleted, and {exists:?} exists"));
                }
                Ok(())
            }
            ReadFailure::Deleted => self.end_entry(no, Outcome::Fate(Fate::Deleted)),
            ReadFailure::Lost => self.end_entry(no, Outcome::Fate(Fate::Lost)),
            ReadFailure::Unreachable => self.end_entry(no, Outcome::Fate(Fate::Unreachable)),
            ReadFailure::Damaged => self.end_entry(no, Outcome::Fate(Fate::Damaged)),
            // There was none for the parts; the object may exist.
            ReadFailure::NoRoom => {
                entry.left = true;
                Ok(())
            }
            ReadFailure::Beyond { data_bytes } => {
                entry.left = true;
                let puts = self.puts(&id);
                let is_so = puts.iter().any(|put| put.content.data_bytes == data_bytes);
                if is_so && data_bytes < question.end(place) {
                    return Ok(());
                }
                Err(format!("{id} is said to end at {data_bytes}: {question:?}"))
            }
            ReadFailure::Busy => Err("a node is busy with a few reads".into()),
        }
    }

    /// A copy is read, or parts of it, for a message.
    pub(super) fn fetch_parts(
        &mut self,
        at: usize,
        (id, birth): (ObjectId, Birth),
        spans: &[Span],
    ) -> Option<Vec<u8>> {
        self.machines[at].store.pieces(&id, birth, spans).map(|pieces| pieces.to_bytes())
    }

    /// The segments of parts of a copy.
    pub(super) fn segments_of(
        &self,
        at: usize,
        (id, birth): (ObjectId, Birth),
        spans: &[Span],
    ) -> Option<impl Fn(u32) -> Carried + use<>> {
        let pieces = self.machines[at].store.pieces(&id, birth, spans)?;
        Some(move |segment: u32| {
            Carried::Parts(pieces.part(u64::from(segment) * SEGMENT_BYTES, SEGMENT_BYTES))
        })
    }

    /// Parts of several copies are put together.
    pub(super) fn assemble(
        &mut self,
        at: usize,
        (peer, transfer): (Slot, TransferNo),
        parts: &[ObjectParts],
    ) {
        *self.machines[at].serves.entry((peer, transfer)).or_default() += 1;
        let (mut all, mut missing) = (Pieces::default(), Vec::new());
        for (place, ObjectParts { id, birth, spans }) in (0..).zip(parts) {
            all.append(&Pieces::zeros(next_start(all.bytes()) - all.bytes()));
            match self.machines[at].store.pieces(id, *birth, spans) {
                Some(pieces) => all.append(&pieces),
                None => missing.push(place),
            }
        }
        if missing.is_empty() && all.bytes() > INLINE_BYTES_MAX {
            let ranges = [SegmentRange { first: 0, count: 1 }];
            return self
                .send_segments(at, (peer, transfer), &ranges, |_| Carried::Parts(all.clone()));
        }
        let outcome = if missing.is_empty() {
            let mut bytes = all.to_bytes();
            // Some bytes are missing now and then.
            if self.reads.dice.permille(10) {
                bytes.pop();
            }
            Assembled::Whole(InlineBytes(bytes))
        } else {
            Assembled::Missing(missing)
        };
        self.later(at, Event::Assembled { peer, transfer, outcome });
    }

    /// Nothing is left of parts that programs read.
    pub(super) fn check_reads(&self) -> Result<(), String> {
        if let Some((number, asked)) = self.reads.asked.iter().find(|(_, asked)| !asked.left) {
            return Err(format!("read {number} has no end: {asked:?}"));
        }
        for machine in &self.machines {
            if !machine.store.locals.is_empty() {
                let (at, locals) = (machine.index, &machine.store.locals);
                return Err(format!("{at} has parts that no program takes: {locals:?}"));
            }
        }
        Ok(())
    }
}
