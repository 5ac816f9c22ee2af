//! The invariants that hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Range};

use crate::Store;
use crate::content::content_bytes;
use crate::doubles::TestDirectory;
use crate::extras::Extras;
use crate::jobs::Purpose;
use crate::memory::Kind;
use crate::records::{CACHE, HIDDEN, LISTED, List, SPILLING, UNATTACHED};
use crate::spill::Backing;

impl Store<TestDirectory> {
    /// Checks everything that must always hold; panics when anything does not.
    pub fn check(&self) {
        self.check_memory();
        self.check_content();
        self.check_records();
        self.check_logged();
        self.check_owners();
        self.check_holders();
        self.check_adoptions();
        let waits: usize = self.sessions.clients.iter().map(|(_, client)| client.waits.len()).sum();
        assert_eq!(waits, self.sessions.waits.len(), "every waiter belongs to a client");
        assert!(self.objects.detached_members.is_empty(), "no member is forgotten");
        let lingering = self.objects.deferred_frees.len();
        assert!(lingering == 0 || self.next_deadline().is_some(), "what is deleted is looked for");
    }

    /// Every range in use with its charge.
    fn ranges(&self) -> Vec<(Range, u64)> {
        let objects = self.objects.directory.entries().map(|(_, entry, _)| {
            (entry.range, self.space.memory.charge(&entry.range, &entry.meta.sizes))
        });
        // Also of clients that are gone, while it is on its way to the log.
        let creating = self
            .objects
            .pending_objects
            .from(0)
            .filter_map(|(_, creating)| Some((creating.range()?, creating.charge)));
        let leases = self.sessions.clients.iter().flat_map(|(_, client)| client.leases.ranges());
        let in_doubt = self.space.in_doubt.values().flatten().copied();
        let whole = |range: Range| (range, range.bytes);
        let reserving = self.space.jobs.reserving().map(|(_, placed)| {
            let reservation = placed.reservation.expect("it is being reserved");
            let whole = Range { bytes: placed.extent_bytes, ..placed.range };
            (if reservation.new_extent { whole } else { reservation.range }, placed.charge)
        });
        objects
            .chain(creating)
            .chain(leases.map(whole))
            .chain(in_doubt.map(whole))
            .chain(reserving)
            .chain(self.objects.tier.reading())
            .collect()
    }

    /// Whether the range is memory on its way to an object that was settled or given up meanwhile.
    fn is_moot(&self, range: &Range) -> bool {
        let mut growths = self
            .space
            .jobs
            .reserving()
            .filter(|(job, _)| matches!(job.purpose, Purpose::Grow { .. }));
        growths.any(|(_, placed)| placed.range == *range)
            && self.space.memory.extent(range).is_none_or(|extent| extent.kind != Kind::Growing)
    }

    fn check_content(&self) {
        let sealed =
            self.objects.directory.entries().map(|(_, entry, _)| content_bytes(&entry.meta.sizes));
        let creating = self
            .objects
            .pending_objects
            .from(0)
            .map(|(_, creating)| content_bytes(&creating.sizes));
        assert_eq!(
            sealed.chain(creating).sum::<u64>(),
            self.space.content_bytes,
            "content is counted"
        );
    }

