//! Daemons and keepers that are killed: nothing that was sealed is lost, and clients come back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::os::fd::OwnedFd;

use desk::*;
use plasmon_proto::extent::Range;
use plasmon_proto::limits::LARGE_OBJECT_BYTES;
use plasmon_proto::message::*;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Attributes, Name, ObjectState};
use rustix::process::Signal;

/// Kills the daemon and waits until it is dead.
fn murder(pid: u32) {
    let victim = process(pid);
    kill(pid, Signal::KILL);
    assert!(ends(&victim));
}

/// Comes back to a restarted daemon with what the client held.
fn come_back(
    desk: &Desk,
    client: &Client,
    leases: Vec<Range>,
    creating: Vec<PendingObject>,
) -> Client {
    let mut again = desk.connect();
    again.hello(true, Some(Resume { token: client.token(), leases, creating }));
    again
}

fn rest_of(range: &Range, used: u64) -> Range {
    Range { offset: range.offset + used, bytes: range.bytes - used, ..*range }
}

#[test]
fn every_sealed_object_outlives_the_daemon() {
    let desk = start(&[]);
    let mut client = desk.client();
    let pid = client.status().pid;
    for number in 0..300 {
        client.put(id(number), &pattern(number, 1 + number as usize * 7));
    }
    let (large, fd) = client.create(id(1000), 20 << 20, false);
    write_at(&fd, large.offset, &pattern(3, 20 << 20));
    assert_eq!(client.call(&Request::Seal { id: id(1000) }), Reply::Done);
    client.call(&Request::Delete { ids: vec![id(7)] });

    murder(pid);
    let mut reader = desk.client();
    let status = reader.status();
    assert_eq!((status.epoch, status.objects), (2, 300));
    assert_ne!(status.pid, pid);
    for number in (0..300).filter(|number| *number != 7) {
        let bytes = reader.read(&id(number)).unwrap();
        assert_eq!(bytes, pattern(number, 1 + number as usize * 7), "{number}");
    }
    assert!(reader.find(&id(7)).is_none());
    assert_eq!(reader.read(&id(1000)).unwrap(), pattern(3, 20 << 20));

    // And the one after that.
    reader.put(id(2000), b"of the second daemon");
    murder(status.pid);
    let mut reader = desk.client();
    assert_eq!(reader.status().epoch, 3);
    assert_eq!(reader.read(&id(2000)).unwrap(), b"of the second daemon");
    assert_eq!(reader.read(&id(299)).unwrap(), pattern(299, 1 + 299 * 7));
    desk.stop();
}

#[test]
fn names_ttls_and_deletions_survive_as_well() {
    let desk = start(&[]);
    let mut client = desk.client();
    let name = Name::new("prices", "2026").unwrap();
    let attributes = Attributes {
        name: Some(name.clone()),
        ttl_ms: Some(3_600_000),
        members: Vec::new(),
        pool: None,
        durable: false,
    };
    let encoded = attributes.encode();
    let sizes = Sizes { data: 4, metadata: 3, attributes: encoded.len() as u64 };
    let (range, fd) = client.lease(4096);
    write_at(&fd, range.offset, &[b"datamet", &encoded[..]].concat());
    let (placement, traits) = (range.placement(), Traits::default());
    let put = Submission::Put(Put { id: name.id(), placement, sizes, traits });
    let position = client.submit(&put);
    assert_eq!(client.outcome(position), None);
    let stat = |client: &mut Client| match client.call(&Request::Stat { id: name.id() }) {
        Reply::Info(Some(info)) => info,
        other => panic!("{other:?}"),
    };
    let before = stat(&mut client);
    murder(client.status().pid);
    let after = stat(&mut desk.client());
    assert_eq!((&after.name, after.sizes), (&Some(name.clone()), sizes));
    assert_eq!(after.created_ms, before.created_ms);
    assert!(after.expires_ms.is_some());
    desk.stop();
}

