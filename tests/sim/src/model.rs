//! The known state of every object, and the bytes that say which incarnation they are of.
//!
//! Each id belongs to one place among the clients: only who sits there puts and deletes it, all
//! read it. So what must be true of it follows from that client's own operations:
//!
//! ```text
//!   absent ── put begins ──► unsure ── refused ──► absent
//!     ▲                        │ acknowledged
//!     └── delete answered ◄────┴──► present ── delete begins ──► unsure
//! ```
//!
//! A reader that began when an object was present, and ended with nothing having changed since, has
//! found it. An object that is replaced is there all the time, the old one or the new one. Nothing
//! is ever found that had ended before.

use std::collections::BTreeMap;

use plasmon_proto::{Code, ObjectId};
use plasmon_testkit::mix;

/// Bytes of data that every object has at least.
pub(crate) const BYTES_MIN: usize = 32;

const MAGIC: u64 = 0x706c_6173_6d6f_6e21;

/// One incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    pub(crate) number: u64,
    pub(crate) bytes: usize,
}

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// It is not there.
    Absent,
    /// It is there.
    Present(Incarnation),
    /// One of these two is there: the second replaces the first.
    Either(Incarnation, Incarnation),
    /// It is there or not, and of which incarnation is not known.
    Unsure,
}

#[derive(Debug)]
struct ModelObject {
    fact: Fact,
    /// How often that has changed.
    changes: u64,
    /// The store in which it became unsure: what another one answered says nothing about this one.
    store: u64,
    written: BTreeMap<u64, Life>,
    may_be_evicted: bool,
    /// Whether a client ended in the middle of putting or deleting it. What it asked last may be
    /// carried out at any time, so nothing is sure before the daemon has seen its end.
    is_orphaned: bool,
}

#[derive(Debug)]
struct Life {
    bytes: usize,
    /// The store in which it was put.
    store: u64,
    /// The look at which it was known to have ended.
    ended: Option<u64>,
}

/// What was known when a reader began to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) id: ObjectId,
    fact: Fact,
    changes: u64,
    number: u64,
    /// Whether who looks connected after everything that is known had happened.
    is_afresh: bool,
}

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Model {
    known: BTreeMap<ObjectId, ModelObject>,
    looks: u64,
    incarnations: u64,
    /// How many stores have ended with daemon and keeper.
    stores: u64,
    pub(crate) checks: u64,
}

impl Model {
    /// An incarnation that is about to be put.
    pub(crate) fn begin(
        &mut self,
        id: ObjectId,
        bytes: usize,
        may_be_evicted: bool,
    ) -> Incarnation {
        self.incarnations += 1;
        let incarnation = Incarnation { number: self.incarnations, bytes };
        let known = self.known.entry(id).or_insert_with(|| ModelObject {
            fact: Fact::Absent,
            changes: 0,
            store: 0,
            written: BTreeMap::new(),
            may_be_evicted,
            is_orphaned: false,
        });
        known.may_be_evicted |= may_be_evicted;
        known.written.insert(incarnation.number, Life { bytes, store: self.stores, ended: None });
        known.store = self.stores;
        known.set(Fact::Unsure);
        incarnation
    }

    /// An incarnation that is about to take the place of another one.
    pub(crate) fn begin_in_place_of(
        &mut self,
        id: ObjectId,
        old: Incarnation,
        bytes: usize,
    ) -> Incarnation {
        let may_be_evicted = self.known.get(&id).is_some_and(|known| known.may_be_evicted);
        let new = self.begin(id, bytes, may_be_evicted);
        self.set(&id, Fact::Either(old, new));
        new
    }

    /// What is known of an id now.
    pub(crate) fn fact(&self, id: &ObjectId) -> Fact {
        self.known.get(id).map_or(Fact::Absent, |known| known.fact)
    }

    /// What is known now. What was there before is over once it is absent.
    pub(crate) fn set(&mut self, id: &ObjectId, fact: Fact) {
        self.looks += 1;
        let now = self.looks;
        let Some(known) = self.known.get_mut(id) else { return };
        if fact == Fact::Unsure {
            known.store = self.stores;
        }
        let is_sure = known.store == self.stores && !known.is_orphaned;
        let fact = if is_sure { fact } else { Fact::Unsure };
        known.set(fact);
        if fact == Fact::Absent {
            known.written.values_mut().for_each(|life| _ = life.ended.get_or_insert(now));
        }
        if let Fact::Present(incarnation) = fact {
            let others = known.written.iter_mut().filter(|(it, _)| **it != incarnation.number);
            others.for_each(|(_, life)| _ = life.ended.get_or_insert(now));
        }
    }

    /// The store ended with its daemon and its keeper, and another one begins.
    pub(crate) fn begin_store(&mut self) {
        self.stores += 1;
        self.known.values_mut().for_each(|known| known.set(Fact::Unsure));
    }

    /// A client ended in the middle of something about these ids, if it was about them.
    pub(crate) fn orphan(&mut self, ids: impl Iterator<Item = ObjectId>) {
        for id in ids {
            if let Some(known) = self.known.get_mut(&id).filter(|it| it.fact.is_open()) {
                known.is_orphaned = true;
            }
        }
    }

    /// The daemon has seen the end of every client that ended.
    pub(crate) fn settle(&mut self) {
        self.known.values_mut().for_each(|known| known.is_orphaned = false);
    }

    /// A reader begins.
    pub(crate) fn look(&mut self, id: ObjectId) -> Look {
        self.looks += 1;
        let changes = self.known.get(&id).map_or(0, |known| known.changes);
        Look { id, fact: self.fact(&id), changes, number: self.looks, is_afresh: false }
    }

