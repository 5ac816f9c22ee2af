//! Durable objects, as a client sees them.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plasmon_client::{Client, Code, Filter, Name, ObjectId, Policy, PutOptions};
use plasmon_testkit::{Random, TestStore, id, pattern, until};

const MIB: u64 = 1 << 20;

fn durable() -> PutOptions {
    PutOptions { durable: true, ..PutOptions::default() }
}

fn store(folder: &tempfile::TempDir) -> TestStore {
    let folder = folder.path().join("log").display().to_string();
    TestStore::with(16 * MIB, &[("durable_dir", &folder), ("durable_segment_bytes", "1m")])
}

/// One whose leases have two objects of 2 MiB.
fn large_store(folder: &tempfile::TempDir) -> TestStore {
    let folder = folder.path().join("log").display().to_string();
    TestStore::with(256 * MIB, &[("durable_dir", &folder), ("durable_segment_bytes", "8m")])
}

fn ids(client: &Client) -> Vec<ObjectId> {
    let mut ids: Vec<_> = client
        .list(&Filter::default())
        .expect("a listing")
        .into_iter()
        .map(|info| info.id)
        .collect();
    ids.sort();
    ids
}

#[test]
fn the_next_store_has_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mut expected) = (pattern(1, 300_000), Vec::new());
    let node = store(&folder);
    {
        let client = node.connect();
        let named = PutOptions { id: Some(id(1)), metadata: vec![7; 9], ..durable() };
        expected.push(client.put(&data, &named).unwrap());
        let many: Vec<_> = (0..200u8).map(|at| vec![at; usize::from(at)]).collect();
        let many: Vec<_> = many.iter().map(|data| (None, &data[..])).collect();
        expected.extend(client.put_many(&many, &durable()).unwrap());
        let mut writer = client.create(5, &durable()).unwrap();
        writer.copy_from_slice(b"built");
        expected.push(writer.seal().unwrap());
        let gone = client.put(b"gone", &durable()).unwrap();
        assert_eq!(client.delete(&[gone, expected[1]]).unwrap(), [None, None]);
        expected.remove(1);
        client.put(b"volatile", &PutOptions::default()).unwrap();
        assert!(client.stat(&id(1)).unwrap().unwrap().durable);
        assert_eq!(client.status().unwrap().log.unwrap().objects, 201);
    }
    node.start_anew();
    let client = node.connect();
    expected.sort();
    assert_eq!(ids(&client), expected);
    let found = client.get_existing(&id(1)).unwrap();
    assert!(found.data() == &data[..] && found.metadata() == [7; 9]);
}

#[test]
fn a_put_of_many_ends_with_its_first_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    client.put(b"there", &PutOptions { id: Some(id(3)), ..durable() }).unwrap();
    let many: Vec<_> = (1..=5).map(|number| (Some(id(number)), &b"x"[..])).collect();
    let refused = client.put_many(&many, &durable()).unwrap_err();
    assert_eq!((refused.code(), refused.id()), (Code::Exists, Some(id(3))));
    assert_eq!(client.status().unwrap().log.unwrap().objects, 3);
    assert_eq!(client.status().unwrap().creating, 0);
}

/// Each is put by one request from leased memory, of which there is less than all of them take.
#[test]
fn many_small_objects_may_take_more_than_the_memory_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    let contents: Vec<_> =
        (0..600).map(|number| pattern(number, 1 + (number as usize * 911) % 60_000)).collect();
    let many: Vec<_> = contents.iter().map(|data| (None, &data[..])).collect();
    let options = PutOptions { metadata: vec![3; 5], ..durable() };
    let ids = client.put_many(&many, &options).unwrap();
    assert_eq!(client.status().unwrap().creating, 0);
    let check = |client: &Client| {
        for (id, data) in ids.iter().zip(&contents) {
            let found = client.get_existing(id).unwrap();
            assert!(found.data() == &data[..] && found.metadata() == [3; 5], "{id}");
        }
    };
    check(&client);
    drop(client);
    node.start_anew();
    check(&node.connect());
}

