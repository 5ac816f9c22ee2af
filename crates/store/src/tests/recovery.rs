//! Taking over what an earlier daemon left.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{PendingObject, Reply, Request};
use plasmon_proto::object::{Level, ObjectMeta, Traits};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Attributes, Code, ObjectState, Policy};

use super::{Put, TestDirectory, World, id, sizes};
use crate::deletes::RETRY_MS_MAX;
use crate::event::{ClientNo, Event, RecoveredExtent, RecoveredObject};
use crate::ports::{Directory as _, Entry};
use crate::{Config, Effect, Store};

const MIB: u64 = 1 << 20;
const ARENA: ExtentId = ExtentId(7);
const OTHER: ExtentId = ExtentId::new(9, 3);

use ObjectState::{Absent, Corrupt, CreatorDied, Deleted, Sealed, Spilled};

/// What an earlier daemon left.
#[derive(Default)]
struct StoreRemains {
    directory: TestDirectory,
    objects: Vec<RecoveredObject>,
    extents: Vec<RecoveredExtent>,
}

impl StoreRemains {
    fn extent(mut self, extent: ExtentId, bytes: u64, quarantined: bool) -> Self {
        self.extents.push(RecoveredExtent {
            resident_bytes: bytes,
            extent,
            bytes,
            quarantined,
            lent: None,
            strict: false,
        });
        self
    }

    fn object(self, number: u64, extent: ExtentId, offset: u64) -> Self {
        self.full_object(number, extent, offset, Attributes::default(), false)
    }

    fn full_object(
        self,
        number: u64,
        extent: ExtentId,
        offset: u64,
        attributes: Attributes,
        hidden: bool,
    ) -> Self {
        self.incarnation((number, 100 + number), extent, offset, attributes, hidden)
    }

    fn incarnation(
        mut self,
        (number, serial): (u64, u64),
        extent: ExtentId,
        offset: u64,
        attributes: Attributes,
        hidden: bool,
    ) -> Self {
        let mut sizes = sizes(1000);
        sizes.attributes = attributes.encode().len() as u64;
        let range = Range { extent, offset, bytes: sizes.footprint().unwrap() };
        let traits = Traits { policy: Policy::Cache, ..Traits::default() };
        let record = 5 * (serial - 100) as u32;
        let id = id(number);
        let meta = ObjectMeta { sizes, traits, created_ms: 900_000, construct_ms: 0 };
        let entry = Entry { serial, id, range, meta, record };
        let slot = self.directory.leave(entry, !hidden);
        self.objects.push(RecoveredObject::in_memory(slot, &entry, !hidden, attributes));
        self
    }

    fn spilled(mut self, number: u64, serial: u64) -> Self {
        let meta = ObjectMeta { sizes: sizes(1000), created_ms: 900_000, ..ObjectMeta::default() };
        let attributes = Attributes::default();
        self.objects.push(RecoveredObject::spilled(id(number), serial, meta, attributes));
        self
    }

    fn recover(self, config: Config) -> (World, usize) {
        let config = Config { first_birth: 100, spill_bytes_max: Some(u64::MAX), ..config };
        let mut store = Store::new(config, self.directory);
        let mut effects = Vec::new();
        let tier = self.objects.iter().filter(|object| object.range.is_none());
        let tier = tier.map(|object| (object.serial, object.id)).collect();
        let broken = store.recover(1_000_000, &self.extents, self.objects, &mut effects);
        store.check();
        let mut world = World::over(store);
        world.extents = self.extents.iter().map(|it| (it.extent, it.bytes)).collect();
        for effect in &effects {
            if let Effect::Drop(extent) = effect {
                world.extents.remove(extent);
            }
        }
        world.tier = tier;
        world.effects = effects;
        (world, broken.len())
    }
}

#[test]
fn sealed_objects_are_there_and_the_gaps_between_them_are_free() {
    let left = StoreRemains::default()
        .extent(ARENA, MIB, false)
        .extent(OTHER, 4096, false)
        .object(1, ARENA, 0)
        .object(2, ARENA, 8192);
    let (mut world, broken) = left.recover(Config::new(16 * MIB));
    assert_eq!(broken, 0);
    assert_eq!(world.states(&[1, 2]), [Sealed; 2]);
    let status = world.status();
    assert_eq!((status.objects, status.used_bytes, status.extents), (2, 2048, 1));
    assert!(world.effects.contains(&Effect::Drop(OTHER)), "an empty extent is of no use");
    let client = world.connect(1);
    let lease = world.lease(client, 4096).unwrap();
    assert_eq!(lease.range.extent, ARENA);
    assert!(!lease.warm, "its pages are reserved again");
    assert_eq!(world.delete(client, 1), None);
    // Serials go on after those of the earlier daemon.
    world.put(client, Put::new(3, 10)).unwrap();
    assert_eq!(world.store.objects.find(&id(3)).unwrap().serial, 103);
}

