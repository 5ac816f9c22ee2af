//! What must be in the store, and what was found.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use plasmon_client::{Client, Filter, ObjectId};
use plasmon_testkit::Random;

use super::line::Line;
use crate::content;

/// Objects that an audit leaves there at most.
const LEFT_MAX: usize = 300;

/// What must be true of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its put or its delete was begun and not acknowledged.
    Either,
    /// Its put was acknowledged, or it was found.
    There,
    /// Its delete was acknowledged, or it was not found.
    Gone,
}

/// The content of an id that is replaced.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// What was acknowledged last, or was found.
    known: Option<ObjectId>,
    /// What was begun since.
    begun: Option<ObjectId>,
}

/// The account of all objects.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    objects: BTreeMap<ObjectId, Fate>,
    slots: BTreeMap<ObjectId, Slot>,
    kills: BTreeMap<&'static str, u64>,
    refused: BTreeMap<String, u64>,
    acknowledged: u64,
    verified: u64,
    lost: u64,
    torn: u64,
    resurrected: u64,
}

impl Ledger {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.kills.entry(what).or_default() += 1;
    }

    /// Takes one line of a worker in. The lines about one object come in order.
    pub(super) fn learn(&mut self, worker: u32, line: Line) {
        match line {
            Line::Putting(id) | Line::Deleting(id) => drop(self.objects.insert(id, Fate::Either)),
            Line::Put(id) => {
                self.acknowledged += 1;
                self.objects.insert(id, Fate::There);
            }
            Line::Deleted(id) => {
                self.acknowledged += 1;
                self.objects.insert(id, Fate::Gone);
            }
            Line::Replacing(id, content) => {
                self.slots.entry(id).or_default().begun = Some(content);
            }
            Line::Replaced(id, content) => {
                self.acknowledged += 1;
                self.slots.insert(id, Slot { known: Some(content), begun: None });
            }
            Line::Verified => self.verified += 1,
            Line::Refused(what) => *self.refused.entry(what).or_default() += 1,
            Line::Violation(what) => {
                println!("worker {worker}: {what}");
                match what.starts_with("lost") {
                    true => self.lost += 1,
                    false => self.torn += 1,
                }
            }
        }
    }

    /// Looks at every object of a store that has nothing but the log.
    pub(super) fn audit(&mut self, client: &Client, random: &mut Random) -> Result<()> {
        let found: BTreeSet<ObjectId> =
            client.list(&Filter::default())?.into_iter().map(|info| info.id).collect();
        for id in &found {
            match self.objects.get(id) {
                None if self.slots.contains_key(id) => self.check_slot(client, id)?,
                Some(Fate::There | Fate::Either) => {
                    self.check(client, id, id)?;
                    self.objects.insert(*id, Fate::There);
                }
                None | Some(Fate::Gone) => {
                    println!("resurrected: {id}");
                    self.resurrected += 1;
                }
            }
        }
        for (id, fate) in self.objects.iter_mut().filter(|(id, _)| !found.contains(*id)) {
            if *fate == Fate::There {
                println!("lost: {id}");
                self.lost += 1;
            }
            *fate = Fate::Gone;
        }
        for (id, slot) in self.slots.iter_mut().filter(|(id, _)| !found.contains(*id)) {
            if slot.known.is_some() {
                println!("lost: the content of {id}");
                self.lost += 1;
            }
            *slot = Slot::default();
        }
        self.tidy(client, random, found)
    }

    /// Whether an object has this content.
    fn check(&mut self, client: &Client, id: &ObjectId, what: &ObjectId) -> Result<bool> {
        let object = client.get_existing(id)?;
        let is_right = content::matches(what, object.data(), object.metadata());
        self.verified += u64::from(is_right);
        if !is_right {
            println!("torn: {id}");
            self.torn += 1;
        }
        Ok(is_right)
    }

    /// An id that is replaced has what was acknowledged last, or what was begun since.
    fn check_slot(&mut self, client: &Client, id: &ObjectId) -> Result<()> {
        let metadata: Option<[u8; 20]> = client.get_existing(id)?.metadata().try_into().ok();
        let Some(found) = metadata.map(ObjectId::new) else {
            println!("torn: {id} does not say what it is");
            self.torn += 1;
            return Ok(());
        };
        self.check(client, id, &found)?;
        let slot = self.slots.entry(*id).or_default();
        if slot.known != Some(found) && slot.begun != Some(found) {
            println!("lost: {id} has {found}, acknowledged is {:?}", slot.known);
            self.lost += 1;
        }
        *slot = Slot { known: Some(found), begun: None };
        Ok(())
    }

    /// Deletes some of what workers that are gone have left.
    fn tidy(
        &mut self,
        client: &Client,
        random: &mut Random,
        found: BTreeSet<ObjectId>,
    ) -> Result<()> {
        let mut left: Vec<ObjectId> = found.into_iter().collect();
        while left.len() > LEFT_MAX {
            let Some(at) = random.index(left.len()) else { return Ok(()) };
            let id = left.swap_remove(at);
            if client.delete(&[id])?[0].is_none() {
                self.slots.remove(&id);
                self.objects.insert(id, Fate::Gone);
                self.acknowledged += 1;
            }
        }
        Ok(())
    }

    pub(super) fn is_clean(&self) -> bool {
        self.lost + self.torn + self.resurrected == 0
    }

    /// What was done.
    pub(super) fn summary(&self) -> String {
        let counts = |counts: Vec<(String, u64)>| {
            let each = counts.into_iter().map(|(what, count)| format!("{count} {what}"));
            each.collect::<Vec<_>>().join(", ")
        };
        let kills = self.kills.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let refused = self.refused.iter().map(|(what, count)| (what.clone(), *count)).collect();
        format!(
            "{}; {} acknowledged, {} verified; refused: {}",
            counts(kills),
            self.acknowledged,
            self.verified,
            counts(refused)
        )
    }

    /// What was found.
    pub(super) fn verdict(&self) -> String {
        let Self { lost, torn, resurrected, .. } = self;
        format!("{lost} lost acknowledgements, {torn} torn, {resurrected} resurrected")
    }
}