#[test]
fn a_store_without_a_log_refuses_before_a_byte_is_copied() {
    let node = TestStore::new(16 * MIB);
    let client = node.connect();
    for outcome in [
        client.put(b"x", &durable()).map(drop),
        client.create(1 << 20, &durable()).map(drop),
        client.put_many(&[(None, b"x")], &durable()).map(drop),
    ] {
        assert_eq!(outcome.unwrap_err().code(), Code::Unsupported);
    }
    assert_eq!(client.status().unwrap().sealed_total, 0);
}

/// What is the same of an object, however it was put.
fn described(client: &Client, id: &ObjectId) -> impl PartialEq + std::fmt::Debug + use<> {
    let info = client.stat(id).unwrap().unwrap();
    (info.state, info.sizes.data, info.sizes.metadata, info.traits, info.expires_ms.is_some())
}

/// A small durable object goes to the daemon in one request, from leased memory.
#[test]
fn durable_objects_are_what_plain_ones_are() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let mut last: Vec<(ObjectId, Vec<u8>, Vec<u8>)> = Vec::new();
    for round in 0..120 {
        let bytes = match round % 4 {
            0 => random.pick(&[0, 1, 63, 64, 65, 4000, 4096, 4097]),
            1 => random.pick(&[64 << 10, 127 << 10, 128 << 10, 129 << 10]),
            _ => random.below(70_000) as usize,
        };
        let data = pattern(round, bytes);
        let named = |kind: &str, number: u64| Name::new("n", format!("{kind}{number}")).ok();
        let options = PutOptions {
            metadata: pattern(round + 1000, random.below(100) as usize),
            policy: random.pick(&[Policy::Keep, Policy::Cache]),
            tag: random.below(4) as u8,
            ttl: random.percent(30).then_some(Duration::from_secs(3600)),
            replace: random.percent(40),
            ..PutOptions::default()
        };
        let number = if options.replace { random.below(10) } else { 100 + round };
        let put = |kind, durable| {
            let name = named(kind, number);
            client.put(&data, &PutOptions { name, durable, ..options.clone() }).unwrap()
        };
        let (plain, durable) = (put("plain", false), put("durable", true));
        assert_eq!(described(&client, &plain), described(&client, &durable), "round {round}");
        let info = client.stat(&durable).unwrap().unwrap();
        assert_eq!((info.name, info.durable), (named("durable", number), true));
        let found = client.get_existing(&durable).unwrap();
        assert!(found.data() == &data[..] && found.metadata() == options.metadata);
        last.retain(|(id, ..)| *id != durable);
        last.push((durable, data, options.metadata));
    }
    let unnamed = client.put(b"unnamed", &durable()).unwrap();
    assert_eq!(client.status().unwrap().creating, 0);
    drop(client);
    node.start_anew();
    let client = node.connect();
    for (id, data, metadata) in last {
        let found = client.get_existing(&id).unwrap();
        assert!(found.data() == &data[..] && found.metadata() == metadata, "{id}");
    }
    assert_eq!(client.get_existing(&unnamed).unwrap().data(), b"unnamed");
}

/// An object of which a lease has two is put from leased memory, a larger one from its own.
#[test]
fn objects_around_half_a_lease_are_put_and_their_memory_is_used_again() {
    const HALF: usize = 2 << 20;
    const ROUNDS: u64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let node = large_store(&folder);
    let client = node.connect();
    let sizes = [1 << 20, HALF - 64, HALF, HALF + 1, 3 << 20];
    let mut last = Vec::new();
    for round in 0..ROUNDS {
        let block = pattern(round, 9973);
        let repeated = block.repeat(sizes[4] / block.len() + 1);
        let objects: Vec<_> = sizes.iter().map(|bytes| repeated[..*bytes].to_vec()).collect();
        let mut made: Vec<_> =
            objects.iter().map(|data| client.put(data, &durable()).unwrap()).collect();
        let many: Vec<_> = objects[..2].iter().map(|data| (None, &data[..])).collect();
        made.extend(client.put_many(&many, &durable()).unwrap());
        for (id, data) in made.iter().zip(objects.iter().chain(&objects[..2])) {
            assert!(client.get_existing(id).unwrap().data() == &data[..], "{}", data.len());
        }
        if round < ROUNDS - 1 {
            assert_eq!(client.delete(&made).unwrap(), vec![None; made.len()]);
            until("what is left are leases", || {
                client.status().unwrap().used_bytes <= 3 * (4 << 20)
            });
        } else {
            last = made.into_iter().zip(objects).collect();
        }
    }
    assert_eq!(client.status().unwrap().creating, 0);
    drop(client);
    node.start_anew();
    let client = node.connect();
    for (id, data) in last {
        assert!(client.get_existing(&id).unwrap().data() == &data[..], "{}", data.len());
    }
}