#[test]
fn what_lay_in_a_ring_when_the_daemon_died_is_applied_by_the_next() {
    let desk = start(&[]);
    let mut client = desk.client();
    let (range, fd) = client.lease(1 << 16);
    let pid = client.status().pid;
    // Stopped, the daemon cannot drain what is submitted now.
    kill(pid, Signal::STOP);
    for number in 0..10 {
        let at = rest_of(&range, number * 64);
        client.put_in(id(number), &at, &fd, &pattern(number, 64));
    }
    client.submit(&Submission::Delete { id: id(3) });
    murder(pid);

    // Another client asks first: it must not be told that nothing is there.
    let mut reader = desk.client();
    for number in (0..10).filter(|number| *number != 3) {
        assert_eq!(reader.read(&id(number)).unwrap(), pattern(number, 64), "{number}");
    }
    assert_eq!(reader.states(&[id(3)]), [ObjectState::Deleted]);

    // The writer comes back with the rest of its lease, and goes on in the same channel.
    let again = come_back(&desk, &client, vec![rest_of(&range, 640)], Vec::new());
    assert!(again.shared().welcome.resumed);
    assert_eq!(again.token(), client.token());
    let position = again.put_in(id(20), &rest_of(&range, 640), &fd, b"after");
    assert_eq!(again.outcome(position), None);
    assert_eq!(reader.read(&id(20)).unwrap(), b"after");
    desk.stop();
}

#[test]
fn a_lease_is_not_given_to_others_while_its_writer_may_come_back() {
    let desk = start(&["--capacity-bytes", "16m"]);
    let mut writer = desk.client();
    let (range, fd) = writer.lease(1 << 18);
    let first = writer.put_in(id(1), &range, &fd, b"one");
    assert_eq!(writer.outcome(first), None);
    murder(writer.status().pid);
    // Others fill whatever is free.
    let mut other = desk.client();
    let wanted = Request::Lease { bytes_min: 1 << 16, bytes_wanted: 1 << 16 };
    let mut leased = 0;
    while let Ok((Reply::Lease(granted), _)) = other.try_call(&wanted) {
        let (theirs, ours) = (granted.range, range);
        let apart = theirs.extent != ours.extent
            || theirs.offset >= ours.offset + ours.bytes
            || theirs.offset + theirs.bytes <= ours.offset;
        assert!(apart, "{theirs:?} overlaps {ours:?}");
        leased += 1;
        assert!(leased < 1000);
    }
    assert!(leased > 0);
    let again = come_back(&desk, &writer, vec![rest_of(&range, 64)], Vec::new());
    let position = again.put_in(id(2), &rest_of(&range, 64), &fd, b"two");
    assert_eq!(again.outcome(position), None);
    assert_eq!(other.read(&id(2)).unwrap(), b"two");
    desk.stop();
}

/// After a restart all free memory in the extents of idle writers counted as leased to them, for as
/// long as they idled: 55 of 64 MB, and no object of 40 MB fitted.
#[test]
fn an_idle_writer_has_leased_after_a_restart_what_it_had_before() {
    let desk = start(&["--capacity-bytes", "64m"]);
    let writers: Vec<_> = (1..=14)
        .map(|number| {
            let mut writer = desk.client();
            let (range, fd) = writer.lease(1 << 18);
            let put = writer.put_in(id(number), &range, &fd, b"small");
            assert_eq!(writer.outcome(put), None);
            writer
        })
        .collect();
    let before = desk.status();
    assert!(before.leased_bytes > 0);
    murder(before.pid);
    let mut other = desk.client();
    let after = other.status();
    assert_eq!(after.leased_bytes, before.leased_bytes);
    assert_eq!((after.used_bytes, after.objects), (before.used_bytes, 14));
    let (range, fd) = other.create(id(100), 40 << 20, false);
    write_at(&fd, range.offset, b"x");
    other.call(&Request::Seal { id: id(100) });
    // And once more, from what the second daemon wrote down.
    murder(after.pid);
    assert_eq!(desk.status().leased_bytes, before.leased_bytes);
    drop(writers);
    desk.stop();
}