    /// A reader begins that knows no other store than the one that is there.
    pub(crate) fn look_afresh(&mut self, id: ObjectId) -> Look {
        Look { is_afresh: true, ..self.look(id) }
    }

    fn is_unchanged(&self, look: &Look) -> bool {
        self.known.get(&look.id).map_or(0, |known| known.changes) == look.changes
    }

    /// A reader found this.
    pub(crate) fn found(&mut self, look: &Look, data: &[u8]) -> Result<Incarnation, String> {
        self.checks += 1;
        let id = look.id;
        let number = number_in(&id, data).ok_or_else(|| {
            let head: Vec<u64> =
                data.as_chunks::<8>().0.iter().take(4).map(|it| u64::from_le_bytes(*it)).collect();
            format!("wrong bytes: {id} has {} that are not its own: {head:x?}", data.len())
        })?;
        let unknown = || format!("wrong bytes: {id} has incarnation {number}, never put there");
        let life = self.known.get(&id).and_then(|known| known.written.get(&number));
        let life = life.ok_or_else(unknown)?;
        let incarnation = Incarnation { number, bytes: life.bytes };
        check(&id, incarnation, data)?;
        // Without a daemon clients read on, and are not notified that their store has ended: they
        // learn of another one at their next request.
        if life.store < self.stores && !look.is_afresh {
            return Ok(incarnation);
        }
        if life.ended.is_some_and(|ended| ended < look.number) {
            return Err(format!("stale: {id} has incarnation {number}, which had ended before"));
        }
        match look.fact {
            Fact::Present(wanted) if self.is_unchanged(look) && wanted != incarnation => {
                Err(format!("stale: {id} has incarnation {number} and not {}", wanted.number))
            }
            Fact::Either(old, new)
                if self.is_unchanged(look) && ![old, new].contains(&incarnation) =>
            {
                let (old, new) = (old.number, new.number);
                Err(format!("stale: {id} has incarnation {number} and neither {old} nor {new}"))
            }
            _ => Ok(incarnation),
        }
    }

    /// A reader was told that the object is not there.
    pub(crate) fn missed(&mut self, look: &Look, told: &str) -> Result<(), String> {
        self.checks += 1;
        if told == Code::Corrupt.key() {
            // No disk damages a file here, and no store is taken over by halves.
            return Err(format!("corrupt: {} is", look.id));
        }
        let may_be_evicted = self.known.get(&look.id).is_some_and(|known| known.may_be_evicted);
        match look.fact {
            Fact::Present(incarnation) | Fact::Either(_, incarnation)
                if self.is_unchanged(look) && !may_be_evicted =>
            {
                Err(format!(
                    "lost: {} is {told}, and its incarnation {} was acknowledged",
                    look.id, incarnation.number
                ))
            }
            _ => Ok(()),
        }
    }

    /// A reader was told that the object is there.
    pub(crate) fn seen(&mut self, look: &Look) -> Result<(), String> {
        self.checks += 1;
        match look.fact {
            Fact::Absent if self.is_unchanged(look) => {
                Err(format!("stale: {} is said to be there, and was deleted", look.id))
            }
            _ => Ok(()),
        }
    }

    /// All ids that were ever used.
    pub(crate) fn ids(&self) -> Vec<ObjectId> {
        self.known.keys().copied().collect()
    }
}

impl Fact {
    /// Whether an operation may be under way whose outcome is unknown.
    fn is_open(self) -> bool {
        matches!(self, Self::Unsure | Self::Either(..))
    }
}

impl ModelObject {
    fn set(&mut self, fact: Fact) {
        self.fact = fact;
        self.changes += 1;
    }
}

/// The data of an incarnation.
pub(crate) fn data(id: &ObjectId, incarnation: Incarnation) -> Vec<u8> {
    let words = (0..).map(|at| word(id, incarnation, at).to_le_bytes());
    words.flatten().take(incarnation.bytes).collect()
}

/// Whether these are the bytes of an incarnation.
pub(crate) fn check(id: &ObjectId, incarnation: Incarnation, data: &[u8]) -> Result<(), String> {
    let Incarnation { number, bytes } = incarnation;
    if data.len() != bytes {
        return Err(format!("wrong bytes: {id} ({number}) has {} and not {bytes}", data.len()));
    }
    let (words, rest) = data.as_chunks::<8>();
    let wrong = words
        .iter()
        .zip(0..)
        .find(|(found, at)| u64::from_le_bytes(**found) != word(id, incarnation, *at));
    if let Some((found, at)) = wrong {
        let found = u64::from_le_bytes(*found);
        return Err(format!("wrong bytes: {id} ({number}) changes at {}: {found:#x}", at * 8));
    }
    let last = word(id, incarnation, words.len() as u64).to_le_bytes();
    if *rest != last[..rest.len()] {
        return Err(format!("wrong bytes: {id} ({number}) changes at its end"));
    }
    Ok(())
}

fn seed(id: &ObjectId) -> u64 {
    let (words, _) = id.as_bytes().as_chunks::<4>();
    words.iter().fold(0, |seed, word| mix(seed ^ u64::from(u32::from_le_bytes(*word))))
}

fn word(id: &ObjectId, incarnation: Incarnation, at: u64) -> u64 {
    match at {
        0 => MAGIC,
        1 => seed(id),
        2 => incarnation.number,
        3 => incarnation.bytes as u64,
        _ => (incarnation.number << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// The incarnation that data says it is, if it is any of this id's.
fn number_in(id: &ObjectId, data: &[u8]) -> Option<u64> {
    let (words, _) = data.as_chunks::<8>();
    let words: Vec<u64> = words.iter().take(4).map(|word| u64::from_le_bytes(*word)).collect();
    let [MAGIC, whose, number, bytes] = words[..] else { return None };
    (whose == seed(id) && bytes == data.len() as u64).then_some(number)
}