#[test]
fn hidden_objects_wait_for_their_readers() {
    let mut left = StoreRemains::default().extent(ARENA, MIB, false).object(1, ARENA, 0);
    left = left.full_object(2, ARENA, 1024, Attributes::default(), true);
    left.directory.pins.insert(102, 1);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    assert_eq!(world.states(&[1, 2]), [Sealed, Absent]);
    assert_eq!(world.status().lingering, 1);
    world.pass(0);
    assert_eq!(world.status().lingering, 1);
    world.unpin(102);
    world.pass(20);
    assert_eq!((world.status().lingering, world.status().used_bytes), (0, 1024));
}

/// What was hidden was taken for deleted, also an object that had only been about to give its
/// memory up to the spill tier. Its file was removed with it.
#[test]
fn an_object_that_was_leaving_the_memory_is_there_and_a_deleted_one_is_not() {
    let mut left = StoreRemains::default().extent(ARENA, MIB, false);
    left = left.full_object(1, ARENA, 0, Attributes::default(), true).spilled(1, 101);
    left = left.full_object(2, ARENA, 1024, Attributes::default(), true).spilled(2, 102);
    left.directory.leaving = Some(102);
    left.directory.pins.insert(102, 1);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    assert_eq!(world.states(&[1, 2]), [Absent, Sealed]);
    assert_eq!(world.store.directory().leaving, None);
    for number in [1, 2] {
        assert!(world.effects.contains(&Effect::Unspill(id(number), 100 + number)), "{number}");
    }
    world.pass(20);
    assert_eq!((world.status().objects, world.status().lingering), (1, 0));
    world.unpin(102);
    let client = world.connect(1);
    assert_eq!(world.delete(client, 2), None);
}

/// A client that named its scope again to the next daemon, and was killed then.
#[test]
fn scopes_of_an_earlier_daemon_are_deleted_with_their_maker() {
    let left = StoreRemains::default().extent(ARENA, MIB, false).spilled(3, 30);
    let left = left.object(1, ARENA, 0).object(2, ARENA, 8192);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let (maker, other) = (world.connect(1), world.connect(2));
    let ids = vec![id(1), id(2), id(3), id(4), id(5)];
    world.put(other, Put::new(5, 1000)).unwrap();
    assert_eq!(world.ask(maker, Request::Scope { scope: 1, ids, again: true }), Reply::Done);
    world.put(maker, Put::new(4, 1000)).unwrap();
    // Another incarnation is not its own.
    assert_eq!(world.delete(other, 2), None);
    world.put(other, Put::new(2, 1000)).unwrap();
    world.disconnect(maker);
    let states = world.states(&[1, 2, 3, 4, 5]);
    assert_eq!(states, [Deleted, Sealed, Deleted, Deleted, Sealed]);
}

/// A daemon that was killed while it replaced an object: one of the two is there.
#[test]
fn of_an_object_and_the_one_that_replaces_it_one_is_there() {
    let old = |left: StoreRemains| left.full_object(1, ARENA, 0, Attributes::default(), true);
    let new =
        |left: StoreRemains| left.incarnation((1, 150), ARENA, 1024, Attributes::default(), false);
    let begun = || StoreRemains::default().extent(ARENA, MIB, false);
    for (mut left, serial) in [(old(begun()), 101), (new(old(begun())), 150)] {
        left.directory.leaving = Some(101);
        let (mut world, broken) = left.recover(Config::new(16 * MIB));
        assert_eq!((broken, world.states(&[1])), (0, vec![Sealed]));
        assert_eq!(world.store.objects.find(&id(1)).unwrap().serial, serial);
        assert_eq!(world.store.directory().leaving, None);
        world.pass(20);
        assert_eq!((world.status().objects, world.status().lingering), (1, 0));
    }
}

