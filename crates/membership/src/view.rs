//! What a node has seen in etcd: a listing, and the changes after it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::adoption::Progress;
use plasmon_cluster::leader::Activation;
use plasmon_cluster::{DrainReport, Map, Member, ReachReport, Slot, Suspect};
use plasmon_etcd::{Change, KeyValue, LeaseId, Listing};

use crate::adoptions::{self, Adoption};
use crate::commands::{self, Entry, Order};
use crate::drains;
use crate::encryption::{self, Encryption};
use crate::fabric::{self, Fabric};
use crate::keys::{Key, Keys, Life};
use crate::reports::{self, Reports};
use crate::suspects;
use crate::usage::{self, UsageByLife};

/// The key of the node that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leading {
    /// The start of the node.
    pub life: Life,
    /// The lease under which it made the key.
    pub lease: Option<LeaseId>,
    /// When it made the key.
    pub create_revision: i64,
}

/// A map and the revision in which it was written.
#[derive(Clone, Debug)]
pub struct SeenMap {
    /// The map.
    pub map: Arc<Map>,
    /// When it was written.
    pub revision: i64,
}

/// What is in etcd at a revision.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Everything up to this revision was seen.
    pub revision: i64,
    /// The id of the cluster.
    pub id: Option<Vec<u8>>,
    /// `None` before the first one.
    pub map: Option<SeenMap>,
    /// Why the map in etcd cannot be used.
    pub bad_map: Option<String>,
    /// The node that leads.
    pub leading: Option<Leading>,
    /// When a member last joined.
    pub joined_revision: i64,
    members: BTreeMap<Life, Seat>,
    reports: BTreeMap<Life, Reports>,
    drains: BTreeMap<Life, Vec<DrainReport>>,
    refusals: BTreeMap<Life, String>,
    /// Why no node is given up, as the node that leads says.
    pub alarm: Option<String>,
    commands: BTreeMap<Slot, (i64, Entry)>,
    /// Namespaces that programs have adopted. Another allocation after each change of one.
    pub adoptions: Arc<BTreeMap<String, SeenAdoption>>,
    /// What nodes have of namespaces that are limited. Another allocation after each change.
    pub usage: Arc<UsageByLife>,
    progress: BTreeMap<Life, Progress>,
    suspects: BTreeMap<Life, Vec<Suspect>>,
    encryption: BTreeMap<Life, Encryption>,
    fabrics: BTreeMap<Life, Fabric>,
    fenced: BTreeMap<Life, Option<LeaseId>>,
}

/// What is known of a namespace, and the revision in which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenAdoption {
    /// What is known.
    pub adoption: Adoption,
    /// When it was written.
    pub revision: i64,
}

/// A member that holds a lease.
#[derive(Clone, Debug)]
struct Seat {
    create_revision: i64,
    lease: Option<LeaseId>,
    member: Member,
}

impl View {
    /// What a listing shows.
    pub fn of(keys: &Keys, listing: Listing) -> Self {
        let mut view = Self::default();
        for kv in listing.kvs {
            view.put(keys, &kv);
        }
        view.revision = listing.revision;
        view
    }

    /// Applies a change; the new map, if it is one.
    pub fn apply(&mut self, keys: &Keys, change: &Change) -> Option<Arc<Map>> {
        match change {
            Change::Put(kv) => self.put(keys, kv),
            Change::Deleted(key) => {
                self.delete(keys, key);
                None
            }
        }
    }

