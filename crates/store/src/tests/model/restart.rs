//! A daemon that is killed, and its successor.

use std::collections::BTreeSet;

use plasmon_proto::extent::Range;
use plasmon_proto::message::PendingObject;
use plasmon_proto::{ObjectId, ObjectState};

use super::rules::number_of;
use super::{IDS, Model, id};
use crate::effect::SpillOrder;
use crate::event::{ClientNo, RecoveredExtent, RecoveredObject};
use crate::memory::{Extent, Kind};
use crate::spill::{Backing, SpilledObject};
use crate::{Config, Effect, Store};

impl Model {
    /// Kills the daemon: everything that is not in the index, the ledgers, the tier or the memory
    /// is forgotten, and the clients that live come back and say what they held.
    pub(super) fn restart(&mut self) {
        let held: Vec<_> = self.actors.keys().map(|client| self.holdings(*client)).collect();
        self.lose_power_of_daemon();
        let objects = self.left_objects();
        let extents = self.left_extents();
        let mut store = self.successor();
        let mut effects = Vec::new();
        let broken = store.recover(self.world.now_ms, &extents, objects, &mut effects);
        assert_eq!(broken, [], "what one daemon leaves, the next one takes");
        if store.config.durable {
            store.adopt_log(self.world.now_ms, self.world.log.found(), &mut effects);
        }
        self.world.store = store;
        self.world.store.check();
        self.world.effects.clear();
        self.seen = 0;
        // What was dropped and not let go, the keeper still held.
        self.world.open.retain(|(_, effect)| matches!(effect, Effect::Drop(_)));
        for (ticket, effect) in self.world.open.clone() {
            if let Effect::Drop(extent) = effect {
                self.world.event(crate::Event::Retained(extent, ticket.0));
            }
        }
        self.world.do_all(effects);
        self.world.effects.clear();
        self.expect_survivors();
        self.watch();
        self.compare();
        for (client, leases, creating) in held {
            self.come_back(client, leases, creating);
            self.compare();
        }
    }

    /// What a client would say that it holds.
    fn holdings(&self, client: ClientNo) -> (ClientNo, Vec<Range>, Vec<PendingObject>) {
        let found = self.world.store.sessions.clients.get(client).expect("it is connected");
        let leases = found.leases.ranges().collect();
        let creating = found.creating.iter().filter_map(|object| {
            let creating = self.world.store.objects.pending_objects.get(object)?;
            // A daemon that comes back knows nothing of what grows.
            if creating.growing.is_some() {
                return None;
            }
            let (range, sizes) = self.world.store.creating(client, object)?;
            let (traits, strict) = (creating.traits, creating.strict);
            Some(PendingObject { id: *object, sizes, traits, range, strict })
        });
        (client, leases, creating.collect())
    }

    fn left_objects(&mut self) -> Vec<RecoveredObject> {
        let store = &self.world.store;
        let mut left: Vec<RecoveredObject> = store
            .objects
            .directory
            .entries()
            .map(|(slot, entry, visible)| {
                let extras = store.objects.extras_of(entry.record);
                let attributes = extras.map(|extras| extras.attributes.clone()).unwrap_or_default();
                RecoveredObject::in_memory(slot, entry, visible, attributes)
            })
            .collect();
        let in_file = |(_, it): &(&ObjectId, &SpilledObject)| it.backing == Backing::File;
        let in_tier = store.objects.tier.from(0).filter(in_file).map(|(_, it)| it.serial);
        let kept = store.objects.kept.iter().map(|(_, kept)| kept.file);
        let files: BTreeSet<u64> = in_tier.chain(kept).collect();
        assert!(files.iter().eq(self.world.tier.keys()), "every file is an object's");
        for (serial, kept) in store.objects.kept.iter() {
            let in_memory = left.iter().find(|it| it.serial == *serial).expect("it is in memory");
            let file = RecoveredObject { serial: kept.file, range: None, ..in_memory.clone() };
            left.push(file);
        }
        for (object, spilled) in store.objects.tier.from(0).filter(in_file) {
            let attributes = spilled.extras.attributes.clone();
            let (serial, meta) = (spilled.serial, spilled.meta);
            left.push(RecoveredObject::spilled(*object, serial, meta, attributes));
        }
        // What was just being written may be in the tier already, whatever became of it in memory.
        let writing = self.world.open.iter().filter_map(|(_, effect)| match effect {
            Effect::Spill(_, order) => Some(order.clone()),
            _ => None,
        });
        for order in writing.filter(|order| order.serial.is_multiple_of(2)) {
            self.world.tier.insert(order.serial, order.id);
            let SpillOrder { id, serial, meta, attributes, .. } = order;
            left.push(RecoveredObject::spilled(id, serial, meta, attributes));
        }
        left
    }