/// An object that had been deleted in the tier was there again after the daemon was killed, because
/// its file was still to be removed.
#[test]
fn a_file_that_was_about_to_be_removed_is_no_object() {
    let mut left = StoreRemains::default().extent(ARENA, MIB, false).spilled(1, 30).spilled(2, 40);
    left.directory.void.insert(30);
    let (world, _) = left.recover(Config::new(16 * MIB));
    assert_eq!(world.states(&[1, 2]), [Absent, Spilled]);
    assert!(world.effects.contains(&Effect::Unspill(id(1), 30)));
}

#[test]
fn entries_that_contradict_each_other_are_corrupt_and_the_rest_lives() {
    let left = StoreRemains::default()
        .extent(ARENA, MIB, false)
        .object(1, ARENA, 0)
        .object(2, ARENA, 960)
        .object(3, ARENA, MIB - 512)
        .object(4, OTHER, 0)
        .object(5, ARENA, 32 + 2048)
        .object(6, ARENA, 2048);
    let (mut world, broken) = left.recover(Config::new(16 * MIB));
    assert_eq!(broken, 4);
    assert_eq!(
        world.states(&[1, 2, 3, 4, 5, 6]),
        [Sealed, Corrupt, Corrupt, Corrupt, Corrupt, Sealed]
    );
    let client = world.connect(1);
    assert!(world.put(client, Put::new(2, 10)).is_ok());
}

#[test]
fn record_numbers_that_cannot_be_are_given_anew() {
    let mut left = StoreRemains::default().extent(ARENA, MIB, false);
    for number in 1..20 {
        left = left.object(number, ARENA, number * 1024);
    }
    for (at, record) in [(3, 5), (4, u32::MAX), (5, 5), (6, 1 << 31)] {
        let slot = left.objects[at].slot;
        left.objects[at].record = record;
        let entry = Entry { record, ..*left.directory.entries().nth(at).unwrap().1 };
        left.directory.replace(slot, entry);
    }
    let (mut world, broken) = left.recover(Config::new(16 * MIB));
    assert_eq!(broken, 0);
    let client = world.connect(1);
    for number in 1..20 {
        assert_eq!(world.state(number), Sealed);
        assert_eq!(world.delete(client, number), None);
    }
    assert_eq!(world.status().used_bytes, 0);
}

#[test]
fn composites_names_and_times_are_known_again() {
    let members = Attributes { members: vec![id(1), id(5)], ..Attributes::default() };
    let ttl = Attributes { ttl_ms: Some(200_000), ..Attributes::default() };
    let left = StoreRemains::default()
        .extent(ARENA, MIB, false)
        .object(1, ARENA, 0)
        .full_object(2, ARENA, 2048, members, false)
        .full_object(3, ARENA, 4096, ttl, false)
        .spilled(5, 50);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let client = world.connect(1);
    assert_eq!(world.delete(client, 1), Some(Code::InUse));
    assert_eq!(world.delete(client, 5), Some(Code::InUse));
    assert_eq!(world.store.next_deadline(), Some(1_100_000));
    assert_eq!(world.delete(client, 2), None);
    assert_eq!(world.delete(client, 1), None);
    world.pass(100_000);
    assert_eq!(world.states(&[1, 2, 3, 5]), [Deleted, Deleted, Deleted, Spilled]);
}

#[test]
fn of_two_copies_the_newest_and_the_one_in_memory_count() {
    let left = StoreRemains::default()
        .extent(ARENA, MIB, false)
        .object(1, ARENA, 0)
        .spilled(1, 30)
        .spilled(2, 40)
        .spilled(2, 41);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    assert!(world.effects.contains(&Effect::Unspill(id(1), 30)));
    assert!(world.effects.contains(&Effect::Unspill(id(2), 40)));
    let client = world.connect(1);
    let ids = vec![id(2)];
    let wait = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: false };
    assert_eq!(world.ask(client, wait), Reply::States(vec![Sealed]));
}

#[test]
fn an_extent_whose_writer_may_come_back_is_left_alone_until_it_is_gone() {
    let left = StoreRemains::default().extent(ARENA, MIB, true);
    let left = left.object(1, ARENA, 0).object(2, ARENA, 1024);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let client = world.connect(1);
    let lease = world.lease(client, 4096).unwrap();
    assert_ne!(lease.range.extent, ARENA);
    assert_eq!(world.delete(client, 1), None);
    assert!(!world.effects.contains(&Effect::Drop(ARENA)));
    let writer = world.connect(2);
    world.event(Event::Part(writer));
    world.store.writer_back(ARENA, writer);
    world.store.check();
    assert_eq!(world.status().away_bytes, MIB - 2 * 1024);
    assert_ne!(world.lease(client, 4096).unwrap().range.extent, ARENA);
    world.disconnect(writer);
    assert_eq!(world.status().away_bytes, 0);
    let other = world.connect(3);
    assert_eq!(world.lease(other, 4096).unwrap().range.extent, ARENA);
}