    fn check_memory(&self) {
        let ranges = self.ranges();
        let charged: u64 = ranges.iter().map(|(_, charge)| charge).sum();
        assert_eq!(
            charged,
            self.space.memory.charged_bytes(),
            "bytes in use are charged, no others"
        );
        let mut by_extent: BTreeMap<ExtentId, Vec<Range>> = BTreeMap::new();
        for (range, _) in &ranges {
            if self.is_moot(range) {
                continue;
            }
            by_extent.entry(range.extent).or_default().push(*range);
        }
        let settling = |extent: &ExtentId| {
            let mut settling =
                self.objects.pending_objects.from(0).filter(|(_, it)| it.is_settling());
            settling.any(|(_, it)| it.range().is_some_and(|range| range.extent == *extent))
        };
        let (mut warm, mut resident) = (0, 0);
        for extent in self.space.memory.iter() {
            let mut parts = by_extent.remove(&extent.id).unwrap_or_default();
            let growing = extent.kind == Kind::Growing;
            if extent.kind == Kind::Exact || growing && (extent.is_empty() || settling(&extent.id))
            {
                assert!(parts.len() <= 1 || growing, "an exact extent has one object");
                // Pages may be on their way to an idle one that grew until it was given up.
                assert!(growing || parts.is_empty() == extent.is_empty());
                warm += if extent.is_empty() { extent.bytes } else { 0 };
                resident += extent.bytes;
                continue;
            }
            for (offset, bytes, is_warm) in extent.holes() {
                parts.push(Range { extent: extent.id, offset, bytes });
                if is_warm {
                    warm += self.space.memory.whole_pages(offset, bytes).1;
                } else {
                    resident = u64::wrapping_sub(resident, bytes);
                    let page = self.config.page_bytes;
                    assert_eq!((offset % page, bytes % page), (0, 0), "whole pages");
                }
            }
            resident = resident.wrapping_add(extent.bytes);
            parts.sort_by_key(|range| range.offset);
            let mut at = 0;
            for part in parts {
                assert_eq!(part.offset, at, "neither overlaps nor leaks in {:?}", extent.id);
                at += part.bytes;
            }
            assert_eq!(at, extent.bytes, "the whole extent is accounted for");
        }
        let reserving = self.space.jobs.reserving().filter_map(|(_, placed)| {
            let reservation = placed.reservation.filter(|it| it.new_extent)?;
            Some(placed.extent_bytes - reservation.range.bytes)
        });
        let resident = resident - reserving.sum::<u64>() + self.space.memory.retained_bytes();
        assert!(by_extent.is_empty(), "ranges lie in extents that exist");
        assert_eq!(warm, self.space.memory.warm_bytes());
        assert_eq!(resident, self.space.memory.resident_bytes());
    }

    /// What holds unless an earlier daemon left more.
    pub fn check_capacity(&self) {
        let capacity = self.space.memory.capacity_bytes();
        assert!(self.space.memory.charged_bytes() <= capacity, "used bytes exceed the capacity");
        let slop = self.space.memory.pages((capacity / 8).max(1 << 20));
        assert!(self.space.memory.resident_bytes() <= capacity + slop, "too many pages");
        let charged = self.space.memory.charged_bytes() + self.space.memory.retained_bytes();
        assert!(
            charged <= capacity + slop,
            "pages of what was dropped and stays, and what is used"
        );
        if let Some(bytes_max) = self.config.spill_bytes_max {
            let bytes = self.objects.tier.bytes() + self.objects.kept.bytes();
            assert!(bytes <= bytes_max, "the tier holds too much");
        }
    }

    fn check_records(&self) {
        let mut records = BTreeSet::new();
        let mut visible = 0;
        let mut hidden = 0;
        for (slot, entry, is_visible) in self.objects.directory.entries() {
            assert!(records.insert(entry.record), "a record has one object");
            let record = self.objects.records.used(entry.record).expect("an object has a record");
            assert_eq!(record.slot, slot);
            assert_eq!(record.is(HIDDEN), !is_visible);
            let extras = self.objects.extras_of(entry.record);
            let in_use = extras.is_some_and(Extras::is_in_use);
            let held_cache = record.is(CACHE) && extras.is_some_and(|extras| extras.holders > 0);
            let may_be_listed = is_visible && !in_use && !held_cache && !record.is(UNATTACHED);
            assert!(may_be_listed || !record.is(LISTED), "{:?}", entry.id);
            assert!(!may_be_listed || record.is(LISTED) || record.is(SPILLING), "{:?}", entry.id);
            *(if is_visible { &mut visible } else { &mut hidden }) += 1;
            if is_visible {
                assert!(self.objects.pending_objects.get(&entry.id).is_none());
                assert!(self.objects.tier.get(&entry.id).is_none());
            }
        }
        for (serial, kept) in self.objects.kept.iter() {
            let entry = self.objects.find(&kept.id).expect("a kept file has a visible object");
            assert_eq!(entry.serial, *serial, "the file is of what is in memory");
        }
        let kept_bytes: u64 = self.objects.kept.iter().map(|(_, kept)| kept.bytes).sum();
        assert_eq!(kept_bytes, self.objects.kept.bytes());
        assert_eq!(visible, self.objects.visible);
        let withheld = self.seat.withheld_count();
        assert_eq!(hidden, (self.objects.deferred_frees.len() + withheld) as u64);
        for list in [List::Cache, List::Keep, List::Logged] {
            assert_eq!(self.objects.records.oldest(list).count(), self.objects.records.count(list));
            assert!(self.objects.records.oldest(list).all(|record| records.contains(&record)));
        }
        assert!(self.objects.extras.keys().all(|record| records.contains(record)));
    }