#[test]
fn one_of_many_threads_puts_a_chosen_id_and_the_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let (one, other) = (node.connect(), node.connect());
    for round in 0..20 {
        let won = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..6u64 {
                let client = if number % 2 == 0 { &one } else { &other };
                let won = &won;
                scope.spawn(move || {
                    let options = PutOptions { id: Some(id(round)), ..durable() };
                    match client.put(&pattern(number, 100 + 2000 * number as usize), &options) {
                        Ok(_) => {
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.code(), Code::Exists, "{error}"),
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1, "round {round}");
    }
    let status = one.status().unwrap();
    assert_eq!((status.creating, status.log.unwrap().objects), (0, 20));
}

#[test]
fn a_refused_put_leaves_no_memory_behind() {
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    client.put(b"volatile", &PutOptions { id: Some(id(1)), ..PutOptions::default() }).unwrap();
    let before = client.status().unwrap();
    for _ in 0..200 {
        let taken = PutOptions { id: Some(id(1)), ..durable() };
        assert_eq!(client.put(&[7; 50_000], &taken).unwrap_err().code(), Code::Exists);
        let holder = PutOptions { members: vec![id(1)], ..durable() };
        let refused = client.put(&[7; 50_000], &holder).unwrap_err();
        assert_eq!(refused.code(), Code::Unsupported);
        assert!(refused.to_string().contains("not durable"), "{refused}");
        let owned = PutOptions { owned: true, ..durable() };
        assert_eq!(client.put(b"x", &owned).unwrap_err().code(), Code::Unsupported);
        let replace = PutOptions { replace: true, ..durable() };
        assert_eq!(client.put(b"x", &replace).unwrap_err().code(), Code::BadRequest);
    }
    let after = client.status().unwrap();
    assert_eq!((after.used_bytes, after.creating), (before.used_bytes, 0));
}

/// Daemons are killed while clients put: what was acknowledged is there, and what was not is there
/// whole or not at all.
#[test]
fn what_was_acknowledged_is_there_whichever_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    kill_daemons(&store(&folder), 5, 1);
}

/// The same with objects of up to 2.2 MiB: most are put from leases, some not.
#[test]
fn what_was_acknowledged_of_large_objects_is_there_whichever_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    kill_daemons(&large_store(&folder), 2, 256);
}

