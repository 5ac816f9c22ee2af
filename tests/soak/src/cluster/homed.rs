//! Objects without names: put at once, found through their home, accepted by the pool later.
//!
//! An id is never used twice, so there is no order to check: bytes are never wrong, and one that
//! was settled is there until it is deleted, unless as many nodes died as had copies. Each round
//! ends with a delete of all of them; after that no store has any, and none comes back from a log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plasmon_client::{Ack, Client, Code, Error, Filter, ObjectId, PutOptions};
use plasmon_testkit::{Random, pattern};

use super::history::Loss;
use super::load::{Shared, lock};

/// Objects that one thread puts at a time.
const BATCH_MAX: u64 = 50;

/// Objects that are remembered; when there are more, none are put.
const OBJECTS_MAX: usize = 20_000;

/// Ended objects that are remembered.
const OVER_MAX: usize = 200_000;

/// Objects of one gather.
const GATHERED_MAX: usize = 60;

/// Bytes of the largest.
const BYTES_MAX: usize = 3_000;

/// What is known of an object.
#[derive(Clone, Copy, Debug)]
struct Object {
    seed: u64,
    bytes: usize,
    copies: usize,
    is_durable: bool,
    /// Since when the pool has accepted it, for certain.
    settled: Option<Instant>,
    /// A client has begun to delete it, or the pool has refused it.
    may_be_gone: bool,
    /// Nodes that died since it was put.
    deaths: usize,
}

impl Object {
    /// Whether it was there for certain at this time.
    fn is_certain(&self, at: Instant) -> bool {
        let is_settled = self.settled.is_some_and(|since| since < at);
        is_settled && !self.may_be_gone && self.deaths < self.copies
    }
}

/// All objects of the round.
#[derive(Debug, Default)]
pub(super) struct Homed {
    objects: BTreeMap<ObjectId, Object>,
    /// Durable ones that ended.
    over: BTreeSet<ObjectId>,
}

/// What becomes an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) seed: u64,
    pub(super) bytes: usize,
    /// How many copies it has for certain.
    pub(super) copies: usize,
    pub(super) is_durable: bool,
}

impl Homed {
    /// Nodes died.
    pub(super) fn nodes_die(&mut self, loss: Loss) {
        self.objects
            .values_mut()
            .for_each(|object| object.deaths += loss.deaths(object.is_durable));
    }

    /// An object is there, or becomes one, and was accepted or not.
    pub(super) fn add(&mut self, id: ObjectId, content: Content, is_settled: bool) {
        let Content { seed, bytes, copies, is_durable } = content;
        let settled = is_settled.then(Instant::now);
        let may_be_gone = false;
        let object = Object { seed, bytes, copies, is_durable, settled, may_be_gone, deaths: 0 };
        self.objects.insert(id, object);
    }

    /// The pool has accepted an object. Whether it is deleted since it was added stays as it is.
    pub(super) fn is_accepted(&mut self, id: &ObjectId) {
        if let Some(object) = self.objects.get_mut(id) {
            object.settled = Some(Instant::now());
        }
    }

    /// Objects that are there, or were, with what they have.
    pub(super) fn pick_some(&self, random: &mut Random) -> Vec<(ObjectId, u64, usize)> {
        let count = random.size_below(GATHERED_MAX);
        let picked = (0..count).filter_map(|_| self.pick(random));
        let with_content = picked.map(|id| (id, self.objects[&id].seed, self.objects[&id].bytes));
        with_content.collect()
    }

    /// Whether an object was there for certain at this time, and still is.
    pub(super) fn is_certain(&self, id: &ObjectId, at: Instant) -> bool {
        self.objects.get(id).is_some_and(|object| object.is_certain(at))
    }

    /// An object that is there, or was.
    fn pick(&self, random: &mut Random) -> Option<ObjectId> {
        let at = random.index(self.objects.len())?;
        self.objects.keys().nth(at).copied()
    }

    /// The ids of all.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        self.objects.keys().copied().collect()
    }

    /// Those that are there for certain.
    pub(super) fn certain(&self) -> Vec<ObjectId> {
        let now = Instant::now();
        let certain = self.objects.iter().filter(|(_, object)| object.is_certain(now));
        certain.map(|(id, _)| *id).collect()
    }

    /// Nothing is left of any.
    pub(super) fn forget(&mut self) {
        let gone = std::mem::take(&mut self.objects).into_iter();
        self.over.extend(gone.filter(|(_, object)| object.is_durable).map(|(id, _)| id));
        while self.over.len() > OVER_MAX {
            self.over.pop_first();
        }
    }

    /// One of these that had ended.
    pub(super) fn resurrected<'a>(&self, listed: &'a [ObjectId]) -> Option<&'a ObjectId> {
        listed.iter().find(|id| self.over.contains(id))
    }
}