    /// What is durable and seen has its record in the log, which no other object has.
    fn check_logged(&self) {
        let mut lsns = BTreeSet::new();
        for (serial, record) in self.objects.durable.iter() {
            let withheld = self.seat.withheld(&record.id).map(|it| self.objects.entry(it.record));
            let entry = self.objects.find(&record.id).or(withheld).expect("it has an object");
            assert_eq!(entry.serial, *serial, "the record is of what is in memory");
            let is_pooled = record.id.is_pooled();
            assert!(is_pooled || self.objects.is_durable(entry.record), "{:?}", record.id);
            assert!(lsns.insert(record.lsn), "{} is of two objects", record.lsn);
        }
        for (id, spilled) in self.objects.tier.from(0) {
            let is_logged = match spilled.backing {
                Backing::File => false,
                Backing::Log(lsn) => lsns.insert(lsn),
                Backing::Superseded => unreachable!("{id:?} was replaced at once"),
            };
            // Of a pool those copies are in the log that the agent wants there.
            let is_pooled = id.is_pooled();
            assert!(is_pooled || is_logged == spilled.extras.attributes.durable, "{id:?}");
            assert!(!spilled.unpublished || (is_pooled && is_logged), "{id:?}");
        }
        if !self.config.durable || !self.objects.durable.is_open() {
            return;
        }
        for (_, entry, visible) in self.objects.directory.entries() {
            if entry.id.is_pooled() {
                continue;
            }
            let is_durable = visible && self.objects.is_durable(entry.record);
            assert_eq!(self.objects.durable.has(entry.serial), is_durable, "{:?}", entry.id);
        }
    }

