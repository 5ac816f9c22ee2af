//! Objects without names: put at once, found through their home, accepted by the pool later.
//!
//! An id is never used twice, so there is no order to check: bytes are never wrong, and one that
//! was settled is there until it is deleted, unless as many nodes died as had copies. Each round
//! ends with a delete of all of them; after that no store has any.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plasmon_client::{Ack, Client, Code, Error, Filter, ObjectId, PutOptions};
use plasmon_testkit::{Random, pattern};

use super::load::{Shared, lock};

/// Objects that one thread puts at a time.
const BATCH_MAX: u64 = 50;

/// Objects that are remembered; when there are more, none are put.
const OBJECTS_MAX: usize = 20_000;

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
}

impl Homed {
    /// A node died with its memory.
    pub(super) fn node_dies(&mut self) {
        self.objects.values_mut().for_each(|object| object.deaths += 1);
    }

    /// An object is there, or becomes one. It wants so many copies, and was accepted or not.
    pub(super) fn add(
        &mut self,
        id: ObjectId,
        (seed, bytes): (u64, usize),
        copies: usize,
        is_settled: bool,
    ) {
        let settled = is_settled.then(Instant::now);
        let object = Object { seed, bytes, copies, settled, may_be_gone: false, deaths: 0 };
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
        self.objects.clear();
    }
}

/// Puts some objects on the node of this client, and waits for the pool, or not.
pub(super) fn put(shared: &Shared, client: &Client, random: &mut Random) -> Result<(), Error> {
    if lock(&shared.homed).objects.len() > OBJECTS_MAX {
        return Ok(());
    }
    let copies = random.pick(&[1, 1, 2, 2, 3]);
    let waits = random.percent(20);
    let ack = Some(if waits { Ack::Copies } else { Ack::Local });
    let options = PutOptions {
        pool: true,
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
        lock(&shared.homed).add(id, (seed, bytes), certain, waits);
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
        Ok(found) => Some(format!("{id} has wrong bytes, {}", found.data().len())),
        Err(error) if matches!(error.code(), Code::Absent | Code::Deleted) => {
            object.is_certain(begin).then(|| format!("{id} is {error}, and was settled"))
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