#[test]
fn an_object_under_construction_is_sealed_by_the_next_daemon() {
    let desk = start(&[]);
    let mut writer = desk.client();
    let (range, fd) = writer.create(id(5), 20 << 20, false);
    let mut waiter = desk.client();
    waiter.wait_for(&[id(5)]);
    murder(writer.status().pid);
    let sizes = Sizes { data: 20 << 20, ..Sizes::default() };
    let creating =
        PendingObject { id: id(5), sizes, traits: Traits::default(), range, strict: false };
    let mut again = come_back(&desk, &writer, Vec::new(), vec![creating]);
    // The waiter was cut off, and asks again.
    assert!(waiter.is_closed());
    let mut waiter = desk.client();
    assert_eq!(waiter.states(&[id(5)]), [ObjectState::Creating]);
    let number = waiter.wait_for(&[id(5)]);
    write_at(&fd, range.offset, b"at last");
    assert_eq!(again.call(&Request::Seal { id: id(5) }), Reply::Done);
    let (reply, _) = waiter.answer(number).unwrap();
    assert_eq!(reply, Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(&waiter.read(&id(5)).unwrap()[..7], b"at last");
    desk.stop();
}

/// Its client had no answer when the daemon was killed, and asks again on the next connection.
#[test]
fn a_durable_put_is_asked_again_after_the_daemon_was_killed() {
    let log = tempfile::tempdir().unwrap();
    let folder = log.path().join("log").display().to_string();
    let desk = start(&["--durable-dir", &folder]);
    let attributes = Attributes { durable: true, ..Attributes::default() }.encode();
    let sizes = Sizes { data: 3, attributes: attributes.len() as u64, ..Sizes::default() };
    let traits = Traits::default();
    for (number, is_read) in [(1, false), (2, true)] {
        let mut client = desk.client();
        let (lease, fd) = client.lease(4096);
        let range = Range { bytes: sizes.footprint().unwrap(), ..lease };
        write_at(&fd, range.offset, b"abc");
        write_at(&fd, range.offset + 3, &attributes);
        let (id, placement) = (id(number), range.placement());
        let put = Request::PutDurable { id, target: id, placement, sizes, traits };
        if is_read {
            assert_eq!(client.call(&put), Reply::Done);
        }
        murder(desk.status().pid);
        let creating = PendingObject { id, sizes, traits, range, strict: false };
        let rest = rest_of(&lease, range.bytes);
        let mut again = come_back(&desk, &client, vec![rest], vec![creating]);
        let lost = &again.shared().welcome.lost;
        assert_eq!((lost.leases.len(), lost.creating.len()), (0, usize::from(is_read)));
        assert_eq!(again.call(&put), Reply::Done);
        assert_eq!(desk.client().read(&id).unwrap(), b"abc");
        let status = again.status();
        assert_eq!((status.log.unwrap().objects, status.creating), (number, 0));
    }
    desk.stop();
}

#[test]
fn pins_count_over_a_restart() {
    let desk = start(&[]);
    let mut reader = desk.client();
    reader.put(id(1), b"pinned");
    let slot = reader.find(&id(1)).unwrap();
    reader.channel().pin(0, slot.serial);
    murder(reader.status().pid);
    let mut other = desk.client();
    other.call(&Request::Delete { ids: vec![id(1)] });
    assert!(other.find(&id(1)).is_none());
    let hidden = other.slots(&id(1));
    assert!(hidden.len() == 1 && hidden[0].hidden && hidden[0].serial == slot.serial);

    // Hidden stays hidden over the next restart, too, and its memory is kept.
    murder(other.status().pid);
    let mut other = desk.client();
    assert!(other.find(&id(1)).is_none());
    assert_eq!(other.slots(&id(1)), hidden);
    let fd = other.extent(slot.extent, false);
    assert_eq!(read_at(&fd, slot.offset, 6), b"pinned");
    reader.channel().pin(0, 0);
    while !other.slots(&id(1)).is_empty() {
        other.status();
    }
    desk.stop();
}

#[test]
fn a_client_without_a_channel_comes_back_as_well() {
    let desk = start(&[]);
    let mut client = desk.connect();
    client.hello(false, None);
    let (range, fd) = client.create(id(1), 100, false);
    murder(client.status().pid);
    let sizes = Sizes { data: 100, ..Sizes::default() };
    let creating =
        PendingObject { id: id(1), sizes, traits: Traits::default(), range, strict: false };
    let mut again = desk.connect();
    let resume = Resume { token: client.token(), leases: Vec::new(), creating: vec![creating] };
    again.hello(false, Some(resume));
    assert!(again.shared().welcome.resumed);
    write_at(&fd, range.offset, &pattern(9, 100));
    assert_eq!(again.call(&Request::Seal { id: id(1) }), Reply::Done);
    assert_eq!(desk.client().read(&id(1)).unwrap(), pattern(9, 100));
    desk.stop();
}

#[test]
fn a_killed_keeper_is_replaced_and_the_new_one_holds_everything() {
    let desk = start(&[]);
    let mut client = desk.client();
    client.put(id(1), b"held twice");
    for _ in 0..3 {
        let status = client.status();
        murder(status.keeper_pid);
        let mut keeper = status.keeper_pid;
        while keeper == status.keeper_pid || keeper == 0 {
            keeper = client.status().keeper_pid;
        }
    }
    let (pid, epoch) = (client.status().pid, client.status().epoch);
    murder(pid);
    let mut client = desk.client();
    assert_eq!(
        (client.status().epoch, client.read(&id(1)).unwrap()),
        (epoch + 1, b"held twice".to_vec())
    );

    // Also a keeper that is the daemon's parent can be replaced.
    let status = client.status();
    murder(status.keeper_pid);
    let mut keeper = status.keeper_pid;
    while keeper == status.keeper_pid || keeper == 0 {
        keeper = client.status().keeper_pid;
    }
    murder(status.pid);
    let mut client = desk.client();
    assert_eq!(client.read(&id(1)).unwrap(), b"held twice");
    desk.stop();
}

/// The keeper forgot an extent before its memory was taken away. A daemon that was killed between
/// these left the pages to a client that had them mapped, and nothing could take them any more.
#[test]
fn what_a_killed_daemon_still_had_to_take_away_the_next_one_takes_away() {
    let desk = start(&["--capacity-bytes", "2g"]);
    let mut client = desk.client();
    let (_range, mapped) = client.create(id(1), LARGE_OBJECT_BYTES, false);
    assert_eq!(client.call(&Request::Seal { id: id(1) }), Reply::Done);
    let resident = || rustix::fs::fstat(&mapped).unwrap().st_blocks * 512;
    assert!(resident() >= LARGE_OBJECT_BYTES as i64);
    // The worker takes the memory away only after it has made this.
    let sizes = Sizes { data: 1 << 30, ..Sizes::default() };
    let pid = client.status().pid;
    client.send(&Request::Create { id: id(2), sizes, traits: Traits::default(), strict: false });
    let mut other = desk.client();
    assert_eq!(other.call(&Request::Delete { ids: vec![id(1)] }), Reply::Outcomes(vec![None]));
    murder(pid);
    let mut other = desk.client();
    assert_eq!(other.states(&[id(1)]), [ObjectState::Absent]);
    until("its memory is free", || resident() == 0);
    desk.stop();
}

/// A client that damaged the first word of its own channel, or sealed it, made every later daemon
/// fail to start: at the next crash of the daemon the whole store was lost.
#[test]
fn whatever_clients_do_to_their_channels_the_store_is_taken_over() {
    let desk = start(&[]);
    let mut writer = desk.client();
    for number in 0..100 {
        writer.put(id(number), &pattern(number, 100));
    }
    let (mut scribbler, sealer) = (desk.client(), desk.client());
    let bytes = rustix::fs::fstat(&scribbler.channel().0).unwrap().st_size as usize;
    write_at(&scribbler.channel().0, 0, &vec![0xff; bytes.min(1 << 20)]);
    let sealed =
        rustix::fs::fcntl_add_seals(&sealer.channel().0, rustix::fs::SealFlags::FUTURE_WRITE);
    murder(writer.status().pid);

    let mut reader = desk.client();
    let status = reader.status();
    assert_eq!((status.epoch, status.objects), (2, 100));
    for number in 0..100 {
        assert_eq!(reader.read(&id(number)).unwrap(), pattern(number, 100), "{number}");
    }
    // The others go on where they were.
    let again = come_back(&desk, &writer, Vec::new(), Vec::new());
    assert!(again.shared().welcome.resumed);
    assert!(scribbler.is_closed());
    let again = come_back(&desk, &sealer, Vec::new(), Vec::new());
    if sealed.is_ok() {
        // What it pins cannot be looked up any more, so while it lives nothing is used again.
        assert!(!again.shared().welcome.resumed);
        reader.call(&Request::Delete { ids: vec![id(1)] });
        assert_eq!(reader.status().lingering, 1);
    }
    // And once more, with what was given up.
    murder(status.pid);
    let mut reader = desk.client();
    assert_eq!(reader.status().epoch, 3);
    assert_eq!(reader.read(&id(2)).unwrap(), pattern(2, 100));
    desk.stop();
}

#[test]
fn without_a_keeper_the_store_ends_with_its_daemon() {
    let mut desk = start(&["--keeper=false"]);
    let mut client = desk.client();
    client.put(id(1), b"gone");
    let mut daemon = desk.daemon.take().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(client.is_closed());
    desk.launch(&["--keeper=false"]);
    assert_eq!(desk.client().states(&[id(1)]), [ObjectState::Absent]);
    desk.stop();
}

#[test]
fn a_grown_index_survives_with_all_it_lists() {
    let desk = start(&[]);
    let mut client = desk.client();
    let count = 20_000u64;
    let (range, fd) = client.lease(count * 64);
    let mut last = 0;
    for number in 0..count {
        let at = rest_of(&range, number * 64);
        let sizes = Sizes { data: 8, ..Sizes::default() };
        write_at(&fd, at.offset, &number.to_le_bytes());
        let (placement, traits) = (at.placement(), Traits::default());
        let put = Submission::Put(Put { id: id(number), placement, sizes, traits });
        last = client.submit(&put);
        if number % 4000 == 3999 {
            client.channel().applied(last);
        }
    }
    assert_eq!(client.outcome(last), None);
    let status = client.status();
    assert_eq!(status.objects, count);
    assert!(status.index_slots > count);
    murder(status.pid);
    let mut reader = desk.client();
    assert_eq!(reader.status().objects, count);
    for number in (0..count).step_by(997) {
        assert_eq!(reader.read(&id(number)).unwrap(), number.to_le_bytes());
    }
    desk.stop();
}

#[test]
fn spilled_objects_are_found_again_and_strangers_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let stranger = folder.path().join("plasmon-00000000deadbeef");
    std::fs::create_dir(&stranger).unwrap();
    std::fs::write(stranger.join("x.spill"), "not ours").unwrap();
    let spill = folder.path().to_str().unwrap();
    let desk = start(&["--capacity-bytes", "8m", "--spill-dir", spill]);
    let mut client = desk.client();
    for number in 0..16 {
        client.put(id(number), &pattern(number, 1 << 20));
    }
    let status = client.status();
    assert!(status.spilled > 0, "{status:?}");
    murder(status.pid);
    let mut client = desk.client();
    let after = client.status();
    assert_eq!(after.spilled + after.objects, 16, "{after:?}");
    for number in 0..16 {
        let wait = client.wait_for(&[id(number)]);
        assert_eq!(client.answer(wait).unwrap().0, Reply::States(vec![ObjectState::Sealed]));
        assert_eq!(client.read(&id(number)).unwrap(), pattern(number, 1 << 20), "{number}");
    }
    drop(client);
    desk.stop();
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(left, [stranger], "our own files are removed with the store");
}