/// Puts some objects on the node of this client, and waits for the pool, or not.
pub(super) fn put(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    if lock(&shared.homed).objects.len() > OBJECTS_MAX {
        return Ok(());
    }
    let copies = random.pick(&[1, 1, 2, 2, 3]);
    let durable = random.percent(30);
    // A put of a durable one returns when it is in the logs.
    let waits = durable || random.percent(20);
    let ack = Some(if waits { Ack::Copies } else { Ack::Local });
    let options = PutOptions {
        pool: true,
        durable,
        copies,
        copies_min: if random.percent(50) { copies } else { 1 },
        ack,
        ..PutOptions::default()
    };
    let certain = usize::from(options.copies_min);
    let mut ids = Vec::new();
    let count = if waits { 1 } else { 1 + random.below(BATCH_MAX) };
    for _ in 0..count {
        let (seed, bytes) = (random.word(), random.size_below(BYTES_MAX));
        let id = client.put(&pattern(seed, bytes), &options)?;
        ids.push(id);
        let content = Content { seed, bytes, copies: certain, is_durable: durable };
        lock(&shared.homed).add(id, content, waits);
    }
    if !waits && random.percent(50) {
        settle(shared, client, &ids)?;
    }
    Ok(())
}

fn settle(shared: &Shared, client: &Client, ids: &[ObjectId]) -> Result<(), Error> {
    let outcomes = client.settle(ids, Some(Duration::from_secs(5)))?;
    let now = Instant::now();
    let mut findings = Vec::new();
    {
        let mut homed = lock(&shared.homed);
        for (id, outcome) in ids.iter().zip(outcomes) {
            let Some(object) = homed.objects.get_mut(id) else { continue };
            match outcome {
                None => object.settled = Some(now),
                Some(Code::TimedOut | Code::Unreachable) => {}
                Some(Code::NotEnoughNodes | Code::StoreFull) => object.may_be_gone = true,
                // Its node died, or is another one by now.
                Some(Code::Deleted | Code::Absent | Code::BadRequest)
                    if object.may_be_gone || object.deaths > 0 => {}
                Some(code) => findings.push(format!("{id} was put, and settled: {code:?}")),
            }
        }
    }
    lock(&shared.history).findings.extend(findings);
    Ok(())
}

/// Reads one of the objects.
pub(super) fn get(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    let begin = Instant::now();
    let id = lock(&shared.homed).pick(random);
    let Some(id) = id else { return Ok(()) };
    look(shared, client, &id, begin)
}

/// Reads an object, and finds it wrong if it is not as it was put.
pub(super) fn look(
    shared: &Shared,
    client: &Client,
    id: &ObjectId,
    begin: Instant,
) -> Result<(), Error> {
    let found = client.get_existing(id);
    let Some(object) = lock(&shared.homed).objects.get(id).copied() else { return Ok(()) };
    let finding = match &found {
        Ok(found) if found.data() == pattern(object.seed, object.bytes) => None,
        Ok(found) => Some(format!("torn: {id} has wrong bytes, {}", found.data().len())),
        Err(error) if matches!(error.code(), Code::Absent | Code::Deleted) => {
            object.is_certain(begin).then(|| format!("lost: {id} is {error}, and was settled"))
        }
        Err(_) => None,
    };
    lock(&shared.history).findings.extend(finding);
    found.map(drop)
}

/// Deletes one of the objects.
pub(super) fn delete(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    let id = {
        let mut homed = lock(&shared.homed);
        let Some(id) = homed.pick(random) else { return Ok(()) };
        if let Some(object) = homed.objects.get_mut(&id) {
            object.may_be_gone = true;
        }
        id
    };
    match client.delete(&[id])?.first().copied().flatten() {
        None => Ok(()),
        Some(code) => Err(Error::new(code, "deleting")),
    }
}

/// The objects without names that a store has, also those of puts that failed.
pub(super) fn listed(client: &Client) -> Result<Vec<ObjectId>, Error> {
    let listed = client.list(&Filter::default())?;
    Ok(listed.iter().map(|info| info.id).filter(|id| id.home().is_some()).collect())
}