/// Kills so many daemons while clients put objects of multiples of so many bytes.
fn kill_daemons(node: &TestStore, kills: u32, unit: u64) {
    let observer = node.connect();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (of_two, alone) = (node.connect(), node.connect());
    let work = |client: &Client, worker: u64| {
        let mut acknowledged = Vec::new();
        for n in 0..400 {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let number = (worker << 32) + n;
            let data = pattern(number, (n * 37 % 9000 * unit) as usize);
            let replace = n % 5 == 4;
            let chosen = if replace { (worker << 32) + (1 << 20) } else { number };
            let id = (n % 3 != 0 || replace).then(|| id(chosen));
            match client.put(&data, &PutOptions { id, replace, ..durable() }) {
                Ok(id) => {
                    acknowledged.retain(|(known, _)| *known != id);
                    acknowledged.push((id, data));
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::Disconnected, "put {n}: {error}");
                    // Whether it replaced the one before is not known.
                    acknowledged.retain(|(known, _)| Some(*known) != id);
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        acknowledged
    };
    let found = thread::scope(|scope| {
        let workers = [(&of_two, 1), (&of_two, 2), (&alone, 3)]
            .map(|(client, worker)| scope.spawn(move || work(client, worker)));
        for _ in 0..kills {
            let (status, before) = (observer.status().unwrap(), done.load(Ordering::Relaxed));
            node.kill_daemon(&status);
            until("another daemon answers", || {
                observer.status().is_ok_and(|now| now.pid != status.pid)
            });
            until("the writers go on", || {
                done.load(Ordering::Relaxed) > before + 20
                    || workers.iter().all(thread::ScopedJoinHandle::is_finished)
            });
        }
        stop.store(true, Ordering::Relaxed);
        workers.map(|worker| worker.join().unwrap()).concat()
    });
    assert!(found.len() > 20, "{}", found.len());
    let check = |client: &Client| {
        for (id, data) in &found {
            let held = client.get_existing(id).unwrap();
            assert!(held.data() == &data[..], "{id}");
        }
    };
    check(&observer);
    node.start_anew();
    check(&node.connect());
}

/// The log showed after every put that the one before was synced, with a write and a sync of its
/// own, which the next put waited for. It does so when nothing was asked for a while.
#[test]
fn the_log_confirms_its_last_batch_when_it_is_idle_and_not_between_puts() {
    const PUTS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let node = store(&folder);
    let client = node.connect();
    let written = || client.status().unwrap().log.unwrap().written_bytes_total;
    let before = written();
    for _ in 0..PUTS {
        client.put(b"small", &durable()).unwrap();
    }
    let after = written();
    // A block each, and where this test was stopped for a while, one more.
    assert!(after - before < (PUTS + PUTS / 2) * 4096, "{before} {after}");
    until("the last batch is confirmed", || written() > after);
}

/// Ends a store, and waits until its log is closed.
fn end(node: TestStore) {
    let status = node.connect().status().expect("a status");
    let process = plasmon_testkit::process(status.pid);
    drop(node);
    assert!(plasmon_testkit::ends(&process));
}

/// Changes a byte of an object in the log of a store that does not run.
fn damage(folder: &std::path::Path, content: &[u8]) {
    let mut found = 0;
    for entry in std::fs::read_dir(folder).expect("the log").flatten() {
        let mut bytes = std::fs::read(entry.path()).expect("a file");
        let mut places = 0..bytes.len().saturating_sub(content.len());
        if let Some(at) = places.find(|at| bytes[*at..].starts_with(content)) {
            bytes[at + content.len() / 2] ^= 1;
            std::fs::write(entry.path(), bytes).expect("it is written");
            found += 1;
        }
    }
    assert_eq!(found, 1, "it is in the log");
}

/// The disk has lost an object that no program reads: it is found all the same, stays, and is
/// counted until it is deleted.
#[test]
fn the_log_is_read_through_and_what_is_damaged_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let of = |rate: &str| {
        let folder = log.display().to_string();
        let settings = [
            ("durable_dir", &*folder),
            ("durable_segment_bytes", "1m"),
            ("durable_scrub_bytes_per_second", rate),
        ];
        TestStore::with(16 * MIB, &settings)
    };
    let data = pattern(1, 100_000);
    let node = of("0");
    let objects = [(Some(id(1)), &data[..]), (Some(id(2)), b"right")];
    node.connect().put_many(&objects, &durable()).unwrap();
    // Damage to the last batch would look like a loss of power.
    node.start_anew();
    end(node);
    damage(&log, &data);
    // At a rate of 0 nothing is read that no program asks for.
    let node = of("0");
    assert_eq!(node.connect().status().unwrap().log.unwrap().scrubs_total, 0);
    end(node);
    let node = of("64m");
    let client = node.connect();
    let figures = || client.status().unwrap().log.unwrap();
    plasmon_testkit::until("the damage is found", || figures().corrupt == 1);
    let found = figures();
    assert_eq!((found.damaged, found.damaged_total, found.repaired_total), (1, 1, 0));
    assert_eq!(client.states(&[id(1), id(2)]).unwrap()[0], plasmon_client::ObjectState::Corrupt);
    assert_eq!(client.get_existing(&id(1)).unwrap_err().code(), Code::Corrupt);
    assert_eq!(client.get_existing(&id(2)).unwrap().data(), b"right");
    assert_eq!(client.delete(&[id(1)]).unwrap(), [None]);
    plasmon_testkit::until("nothing is damaged any more", || figures().damaged == 0);
    assert_eq!(figures().corrupt, 0);
}