fn spilling_store(folder: &std::path::Path) -> (Desk, Client, u64) {
    let spill = folder.to_str().unwrap();
    let desk = start(&["--capacity-bytes", "8m", "--spill-dir", spill]);
    let mut client = desk.client();
    for number in 0..16 {
        client.put(id(number), &pattern(number, 1 << 20));
    }
    let states = client.states(&(0..16).map(id).collect::<Vec<_>>());
    let spilled = states.iter().position(|state| *state == ObjectState::Spilled).unwrap();
    (desk, client, spilled as u64)
}

fn store_folder(spill: &std::path::Path) -> std::path::PathBuf {
    let mut folders = std::fs::read_dir(spill).unwrap().map(|entry| entry.unwrap().path());
    folders.find(|path| path.is_dir()).unwrap()
}

/// An object counted as corrupt for good when its folder was away for a moment.
#[test]
fn while_the_spill_folder_is_away_requests_fail_and_no_object_is_lost() {
    let spill = tempfile::tempdir().unwrap();
    let (desk, mut client, spilled) = spilling_store(spill.path());
    let in_memory = (0..16).map(id).find(|id| client.find(id).is_some()).unwrap();
    client.call(&Request::Delete { ids: vec![in_memory] });
    let folder = store_folder(spill.path());
    let away = spill.path().join("away");
    std::fs::rename(&folder, &away).unwrap();
    let wait = client.wait_for(&[id(spilled)]);
    let Err(CallError::Failed(failure)) = client.answer(wait) else { panic!("it was answered") };
    assert_eq!((failure.code, failure.id), (plasmon_proto::Code::Io, Some(id(spilled))));
    assert!(!client.status().spill_fault.is_empty());
    std::fs::rename(&away, &folder).unwrap();
    let wait = client.wait_for(&[id(spilled)]);
    assert_eq!(client.answer(wait).unwrap().0, Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(client.read(&id(spilled)).unwrap(), pattern(spilled, 1 << 20));
    assert_eq!(client.status().spill_fault, "");
    desk.stop();
}

/// A spill tier that could not be tidied up made every later daemon fail to start, and all objects
/// in memory were lost.
#[test]
fn a_broken_spill_tier_does_not_keep_a_daemon_from_taking_the_memory_over() {
    let spill = tempfile::tempdir().unwrap();
    let (desk, mut client, spilled) = spilling_store(spill.path());
    let folder = store_folder(spill.path());
    // It stands for a file that cannot be removed.
    std::fs::create_dir(folder.join("x.part")).unwrap();
    let in_memory = client.status().objects;
    murder(client.status().pid);
    let mut client = desk.client();
    let status = client.status();
    assert_eq!((status.epoch, status.objects, status.spilled), (2, in_memory, 16 - in_memory));

    // The whole folder is away while the next daemon starts.
    let away = spill.path().join("away");
    std::fs::rename(&folder, &away).unwrap();
    murder(status.pid);
    let mut client = desk.client();
    let status = client.status();
    assert_eq!((status.epoch, status.objects, status.spilled), (3, in_memory, 0));
    assert!(!status.spill_fault.is_empty());
    let wait = client.wait_for(&[id(spilled)]);
    // The tier is tried again, and then the request that waits is answered.
    std::fs::rename(&away, &folder).unwrap();
    assert_eq!(client.answer(wait).unwrap().0, Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(client.read(&id(spilled)).unwrap(), pattern(spilled, 1 << 20));
    let status = client.status();
    assert_eq!((status.objects + status.spilled, status.spill_fault.as_str()), (16, ""));
    std::fs::remove_dir(folder.join("x.part")).unwrap();
    desk.stop();
    assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0);
}

/// The files of stores that were killed stayed forever.
#[test]
fn the_next_store_removes_what_a_killed_one_left_in_the_spill_folder() {
    let spill = tempfile::tempdir().unwrap();
    let flags = ["--capacity-bytes", "8m", "--keeper=false", "--spill-dir"];
    let flags = [&flags[..], &[spill.path().to_str().unwrap()]].concat();
    let mut desk = start(&flags);
    let mut client = desk.client();
    for number in 0..16 {
        client.put(id(number), &pattern(number, 1 << 20));
    }
    let left = store_folder(spill.path());
    // A store that lives beside it keeps its folder.
    let neighbour = start(&flags);
    assert!(left.exists());
    let mut daemon = desk.daemon.take().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    desk.launch(&flags);
    assert!(!left.exists(), "{}", left.display());
    assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 2);
    desk.stop();
    neighbour.stop();
}