    fn put(&mut self, keys: &Keys, kv: &KeyValue) -> Option<Arc<Map>> {
        if let Some(namespace) = keys.namespace_of(&kv.key) {
            let adoptions = Arc::make_mut(&mut self.adoptions);
            let revision = kv.mod_revision;
            match adoptions::decode(&kv.value) {
                Some(adoption) => {
                    adoptions.insert(namespace, SeenAdoption { adoption, revision });
                }
                // Whatever it is, it is not what it replaced.
                None => _ = adoptions.remove(&namespace),
            }
            return None;
        }
        match keys.parse(&kv.key)? {
            Key::Id => self.id = Some(kv.value.clone()),
            Key::Secret => {}
            Key::Joined => self.joined_revision = kv.mod_revision,
            Key::Map => return self.put_map(kv),
            Key::Leader => {
                let (lease, create_revision) = (kv.lease, kv.create_revision);
                let life = Life::parse(&kv.value)?;
                self.leading = Some(Leading { life, lease, create_revision });
            }
            Key::Member(life) => {
                let member = Member::decode(&kv.value).ok()?;
                if (member.uuid, member.incarnation) == (life.uuid, life.incarnation) {
                    let (create_revision, lease) = (kv.create_revision, kv.lease);
                    self.members.insert(life, Seat { create_revision, lease, member });
                }
            }
            Key::Reports(life) => {
                self.reports.insert(life, reports::decode(&kv.value)?);
            }
            Key::Drains(life) => {
                self.drains.insert(life, drains::decode(&kv.value)?);
            }
            Key::Swept(life) => {
                self.progress.insert(life, adoptions::decode_progress(&kv.value)?);
            }
            Key::Usage(life) => {
                let usage = usage::decode(&kv.value)?;
                Arc::make_mut(&mut self.usage).insert(life, usage);
            }
            Key::Suspects(life) => {
                self.suspects.insert(life, suspects::decode(&kv.value)?);
            }
            Key::Encryption(life) => {
                self.encryption.insert(life, encryption::decode(&kv.value)?);
            }
            Key::Fabric(life) => {
                self.fabrics.insert(life, fabric::decode(&kv.value)?);
            }
            Key::Fenced(life) => _ = self.fenced.insert(life, kv.lease),
            Key::Refused(life) => {
                let reason = String::from_utf8_lossy(&kv.value).into_owned();
                self.refusals.insert(life, reason);
            }
            Key::Alarm => self.alarm = Some(String::from_utf8_lossy(&kv.value).into_owned()),
            Key::Command(slot) => {
                // One that cannot be read replaces the one before, too: the map is written on the
                // condition that commands are as they were seen.
                match commands::decode(&kv.value) {
                    Some(entry) => _ = self.commands.insert(slot, (kv.mod_revision, entry)),
                    None => _ = self.commands.remove(&slot),
                }
            }
        }
        None
    }

    fn put_map(&mut self, kv: &KeyValue) -> Option<Arc<Map>> {
        match Map::decode(&kv.value) {
            Ok(map) => {
                let map = Arc::new(map);
                self.map = Some(SeenMap { map: map.clone(), revision: kv.mod_revision });
                self.bad_map = None;
                Some(map)
            }
            Err(error) => {
                self.bad_map = Some(error.to_string());
                None
            }
        }
    }

    fn delete(&mut self, keys: &Keys, key: &[u8]) {
        if let Some(namespace) = keys.namespace_of(key) {
            Arc::make_mut(&mut self.adoptions).remove(&namespace);
            return;
        }
        match keys.parse(key) {
            Some(Key::Id) => self.id = None,
            Some(Key::Map) => self.bad_map = Some("it was deleted".to_owned()),
            Some(Key::Leader) => self.leading = None,
            Some(Key::Member(life)) => _ = self.members.remove(&life),
            Some(Key::Reports(life)) => _ = self.reports.remove(&life),
            Some(Key::Drains(life)) => _ = self.drains.remove(&life),
            Some(Key::Swept(life)) => _ = self.progress.remove(&life),
            Some(Key::Usage(life)) => _ = Arc::make_mut(&mut self.usage).remove(&life),
            Some(Key::Suspects(life)) => _ = self.suspects.remove(&life),
            Some(Key::Encryption(life)) => _ = self.encryption.remove(&life),
            Some(Key::Fabric(life)) => _ = self.fabrics.remove(&life),
            Some(Key::Fenced(life)) => _ = self.fenced.remove(&life),
            Some(Key::Refused(life)) => _ = self.refusals.remove(&life),
            Some(Key::Alarm) => self.alarm = None,
            Some(Key::Command(slot)) => _ = self.commands.remove(&slot),
            Some(Key::Joined | Key::Secret) | None => {}
        }
    }

    /// The members, in the order in which they got their leases.
    pub fn members(&self) -> Vec<Member> {
        let mut seats: Vec<&Seat> = self.members.values().collect();
        seats.sort_by_key(|seat| seat.create_revision);
        seats.into_iter().map(|seat| seat.member.clone()).collect()
    }

    /// The lease of a member.
    pub fn lease_of(&self, life: Life) -> Option<LeaseId> {
        self.members.get(&life)?.lease
    }