/// Each large object that a daemon was asked for, and was killed before it answered, left an extent
/// that stayed, and was in doubt again with the next restart: the store was full of nothing.
#[test]
fn memory_in_which_nothing_lies_is_dropped_when_its_writer_does_not_name_it() {
    let left = StoreRemains::default().extent(ARENA, 32 * MIB, true).extent(OTHER, 32 * MIB, true);
    let (mut world, _) = left.recover(Config::new(64 * MIB));
    let client = world.connect(1);
    world.event(Event::Part(client));
    for extent in [ARENA, OTHER] {
        world.store.writer_back(extent, client);
    }
    assert_eq!(world.status().away_bytes, 64 * MIB);
    let held = Range { extent: OTHER, offset: 0, bytes: 4096 };
    world.event(Event::Resume(client, vec![held], Vec::new()));
    assert!(world.effects.contains(&Effect::Drop(ARENA)));
    let status = world.status();
    assert_eq!((status.extents, status.leased_bytes, status.away_bytes), (1, 4096, 0));
}

/// A client pushes records while there is no daemon. The new one applies them before the client has
/// said anything, and they may be about any free part of the client's extents.
#[test]
fn records_pushed_while_there_was_no_daemon_are_applied() {
    let left = StoreRemains::default().extent(ARENA, MIB, true).object(1, ARENA, 0);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let (client, other) = (world.connect(1), world.connect(2));
    world.store.writer_back(ARENA, client);
    let at = |offset| Range { extent: ARENA, offset, bytes: 0 };
    // This one was applied already by the daemon that died.
    assert_eq!(world.submit(client, Submission::Announce { id: id(1) }), Ok(()));
    assert_eq!(world.put_at(client, Put::new(1, 1000), at(0)), Ok(()));
    assert_eq!(world.put_at(client, Put::new(2, 1000), at(8192)), Ok(()));
    assert_eq!(world.put_at(client, Put::new(3, 1000), at(64)), Err(Code::BadRequest));
    assert_eq!(world.put_at(other, Put::new(3, 1000), at(16_384)), Err(Code::BadRequest));
    assert_eq!(world.submit(other, Submission::Announce { id: id(1) }), Err(Code::Exists));
    assert_eq!(world.states(&[1, 2]), [Sealed; 2]);
    world.disconnect(client);
    assert_eq!(world.status().leased_bytes, 0);
    assert!(world.lease(other, 64).unwrap().range.extent == ARENA, "the rest is open");
}

#[test]
fn a_client_that_resumes_keeps_what_it_names_and_no_more() {
    let left = StoreRemains::default().extent(ARENA, MIB, true).object(1, ARENA, 0);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let client = world.connect(1);
    world.store.writer_back(ARENA, client);
    let lease = Range { extent: ARENA, offset: 65_536, bytes: 8192 };
    let creating = |number, offset, bytes| PendingObject {
        id: id(number),
        sizes: sizes(bytes),
        traits: Traits::default(),
        range: Range { extent: ARENA, offset, bytes },
        strict: false,
    };
    let objects = vec![
        creating(2, 32_768, 4096),
        creating(3, 36_864, 4096),
        creating(1, 40_960, 4096),
        creating(4, 0, 4096),
        creating(5, u64::MAX - 63, 64),
    ];
    let overlong = Range { extent: ARENA, offset: 131_072, bytes: u64::MAX - 131_071 };
    world.event(Event::Resume(client, vec![lease, overlong], objects));
    let creating = ObjectState::Creating;
    assert_eq!(world.states(&[1, 2, 3, 4, 5]), [Sealed, creating, creating, Absent, Absent]);
    let status = world.status();
    assert_eq!(status.leased_bytes, 8192 + (MIB - 131_072));
    assert_eq!(status.used_bytes, 1024 + 8192);
    // One of them is sealed, the other comes through the ring.
    assert_eq!(world.seal(client, &Put::new(2, 4096)), Ok(()));
    let at = Range { extent: ARENA, offset: 36_864, bytes: 4096 };
    assert_eq!(world.put_at(client, Put::new(3, 4096), at), Ok(()));
    assert_eq!(world.put_at(client, Put::new(6, 64), lease), Ok(()));
    let given_up = Range { extent: ARENA, offset: 16_384, bytes: 64 };
    assert_eq!(world.put_at(client, Put::new(7, 64), given_up), Err(Code::BadRequest));
}

