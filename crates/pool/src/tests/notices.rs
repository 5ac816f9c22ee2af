//! Subscriptions of random runs: what is told can have happened, and in quiet times all that
//! happens is told, once.

use std::collections::BTreeMap;

use plasmon_proto::{Name, ObjectId};

use crate::event::{Description, Event};
use crate::message::PoolNotice;
use crate::record::{Birth, Content};
use crate::time::Mono;

use super::history::{Operation, OperationNo};
use super::store::Outcome;
use super::world::{What, World};

/// Of so many operations of clients one subscribes, in every other run.
const SUBSCRIBE_ONE_OF: u64 = 60;

/// How long a store takes to say what an object is called.
const DESCRIBE_US: u64 = 50;

/// In quiet times: until every node is watched, and until a step is told.
const WATCH_MS: u64 = 4_000;
const STEP_MS: u64 = 2_000;

/// What a program was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Born(ObjectId, Birth),
    Ended(ObjectId, Birth),
    Lost,
}

/// A program that subscribed.
#[derive(Debug)]
struct Subscription {
    at: usize,
    incarnation: u64,
    is_told: bool,
    told: Vec<Told>,
    /// What was told last of each id.
    last: BTreeMap<ObjectId, (Birth, bool)>,
}

/// The subscriptions of a run.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(BTreeMap<u64, Subscription>);

impl Subscription {
    fn tell(&mut self, notice: &PoolNotice) -> Result<(), String> {
        let PoolNotice { id, birth, is_born, .. } = *notice;
        let is_right = match self.last.insert(id, (birth, is_born)) {
            None => true,
            Some((before, true)) => before == birth && !is_born,
            Some((before, false)) => before != birth,
        };
        self.told.push(if is_born { Told::Born(id, birth) } else { Told::Ended(id, birth) });
        if is_right { Ok(()) } else { Err(format!("told {notice:?} after {:?}", self.told)) }
    }
}

impl World {
    /// A client subscribes now and then.
    pub(super) fn subscribe_at_random(&mut self, at: usize) -> Result<(), String> {
        let is_time = self.listings.is_one_of(SUBSCRIBE_ONE_OF);
        if is_time { self.subscribe(at).map(|_| ()) } else { Ok(()) }
    }

    fn subscribe(&mut self, at: usize) -> Result<u64, String> {
        let number = self.subscriptions.0.len() as u64 + 1;
        let incarnation = self.machines[at].incarnation;
        let (is_told, told, last) = (false, Vec::new(), BTreeMap::new());
        let subscription = Subscription { at, incarnation, is_told, told, last };
        self.subscriptions.0.insert(number, subscription);
        self.give(at, Event::Subscribe { number })?;
        Ok(number)
    }

    /// The store says what an object is called. It answers in the order in which it was asked.
    pub(super) fn describe(&mut self, at: usize, number: u64, id: ObjectId, birth: Birth) {
        let machine = &self.machines[at];
        let found = machine.store.has(&id, birth).then(|| Description {
            name: Name { namespace: "all".to_owned(), text: id.to_string() },
            data_bytes: 1,
            metadata_bytes: 0,
        });
        let (incarnation, due) = (machine.incarnation, Mono(self.now.0 + DESCRIBE_US));
        self.at(due, What::Node { at, incarnation, event: Event::Described { number, found } });
    }

    pub(super) fn subscribed(&mut self, number: u64) -> Result<(), String> {
        let subscription = self.subscriptions.0.get_mut(&number);
        let subscription = subscription.ok_or("a subscription that no client made")?;
        let is_told = std::mem::replace(&mut subscription.is_told, true);
        if is_told { Err(format!("subscription {number} is told twice")) } else { Ok(()) }
    }

    /// Something is told to the programs on a machine; `None`: notices were lost.
    pub(super) fn notice(&mut self, at: usize, notice: Option<&PoolNotice>) -> Result<(), String> {
        let incarnation = self.machines[at].incarnation;
        let here =
            |one: &&mut Subscription| (one.at, one.incarnation) == (at, incarnation) && one.is_told;
        for subscription in self.subscriptions.0.values_mut().filter(here) {
            match notice {
                Some(notice) => subscription.tell(notice)?,
                None => subscription.told.push(Told::Lost),
            }
        }
        Ok(())
    }

    /// In quiet times every birth and every end is told on every node, and nothing is lost.
    pub(super) fn check_notices(&mut self) -> Result<(), String> {
        let mut numbers = Vec::new();
        for at in 0..self.machines.len() {
            numbers.push(self.subscribe(at)?);
        }
        self.run_until(self.now.after_ms(WATCH_MS), false)?;
        let count = self.machines.len();
        let id = ObjectId::pooled([0xee; 12], None);
        let mut expected = Vec::new();
        for round in 0..2 {
            let content = Content { data_bytes: 100, ..Content::default() };
            let put = Operation::Put { id, content, copies: 2, copies_min: 1 };
            let no = self.begin(round % count, put)?;
            let deadline = self.now.after_ms(STEP_MS);
            // Messages of several nodes about it may then be on their way at once.
            while self.outcome(no).is_none() && self.now < deadline {
                self.run_until(Mono(self.now.0 + 100), false)?;
            }
            if self.outcome(no) != Some(Outcome::Put(Ok(()))) {
                // The stores are full of what is kept.
                break;
            }
            let birth = self.history.entries[&no].birth.ok_or("a put without a birth")?;
            self.begin((round + 1) % count, Operation::Delete { id })?;
            self.run_until(self.now.after_ms(STEP_MS), false)?;
            expected.extend([Told::Born(id, birth), Told::Ended(id, birth)]);
        }
        for number in numbers {
            let Subscription { is_told, told, at, .. } = &self.subscriptions.0[&number];
            let about = told.iter().filter(|told| match told {
                Told::Born(of, _) | Told::Ended(of, _) => *of == id,
                Told::Lost => true,
            });
            if !is_told || !about.eq(&expected) {
                return Err(format!("{at} is told {told:?} of {expected:?}"));
            }
        }
        Ok(())
    }

    fn outcome(&self, no: OperationNo) -> Option<Outcome> {
        self.history.entries[&no].end.clone().map(|(_, outcome)| outcome)
    }
}