    /// What the primaries of this map report.
    pub fn activations(&self, map: &Map) -> Vec<Activation> {
        let of_node = |(life, reports): (&Life, &Reports)| {
            let reports = reports.clone().into_iter();
            let activation = |primary| move |(group, since)| Activation { primary, group, since };
            slot_of(map, *life).map(|primary| reports.map(activation(primary)))
        };
        self.reports.iter().filter_map(of_node).flatten().collect()
    }

    /// What the nodes of this map report of draining ones, each with the slot of the node that
    /// made the report.
    pub fn drain_reports(&self, map: &Map) -> Vec<(Slot, DrainReport)> {
        let of_node = |(life, reports): (&Life, &Vec<DrainReport>)| {
            let reports = reports.clone().into_iter();
            slot_of(map, *life).map(|slot| reports.map(move |report| (slot, report)))
        };
        self.drains.iter().filter_map(of_node).flatten().collect()
    }

    /// How far the nodes of this map are with namespaces that have ended.
    pub fn progress(&self, map: &Map) -> BTreeMap<Slot, Progress> {
        let of_node =
            |(life, progress): (&Life, &Progress)| Some((slot_of(map, *life)?, *progress));
        self.progress.iter().filter_map(of_node).collect()
    }

    /// Which peers the nodes of this map do not reach, as they report.
    pub fn reach_reports(&self, map: &Map) -> Vec<ReachReport> {
        let report = |(life, suspects): (&Life, &Vec<Suspect>)| {
            Some(ReachReport { slot: slot_of(map, *life)?, suspects: suspects.clone() })
        };
        self.suspects.iter().filter_map(report).collect()
    }

    /// By what others write into memory of the nodes of this map.
    pub fn fabrics(&self, map: &Map) -> BTreeMap<Slot, Fabric> {
        let of_node = |(life, it): (&Life, &Fabric)| Some((slot_of(map, *life)?, it.clone()));
        self.fabrics.iter().filter_map(of_node).collect()
    }

    /// What the nodes of this map encrypt.
    pub fn encryption(&self, map: &Map) -> BTreeMap<Slot, Encryption> {
        let of_node = |(life, it): (&Life, &Encryption)| Some((slot_of(map, *life)?, *it));
        self.encryption.iter().filter_map(of_node).collect()
    }

    /// The nodes of this map that hold a lease and are not live.
    pub fn waiting(&self, map: &Map) -> BTreeSet<Slot> {
        let slots = self.members.keys().filter_map(|life| slot_of(map, *life));
        slots.filter(|slot| !map.is_live(*slot)).collect()
    }

    /// The lease that a start of a node has to end.
    pub fn fenced_lease(&self, life: Life) -> Option<LeaseId> {
        *self.fenced.get(&life)?
    }

    /// The slot of the node that leads.
    pub fn leader(&self, map: &Map) -> Option<Slot> {
        slot_of(map, self.leading?.life)
    }

    /// The start of a node that the map has.
    pub fn life_of(map: &Map, slot: Slot) -> Option<Life> {
        let member = &map.node(slot)?.member;
        Some(Life { uuid: member.uuid, incarnation: member.incarnation })
    }

    /// What operators want, with the revisions in which they wrote it.
    pub fn commands(&self) -> impl Iterator<Item = (i64, Slot, Order)> {
        self.commands.iter().filter_map(|(slot, (revision, entry))| match entry {
            Entry::Asked(order) => Some((*revision, *slot, *order)),
            Entry::Refused(_) => None,
        })
    }

    /// What is under the key for commands about a slot, and when it was written.
    pub fn command(&self, slot: Slot) -> Option<&(i64, Entry)> {
        self.commands.get(&slot)
    }

    /// Why members take no part.
    pub fn refusals(&self) -> impl Iterator<Item = (Life, &str)> {
        self.refusals.iter().map(|(life, reason)| (*life, reason.as_str()))
    }

    /// Why a member takes no part.
    pub fn refusal_of(&self, life: Life) -> Option<&str> {
        self.refusals.get(&life).map(String::as_str)
    }
}

/// The slot of a node, if the map has this start of it.
fn slot_of(map: &Map, life: Life) -> Option<Slot> {
    let slot = map.slot_of(life.uuid)?;
    (map.node(slot)?.member.incarnation == life.incarnation).then_some(slot)
}

#[cfg(test)]
mod tests;