#[test]
fn a_creator_that_died_with_the_daemon_is_reported_to_waiters() {
    let left = StoreRemains::default().extent(ARENA, MIB, true);
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let (client, other) = (world.connect(1), world.connect(2));
    world.store.writer_back(ARENA, client);
    assert_eq!(world.submit(client, Submission::Announce { id: id(1) }), Ok(()));
    let ids = vec![id(1)];
    let wait = Request::Wait { ids, count: 0, timeout_ms: None, beyond_end: false };
    let waiting = world.send(other, wait);
    world.disconnect(client);
    assert_eq!(world.answer_to(other, waiting), Some(Reply::States(vec![CreatorDied])));
}

#[test]
fn at_level_leased_the_gaps_of_the_dead_are_never_used() {
    let left = StoreRemains::default().extent(ARENA, MIB, false).object(1, ARENA, 0);
    let config = Config { level: Level::Leased, ..Config::new(16 * MIB) };
    let (mut world, _) = left.recover(config);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Punch(_))));
    let client = world.connect(1);
    let lease = world.lease(client, 64).unwrap();
    assert_ne!(lease.range.extent, ARENA);
    assert_eq!(world.delete(client, 1), None);
    assert!(world.effects.contains(&Effect::Drop(ARENA)));
}

#[test]
fn extents_that_cannot_be_are_not_taken_over() {
    let left = StoreRemains::default()
        .extent(ARENA, MIB, true)
        .extent(ARENA, MIB, true)
        .extent(ExtentId::new(ARENA.index() as u32, 5), MIB, true)
        .extent(ExtentId(8), 0, true)
        .extent(ExtentId(9), 100, true);
    let (world, _) = left.recover(Config::new(16 * MIB));
    assert_eq!(world.status().extents, 1);
    assert_eq!(world.store.owned_bytes(ClientNo(1)), 0);
}

/// A spill tier that cannot be read at the start comes back later. What happened meanwhile counts
/// more than the old files.
#[test]
fn a_tier_that_comes_back_later_brings_what_was_not_replaced() {
    let mut left = StoreRemains::default().object(1, ARENA, 0).extent(ARENA, MIB, false);
    let files = StoreRemains::default().spilled(1, 11).spilled(2, 12).spilled(3, 13).spilled(4, 14);
    let files = files.objects;
    left.objects.retain(|object| object.range.is_some());
    let (mut world, broken) = left.recover(Config::new(16 * MIB));
    assert_eq!(broken, 0);
    let client = world.connect(1);
    world.put(client, Put::new(2, 1000)).unwrap();
    world.put(client, Put::new(3, 1000)).unwrap();
    assert_eq!(world.delete(client, 3), None);
    let waits = world.send(
        client,
        Request::Wait { ids: vec![id(4)], count: 0, timeout_ms: None, beyond_end: false },
    );
    world.tier = files.iter().map(|object| (object.serial, object.id)).collect();
    let mut effects = Vec::new();
    world.store.adopt_tier(1_000_500, files, &mut effects);
    let removed: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Unspill(_, serial) => Some(*serial),
            _ => None,
        })
        .collect();
    assert_eq!(removed, [11, 12, 13], "what is known by now counts more than an old file");
    assert_eq!(world.states(&[1, 2, 3, 4]), [Sealed, Sealed, Deleted, Spilled]);
    // What a request waited for comes back at once.
    world.do_all(effects);
    assert_eq!(world.answer_to(client, waits), Some(Reply::States(vec![Sealed])));
    world.store.check();
}

/// A time to live counted from the creation after a restart: an object that took long to build was
/// deleted as soon as the next daemon had started.
#[test]
fn a_time_to_live_counts_from_the_seal_also_after_a_restart() {
    let living = Attributes { ttl_ms: Some(60_000), ..Attributes::default() };
    let left = StoreRemains::default().extent(ARENA, MIB, false).spilled(2, 50);
    let mut left = left.full_object(1, ARENA, 0, living.clone(), false);
    left.objects[0].attributes = living;
    for object in &mut left.objects {
        // Created at 900,000; sealed 90 s later.
        object.meta.construct_ms = 90_000;
    }
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    for number in [1, 2] {
        let info = world.store.stat(&id(number)).unwrap();
        assert_eq!((info.created_ms, info.expires_ms), (900_000, Some(1_050_000)), "{number}");
    }
    world.now_ms = 1_049_999;
    world.event(Event::Tick);
    assert_eq!(world.states(&[1, 2]), [Sealed, Spilled]);
    world.now_ms = 1_050_000;
    world.event(Event::Tick);
    assert_eq!(world.states(&[1, 2]), [Deleted, Deleted]);
}