/// A put that was in the ring counts even if its client died before any daemon saw it.
#[test]
fn the_ring_of_a_client_that_died_meanwhile_is_applied() {
    let desk = start(&[]);
    let mut client = desk.client();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "puts_and_waits_to_be_killed", "--ignored", "--nocapture"])
        .env("PLASMON_TEST_SOCKET", desk.socket())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    while read_line(&mut output) != "leased" {}
    let pid = client.status().pid;
    kill(pid, Signal::STOP);
    drop(child.stdin.take());
    while read_line(&mut output) != "submitted" {}
    child.kill().unwrap();
    child.wait().unwrap();
    murder(pid);
    let mut reader = desk.client();
    assert_eq!(reader.read(&id(77)).unwrap(), b"last words");
    // Nothing keeps the dead client's memory or session.
    assert_eq!(reader.status().leased_bytes, 0);
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another process"]
fn puts_and_waits_to_be_killed() {
    let socket = std::env::var_os("PLASMON_TEST_SOCKET").unwrap();
    let mut client = Client::connect(std::path::Path::new(&socket));
    client.hello(true, None);
    let (range, fd): (Range, OwnedFd) = client.lease(4096);
    println!("leased");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    client.put_in(id(77), &range, &fd, b"last words");
    println!("submitted");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_dead_creator_is_reported_to_waiters() {
    let desk = start(&[]);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "creates_and_waits_to_be_killed", "--ignored", "--nocapture"])
        .env("PLASMON_TEST_SOCKET", desk.socket())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    while read_line(&mut output) != "created" {}
    let mut waiter = desk.client();
    assert_eq!(waiter.states(&[id(88)]), [ObjectState::Creating]);
    let number = waiter.wait_for(&[id(88)]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(waiter.answer(number).unwrap().0, Reply::States(vec![ObjectState::CreatorDied]));
    assert_eq!(waiter.states(&[id(88)]), [ObjectState::CreatorDied]);
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another process"]
fn creates_and_waits_to_be_killed() {
    let socket = std::env::var_os("PLASMON_TEST_SOCKET").unwrap();
    let mut client = Client::connect(std::path::Path::new(&socket));
    client.hello(true, None);
    client.create(id(88), 1000, false);
    println!("created");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_daemon_that_hangs_is_replaced_with_every_sealed_object() {
    // Whatever made a daemon wait forever, its clients waited with it: the keeper, which holds
    // everything, only noticed its death.
    let desk = start(&["--hang-timeout-ms", "1000", "--log", "error"]);
    let mut client = desk.client();
    for number in 0..100 {
        client.put(id(number), &pattern(number, 100));
    }
    let first = client.status();
    let hung = process(first.pid);
    kill(first.pid, Signal::STOP);
    assert!(ends(&hung), "the keeper kills it");
    let mut reader = desk.client();
    let status = reader.status();
    assert_eq!((status.epoch, status.objects), (2, 100));
    assert_eq!(status.keeper_pid, first.keeper_pid);
    for number in 0..100 {
        assert_eq!(reader.read(&id(number)).unwrap(), pattern(number, 100));
    }
    let again = come_back(&desk, &client, Vec::new(), Vec::new());
    assert!(again.shared().welcome.resumed);
    // The next one answers, however long it has nothing to do.
    let alive = process(status.pid);
    assert!(!readable(&alive, std::time::Duration::from_secs(3)));
    assert_eq!(reader.status().epoch, 2);
    desk.stop();
}

#[test]
fn a_keeper_that_is_stopped_delays_no_client_and_is_replaced() {
    // The daemon waited a second for a keeper that did not read, and all its clients with it. It
    // gives it that second still, and serves them meanwhile.
    let desk = start(&["--log", "error"]);
    let mut client = desk.client();
    let keeper = client.status().keeper_pid;
    kill(keeper, Signal::STOP);
    let mut number = 0;
    let mut replaced = 0;
    let deadline = std::time::Instant::now() + DEADLINE;
    while replaced == 0 || replaced == keeper {
        // Every strict object has its own extent, which the keeper is told of.
        let (range, fd) = client.create(id(number), 4096, true);
        write_at(&fd, range.offset, b"strict");
        drop(fd);
        assert_eq!(client.call(&Request::Seal { id: id(number) }), Reply::Done);
        if number >= 500 {
            client.call(&Request::Delete { ids: vec![id(number - 500)] });
        }
        number += 1;
        replaced = client.status().keeper_pid;
        assert!(std::time::Instant::now() < deadline, "the keeper is replaced");
    }
    // The new one has everything.
    murder(client.status().pid);
    let mut reader = desk.client();
    let status = reader.status();
    assert_eq!((status.epoch, status.keeper_pid), (2, replaced));
    assert_eq!(reader.read(&id(number - 1)).unwrap()[..6], *b"strict");
    desk.stop();
}

/// Memory of a dropped object that is sealed against writers counted as free when the daemon had
/// closed it. The keeper had it still, until it was told: with a keeper that was busy a store took
/// a third more than its capacity, with one that was stopped without a bound.
#[test]
fn memory_that_the_keeper_still_has_counts_as_used() {
    const BYTES: u64 = 12 << 20;
    let desk = start(&["--log", "error"]);
    let mut client = desk.client();
    let before = client.status();
    kill(before.keeper_pid, Signal::STOP);
    let slack = before.capacity_bytes / 8;
    for number in 0..12 {
        let (range, fd) = client.create(id(number), BYTES, true);
        write_at(&fd, range.offset, b"strict");
        drop(fd);
        assert_eq!(client.call(&Request::Seal { id: id(number) }), Reply::Done);
        client.call(&Request::Delete { ids: vec![id(number)] });
        let found = extents_bytes(&[before.pid, before.keeper_pid]);
        assert!(found <= before.capacity_bytes + slack, "{found} bytes after {number}");
    }
    // It was waited for, and then replaced.
    assert_ne!(client.status().keeper_pid, before.keeper_pid);
    desk.stop();
}