    fn check_owners(&self) {
        let mut owned: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, entry, _) in self.objects.directory.entries() {
            let owner = self.objects.records.get(entry.record).owner;
            *owned.entry(owner).or_default() +=
                self.space.memory.charge(&entry.range, &entry.meta.sizes);
        }
        for (_, creating) in self.objects.pending_objects.from(0) {
            let coming = creating.growing.map_or(0, |growing| growing.coming_bytes);
            *owned.entry(creating.owner).or_default() += creating.charge + coming;
        }
        for job in self.space.jobs.parked() {
            if let Purpose::Lease { asker, held_bytes, .. } = job.purpose {
                *owned.entry(asker.session).or_default() += held_bytes;
            }
        }
        for (no, client) in self.sessions.clients.iter() {
            let objects = owned.get(&client.session).copied().unwrap_or(0);
            assert_eq!(client.owned_bytes, objects + client.leases.bytes(), "{no:?}");
            let creating = client.creating.iter();
            assert!(creating.clone().all(|id| self.objects.pending_objects.get(id).is_some()));
            let pins: u32 = client.pins.values().sum();
            assert_eq!(client.pins_count, pins as usize);
        }
        let connected: u64 =
            self.sessions.clients.iter().map(|(_, client)| client.owned_bytes).sum();
        let mut left = 0;
        for (session, bytes) in self.sessions.clients.accounts().ended() {
            assert_eq!(Some(&bytes), owned.get(&session), "what a session left stays charged");
            left += bytes;
        }
        assert_eq!(self.sessions.clients.accounts().total(), connected + left);
        let mut pins: BTreeMap<u64, u32> = BTreeMap::new();
        for (_, client) in self.sessions.clients.iter() {
            for (serial, count) in &client.pins {
                *pins.entry(*serial).or_default() += count;
            }
        }
        assert_eq!(pins, self.sessions.pins);
        let serials: BTreeSet<u64> =
            self.objects.directory.entries().map(|(_, entry, _)| entry.serial).collect();
        assert!(pins.keys().all(|serial| serials.contains(serial)), "what is pinned is there");
        assert!(self.objects.directory.pins.keys().all(|serial| serials.contains(serial)));
    }

    fn check_adoptions(&self) {
        for (namespace, adopted) in self.sessions.adoptions.iter() {
            assert!(
                self.sessions.clients.get(adopted.parent()).is_some(),
                "its parent is connected"
            );
            assert!(!namespace.is_empty());
        }
        let mut names: BTreeSet<&String> = self.sessions.adoptions.spaces().keys().collect();
        let in_memory = self.objects.extras.values().map(|extras| &extras.attributes);
        let in_tier = self.objects.tier.from(0).map(|(_, spilled)| &spilled.extras.attributes);
        let named = in_memory.chain(in_tier).filter_map(|attributes| attributes.name.as_ref());
        names.extend(named.map(|name| &name.namespace).filter(|name| !name.is_empty()));
        for namespace in names {
            let within = |name: Option<&plasmon_proto::Name>| {
                name.is_some_and(|name| name.namespace == *namespace)
            };
            let mut there = BTreeMap::new();
            for (_, entry, visible) in self.objects.directory.entries() {
                let Some(extras) = self.objects.extras_of(entry.record) else { continue };
                if visible && within(extras.attributes.name.as_ref()) {
                    there.insert(entry.id, extras.counted_bytes(&entry.meta));
                }
            }
            // What is not published counts nowhere.
            for (id, spilled) in self.objects.tier.from(0).filter(|(_, it)| !it.unpublished) {
                if within(spilled.extras.attributes.name.as_ref()) {
                    there.insert(*id, spilled.extras.counted_bytes(&spilled.meta));
                }
            }
            let known = self.sessions.adoptions.spaces().get(namespace);
            assert_eq!(there.values().sum::<u64>(), known.map_or(0, |space| space.bytes));
            let known = known.map(|space| space.ids.clone()).unwrap_or_default();
            assert_eq!(there, known, "what is in {namespace} is known");
        }
    }

    fn check_holders(&self) {
        let mut held: BTreeMap<ObjectId, (u32, u32)> = BTreeMap::new();
        let is_held = |id: &&ObjectId| !id.is_pooled();
        let named = self.objects.extras.values().flat_map(|extras| &extras.attributes.members);
        for id in named.filter(is_held) {
            held.entry(*id).or_default().0 += 1;
        }
        let named = self.objects.tier.from(0).flat_map(|(_, it)| &it.extras.attributes.members);
        for id in named.filter(is_held) {
            let (holders, holders_spilled) = held.entry(*id).or_default();
            (*holders, *holders_spilled) = (*holders + 1, *holders_spilled + 1);
        }
        let expected = |id: &ObjectId| held.get(id).copied().unwrap_or_default();
        let counted = |extras: &Extras| (extras.holders, extras.holders_spilled);
        for (_, entry, visible) in self.objects.directory.entries() {
            let found = self.objects.extras_of(entry.record).map(counted).unwrap_or_default();
            assert!(!visible || found == expected(&entry.id), "{:?}", entry.id);
        }
        for (id, spilled) in self.objects.tier.from(0) {
            assert_eq!(counted(&spilled.extras), expected(id), "{id:?}");
        }
        let lives =
            |id: &ObjectId| self.objects.find(id).is_some() || self.objects.tier.get(id).is_some();
        let absent: BTreeMap<ObjectId, (u32, u32)> =
            held.into_iter().filter(|(id, _)| !lives(id)).collect();
        let known = self.objects.absent_members.iter();
        let known = known.map(|(id, holds)| (*id, (holds.holders, holds.spilled))).collect();
        assert_eq!(absent, known, "members live, or were lost by an earlier daemon");
    }
}