fn group(members: &[u64]) -> Attributes {
    let members = members.iter().map(|number| id(*number)).collect();
    Attributes { members, ..Attributes::default() }
}

/// Composites of an earlier daemon did not hold members that were in a tier which could not be read
/// at first: once it could be, the members were deleted, and the composites stayed.
#[test]
fn a_composite_holds_members_that_come_with_a_late_tier() {
    let left = StoreRemains::default().extent(ARENA, MIB, false);
    let left = left.full_object(1, ARENA, 0, group(&[2, 3, 2]), false);
    let files = StoreRemains::default().spilled(2, 12).spilled(3, 13).objects;
    let (mut world, _) = left.recover(Config::new(16 * MIB));
    let client = world.connect(1);
    world.tier = files.iter().map(|object| (object.serial, object.id)).collect();
    let mut effects = Vec::new();
    world.store.adopt_tier(1_000_500, files, &mut effects);
    world.do_all(effects);
    assert_eq!(world.store.stat(&id(2)).unwrap().holders, 2);
    for number in [2, 3] {
        assert_eq!(world.delete(client, number), Some(Code::InUse));
    }
    assert_eq!(world.delete(client, 1), None);
    for number in [2, 3] {
        assert_eq!(world.delete(client, number), None);
    }
}

/// The member of a composite of an earlier daemon was lost. Another object was put under its id,
/// and another composite of it. The first composite was deleted, and let go what it had never held:
/// the object was deleted under the other composite.
#[test]
fn a_composite_lets_go_only_what_it_holds() {
    for (first, second) in [(1, 10), (10, 1)] {
        let left = StoreRemains::default().extent(ARENA, MIB, false);
        let left = left.full_object(1, ARENA, 0, group(&[2]), false);
        let (mut world, _) = left.recover(Config::new(16 * MIB));
        let client = world.connect(1);
        world.put(client, Put::new(2, 100).owned()).unwrap();
        assert_eq!(world.store.stat(&id(2)).unwrap().holders, 1);
        world.put(client, Put::new(10, 0).of(&[2])).unwrap();
        assert_eq!(world.delete(client, first), None);
        assert_eq!(world.states(&[first, second, 2]), [Deleted, Sealed, Sealed]);
        assert_eq!(world.delete(client, second), None);
        assert_eq!(world.state(2), Deleted);
        assert_eq!(world.status().used_bytes, 0);
    }
}

/// A daemon hides the owned members of a deleted composite for the look for pins. It was killed in
/// that moment, and the next one took them for deleted: their memory was given to others while a
/// reader of the composite, which has no pins on them, still read it.
#[test]
fn members_that_were_hidden_for_a_look_stay_as_long_as_their_composite() {
    // An earlier incarnation of the first member is deleted and pinned.
    let earlier = Attributes::default();
    let mut left = StoreRemains::default()
        .extent(ARENA, MIB, false)
        .incarnation((2, 101), ARENA, 0, earlier, true)
        .full_object(2, ARENA, 1024, Attributes::default(), true)
        .full_object(3, ARENA, 2048, Attributes::default(), true)
        .full_object(4, ARENA, 3072, group(&[3]), true)
        .full_object(10, ARENA, 8192, group(&[2, 4]), true);
    for object in &mut left.objects[..4] {
        object.meta.traits.owned = true;
        let (slot, mut entry) = (object.slot, left.directory.entry(object.slot));
        entry.meta = object.meta;
        left.directory.replace(slot, entry);
    }
    left.directory.pins = [(101, 1), (110, 1)].into();
    let (mut world, broken) = left.recover(Config::new(16 * MIB));
    world.pass(RETRY_MS_MAX);
    assert_eq!((broken, world.states(&[2, 3, 4, 10])), (0, vec![Sealed, Sealed, Sealed, Absent]));
    assert_eq!(world.store.stat(&id(2)).unwrap().holders, 1);
    world.unpin(110);
    world.pass(RETRY_MS_MAX);
    assert_eq!(world.states(&[2, 3, 4, 10]), [Deleted, Deleted, Deleted, Absent]);
    assert_eq!((world.status().objects, world.status().lingering), (0, 1));
}