    fn left_extents(&mut self) -> Vec<RecoveredExtent> {
        // Extents that grow die with the daemon, except for those that it just handed to the
        // keeper.
        let settled: Vec<_> = self
            .world
            .open
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Settle { extent, .. } => Some(*extent),
                _ => None,
            })
            .filter(|extent| extent.0.is_multiple_of(2))
            .collect();
        let stays = |extent: &&Extent| extent.kind != Kind::Growing || settled.contains(&extent.id);
        let made: Vec<_> =
            self.world.store.space.memory.iter().filter(stays).map(|extent| extent.id).collect();
        self.writers.retain(|extent, _| made.contains(extent) && !settled.contains(extent));
        // Extents that were asked for and not made yet are not there.
        let unmade: Vec<_> = self
            .world
            .open
            .iter()
            .filter_map(|(_, effect)| match effect {
                Effect::Reserve { new_extent_bytes: Some(_), range, .. } => Some(range.extent),
                _ => None,
            })
            .collect();
        self.world.extents.retain(|extent, _| made.contains(extent) && !unmade.contains(extent));
        let writers = &self.writers;
        let strict: Vec<_> = self
            .world
            .store
            .space
            .memory
            .iter()
            .filter_map(|extent| (extent.strict && extent.published).then_some(extent.id))
            .collect();
        let recovered = self.world.extents.iter().map(|(extent, bytes)| RecoveredExtent {
            extent: *extent,
            bytes: *bytes,
            resident_bytes: *bytes,
            quarantined: writers.contains_key(extent),
            lent: self.lents.get(extent).copied(),
            strict: strict.contains(extent),
        });
        recovered.collect()
    }

    fn successor(&mut self) -> Store<super::super::TestDirectory> {
        let old = self.world.store.config;
        let config = Config { first_birth: self.world.births, ..old };
        let directory = std::mem::take(self.world.store.directory_mut());
        Store::new(config, directory)
    }

    /// Objects outlive the daemon; the memory of ended objects and what was being created do not.
    fn expect_survivors(&mut self) {
        let store = &self.world.store;
        self.objects.retain(|number, known| match known.state {
            ObjectState::Sealed => store.objects.find(&id(*number)).is_some(),
            ObjectState::Spilled | ObjectState::Corrupt => {
                known.state = ObjectState::Spilled;
                store.objects.tier.get(&id(*number)).is_some()
            }
            _ => false,
        });
        self.expect_logged();
        let store = &self.world.store;
        let sealed = self.objects.values().filter(|known| known.state == ObjectState::Sealed);
        assert_eq!(sealed.count() as u64, store.objects.visible, "a sealed object was lost");
        let spilled = self.objects.values().filter(|known| known.state == ObjectState::Spilled);
        assert_eq!(spilled.count(), store.objects.tier.len(), "a spilled object was lost");
    }

    fn come_back(&mut self, client: ClientNo, leases: Vec<Range>, creating: Vec<PendingObject>) {
        let extents: Vec<_> = self
            .writers
            .iter()
            .filter(|(_, it)| **it == client)
            .map(|(extent, _)| *extent)
            .collect();
        let pinned = self.actors.remove(&client).map(|actor| actor.pinned).unwrap_or_default();
        let peer = crate::event::Peer {
            pid: 1,
            uid: 1,
            name: String::new(),
            access: plasmon_proto::message::Access::ReadWrite,
            channel: true,
            session: 1,
        };
        self.world.event(crate::Event::Connect(client, peer));
        self.world.event(crate::Event::Part(client));
        for extent in extents {
            self.world.store.writer_back(extent, client);
        }
        if self.dice.percent(30) {
            // It died as well.
            for (serial, _) in pinned {
                self.world.unpin(serial);
            }
            self.writers.retain(|_, writer| *writer != client);
            self.world.disconnect(client);
            return;
        }
        self.actors.insert(client, super::Actor { pinned, ..super::Actor::default() });
        let wanted = creating.clone();
        self.resume(client, leases.clone(), creating);
        for lease in &leases {
            let units: Vec<_> = super::actor::units(lease).collect();
            let actor = self.actors.get(&client).unwrap();
            assert!(units.iter().all(|unit| actor.leased.contains(unit)), "{lease:?} was lost");
        }
        for object in wanted {
            let number = number_of(&object.id);
            assert!(number < IDS && self.objects.contains_key(&number), "{number} was lost");
        }
    }
}
