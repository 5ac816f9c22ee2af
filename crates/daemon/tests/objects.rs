//! Objects through the daemon: written, protected, spilled, watched.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use desk::raw::AWAITED_AT;
use desk::*;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::frame::FromDaemon;
use plasmon_proto::limits::{COMPLETIONS, NOTIFICATIONS_QUEUED_MAX};
use plasmon_proto::message::*;
use plasmon_proto::object::{Level, Policy, Sizes, Traits};
use plasmon_proto::ring::{Completion, Put, Submission};
use plasmon_proto::{Code, ObjectState};
use plasmon_shm::{ControlReader, Populate, WriteExtent, WriteMap};
use rustix::fs::{FallocateFlags, SealFlags};

#[test]
fn a_put_through_the_ring_is_there_for_others_at_once() {
    let desk = start(&[]);
    let (mut writer, mut reader) = (desk.client(), desk.client());
    for number in 0..100 {
        let bytes = pattern(number, 10 + number as usize);
        let (range, fd) = writer.lease(1024);
        // The question over the socket applies every ring first, also one that the daemon does
        // not look at before it is told to.
        write_at(&fd, range.offset, &bytes);
        let sizes = Sizes { data: bytes.len() as u64, ..Sizes::default() };
        let (placement, traits) = (range.placement(), Traits::default());
        let put = Submission::Put(Put { id: id(number), placement, sizes, traits });
        writer.channel().submit(&put.encode());
        if writer.channel().word(AWAITED_AT) as u32 != 0 {
            writer.ring();
        }
        assert_eq!(reader.states(&[id(number)]), [ObjectState::Sealed], "{number}");
        assert_eq!(reader.read(&id(number)).unwrap(), bytes);
    }
    desk.stop();
}

#[test]
fn a_lease_is_renewed_through_the_ring_and_returned() {
    let desk = start(&[]);
    let mut client = desk.client();
    client.put(id(1), b"has an extent");
    let wanted = Submission::LeaseWanted { bytes_min: 4096, bytes_wanted: 8192 };
    let position = client.submit(&wanted);
    let range = loop {
        match client.next_completion() {
            Some(Completion::Lease { position: found, range }) if found == position => break range,
            Some(other) => panic!("{other:?}"),
            None => drop(client.status()),
        }
    };
    assert!(range.bytes >= 4096);
    let fd = client.extent(range.extent, true);
    let put = client.put_in(id(2), &range, &fd, b"in the new lease");
    assert_eq!(client.outcome(put), None);
    assert!(client.status().leased_bytes > 0);
    let rest = Range { offset: range.offset + 64, bytes: range.bytes - 64, ..range };
    let returned = client.submit(&Submission::LeaseReturn(rest));
    assert_eq!(client.outcome(returned), None);
    assert_eq!(client.read(&id(2)).unwrap(), b"in the new lease");
    desk.stop();
}

#[test]
fn objects_of_the_whole_capacity_fit_and_one_page_more_does_not() {
    let desk = start(&["--capacity-bytes", "4m"]);
    let mut client = desk.client();
    let sizes = |data| Sizes { data, ..Sizes::default() };
    let wanted = |data| Request::Create {
        id: id(2),
        sizes: sizes(data),
        traits: Traits::default(),
        strict: false,
    };
    for _ in 0..2 {
        let (range, fd) = client.create(id(1), 4 << 20, false);
        write_at(&fd, range.offset + (4 << 20) - 1, b"x");
        assert_eq!(client.call(&Request::Seal { id: id(1) }), Reply::Done);
        assert_eq!(client.refused(&wanted(1)), Code::StoreFull);
        client.call(&Request::Delete { ids: vec![id(1)] });
    }
    assert_eq!(client.refused(&wanted((4 << 20) + 4096)), Code::TooLarge);
    let (_, _) = client.create(id(3), 0, false);
    assert_eq!(client.call(&Request::Seal { id: id(3) }), Reply::Done);
    assert_eq!(client.read(&id(3)).unwrap(), b"");
    desk.stop();
}

#[test]
fn a_strict_object_is_sealed_by_the_kernel_after_its_last_mapping() {
    let desk = start(&[]);
    let mut client = desk.client();
    let (range, fd) = client.create(id(1), 100, true);
    let map = WriteMap::new(&fd, 4096, Populate::No).unwrap();
    write_at(&fd, range.offset, &pattern(1, 100));
    assert_eq!(client.refused(&Request::Seal { id: id(1) }), Code::InUse);
    assert_eq!(client.states(&[id(1)]), [ObjectState::Creating]);
    drop(map);
    assert_eq!(client.call(&Request::Seal { id: id(1) }), Reply::Done);
    assert!(rustix::io::pwrite(&fd, b"x", range.offset).is_err(), "the old descriptor is dead");
    assert!(WriteMap::new(&fd, 4096, Populate::No).is_err());
    assert_eq!(desk.client().read(&id(1)).unwrap(), pattern(1, 100));
    desk.stop();
}

#[test]
fn at_level_leased_no_new_writer_can_map_what_is_sealed() {
    let desk = start(&["--level", "leased"]);
    let mut writer = desk.client();
    assert_eq!(writer.shared().welcome.level, Level::Leased);
    let (range, fd) = writer.lease(4096);
    let map = WriteMap::new(&fd, 4096, Populate::No).unwrap();
    let put = writer.put_in(id(1), &range, &fd, b"sealed");
    assert_eq!(writer.outcome(put), None);
    assert!(rustix::io::pwrite(&fd, b"x", range.offset).is_err());
    assert!(WriteMap::new(&fd, 4096, Populate::No).is_err());
    drop(map);
    let mut reader = desk.client();
    assert_eq!(reader.read(&id(1)).unwrap(), b"sealed");
    assert_eq!(
        reader.refused(&Request::Extents { extents: vec![range.extent], write: true }),
        Code::NotOwner
    );
    desk.stop();
}

#[test]
fn cache_objects_make_room_the_least_recently_read_first() {
    let desk = start(&["--capacity-bytes", "8m"]);
    let mut client = desk.client();
    let traits = Traits { policy: Policy::Cache, ..Traits::default() };
    for number in 0..6 {
        let (range, fd) = client.lease(1 << 20);
        let put = client.put_with(id(number), &range, &fd, &pattern(number, 1 << 20), traits);
        assert_eq!(client.outcome(put), None);
    }
    // Read through the index, which the daemon learns from the ring of touches.
    let read = client.find(&id(0)).unwrap();
    client.channel().touch(read.record);
    let reply = client.call(&Request::Evict { bytes: 2 << 20 });
    assert_eq!(reply, Reply::Evicted { bytes: 2 << 20, objects: 2 });
    let ids: Vec<_> = (0..6).map(id).collect();
    let states = client.states(&ids);
    assert_eq!(states[0], ObjectState::Sealed, "it was read lately: {states:?}");
    assert_eq!(states.iter().filter(|state| **state == ObjectState::Evicted).count(), 2);
    desk.stop();
}

#[test]
fn what_does_not_fit_is_spilled_and_comes_back_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let spill = folder.path().to_str().unwrap();
    for level in ["shared", "leased"] {
        let desk = start(&["--capacity-bytes", "8m", "--spill-dir", spill, "--level", level]);
        let mut client = desk.client();
        let extents = Arc::new(Mapped::default());
        let _idle_thread = IdleThread::start(&client, &extents);
        for number in 0..24 {
            put_mapped(&mut client, &extents, number);
        }
        let status = client.status();
        assert!(status.spilled >= 16, "{status:?}");
        for number in 0..24 {
            let wait = client.wait_for(&[id(number)]);
            assert_eq!(client.answer(wait).unwrap().0, Reply::States(vec![ObjectState::Sealed]));
            let bytes = client.read(&id(number)).unwrap();
            assert_eq!(bytes, pattern(number, 1 << 20), "{level}: {number}");
        }
        client.call(&Request::Delete { ids: (0..24).map(id).collect() });
        let left = client.status();
        assert_eq!((left.spilled, left.objects, left.spilled_bytes), (0, 0, 0));
        drop(client);
        desk.stop();
    }
}

/// A client that wants a piece of a spilled object is given its file.
#[test]
fn the_file_of_a_spilled_object_is_given_for_reading_alone_and_not_kept_open() {
    let folder = tempfile::tempdir().unwrap();
    let spill = folder.path().to_str().unwrap();
    let desk = start(&["--capacity-bytes", "8m", "--spill-dir", spill]);
    let mut client = desk.client();
    for number in 0..16 {
        client.put(id(number), &pattern(number, 1 << 20));
    }
    let states = client.states(&(0..16).map(id).collect::<Vec<_>>());
    let spilled = states.iter().position(|state| *state == ObjectState::Spilled).unwrap() as u64;
    let request = Request::OpenSpilled { id: id(spilled) };
    let (Reply::SpillFile(file), fds) = client.try_call(&request).unwrap() else {
        panic!("no file")
    };
    let mode = rustix::fs::fcntl_getfl(&fds[0]).unwrap() & rustix::fs::OFlags::RWMODE;
    assert_eq!(mode, rustix::fs::OFlags::RDONLY);
    let given = std::fs::File::from(fds.into_iter().next().unwrap());
    let mut bytes = vec![0; 1 << 20];
    std::os::unix::fs::FileExt::read_exact_at(&given, &mut bytes, file.offset).unwrap();
    assert_eq!(bytes, pattern(spilled, 1 << 20));

    let mut numbers: BTreeSet<u64> = (0..100).map(|_| client.send(&request)).collect();
    // A refusal may come before an answer to an earlier request.
    while !numbers.is_empty() {
        let (FromDaemon::Reply(number, reply), fds) = client.receive().unwrap() else { continue };
        assert!(numbers.remove(&number));
        match reply {
            Reply::SpillFile(again) => assert_eq!((again, fds.len()), (file, 1)),
            Reply::Failed(failure) => assert_eq!(failure.code, Code::LimitReached),
            other => panic!("{other:?}"),
        }
    }
    let mut hasty = desk.client();
    for _ in 0..50 {
        hasty.send(&request);
    }
    drop(hasty);
    let daemon = format!("/proc/{}/fd", client.status().pid);
    let is_spill_file = |entry: std::io::Result<std::fs::DirEntry>| {
        let link = entry.and_then(|entry| std::fs::read_link(entry.path()));
        link.is_ok_and(|link| link.to_string_lossy().contains(".spill"))
    };
    until("no file is open", || {
        client.status();
        !std::fs::read_dir(&daemon).unwrap().any(is_spill_file)
    });
    drop(client);
    desk.stop();
}

/// What a client has mapped for writing.
type Mapped = Mutex<HashMap<ExtentId, Arc<WriteExtent>>>;

/// A client's thread that unmaps what is gone: at level leased the store has its memory back then
/// and not before.
struct IdleThread(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl IdleThread {
    fn start(client: &Client, mapped: &Arc<Mapped>) -> Self {
        let control = &client.shared.as_ref().unwrap().control.0;
        let control = ControlReader::new(control.try_clone().unwrap()).unwrap();
        let (mapped, ends) = (Arc::clone(mapped), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&ends);
        let work = move || {
            while !ended.load(Ordering::Relaxed) {
                mapped.lock().unwrap().retain(|extent, _| control.has_extent(*extent));
                std::thread::park_timeout(Duration::from_millis(1));
            }
        };
        Self(ends, Some(std::thread::spawn(work)))
    }
}

impl Drop for IdleThread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            thread.join().unwrap();
        }
    }
}

/// Puts a MiB through a mapping, which at level leased is the only way into an extent in use.
fn put_mapped(client: &mut Client, extents: &Mapped, number: u64) {
    let (range, fd) = client.lease(1 << 20);
    let mut extents = extents.lock().unwrap();
    let mapped = extents
        .entry(range.extent)
        .or_insert_with(|| Arc::new(WriteExtent::new(fd, Populate::No).unwrap()));
    client.keep_writers_out(mapped.memfd());
    let mut span = mapped.lease(range.offset, 1 << 20).unwrap();
    span.copy_from_slice(&pattern(number, 1 << 20));
    let sizes = Sizes { data: 1 << 20, ..Sizes::default() };
    let (placement, traits) = (range.placement(), Traits::default());
    let put = client.submit(&Submission::Put(Put { id: id(number), placement, sizes, traits }));
    assert_eq!(client.outcome(put), None);
}

#[test]
fn a_full_spill_tier_is_a_full_store_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spill = folder.path().to_str().unwrap();
    let desk = start(&[
        "--capacity-bytes",
        "4m",
        "--spill-dir",
        spill,
        "--spill-bytes-max",
        "3m",
        "--log",
        "error",
    ]);
    fill_until_full(&desk, 10);
    desk.stop();
}

/// Puts objects of a MiB until the store is full, then reads every one of them.
fn fill_until_full(desk: &Desk, at_most: u64) {
    let mut client = desk.client();
    let wanted = Request::Lease { bytes_min: 1 << 20, bytes_wanted: 1 << 20 };
    let mut count = 0;
    let code = loop {
        match client.try_call(&wanted) {
            Ok((Reply::Lease(granted), fds)) => {
                let bytes = pattern(count, 1 << 20);
                let put = client.put_in(id(count), &granted.range, &fds[0], &bytes);
                assert_eq!(client.outcome(put), None);
                count += 1;
                assert!(count < at_most, "the disk must fill up");
            }
            Err(CallError::Failed(failure)) => break failure.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, Code::StoreFull);
    assert!(count >= 4, "{count}");
    let states = client.states(&(0..count).map(id).collect::<Vec<_>>());
    assert!(states.iter().all(|state| state.is_readable()), "{states:?}");
    // What is in memory can be read; deleting some of it lets the spilled ones come back.
    let (present, spilled): (Vec<u64>, Vec<u64>) =
        (0..count).partition(|number| states[*number as usize] == ObjectState::Sealed);
    for number in &present {
        assert_eq!(client.read(&id(*number)).unwrap(), pattern(*number, 1 << 20));
    }
    client.call(&Request::Delete { ids: present.iter().map(|number| id(*number)).collect() });
    for number in spilled {
        let wait = client.wait_for(&[id(number)]);
        assert_eq!(client.answer(wait).unwrap().0, Reply::States(vec![ObjectState::Sealed]));
        assert_eq!(client.read(&id(number)).unwrap(), pattern(number, 1 << 20));
        client.call(&Request::Delete { ids: vec![id(number)] });
    }
}

/// A real file system without room: a tiny one in a mount namespace of the daemon's own.
#[test]
fn a_disk_without_room_is_a_full_store_and_loses_nothing() {
    let desk = Desk { folder: tempfile::tempdir().unwrap(), daemon: None };
    let disk = desk.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mut desk = desk;
    let plain =
        desk.command(&["--capacity-bytes", "4m", "--spill-bytes-max", "1g", "--log", "error"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=3500k none \"$DISK\" && exec \"$0\" \"$@\"");
    command.arg(PLASMOND).args(plain.get_args()).arg("--spill-dir").arg(&disk).env("DISK", &disk);
    if !unshare_works() {
        eprintln!("skipped: mount namespaces are not allowed here");
        return;
    }
    desk.launch_command(command);
    fill_until_full(&desk, 10);
    desk.stop();
}

fn unshare_works() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    probe.status().is_ok_and(|status| status.success())
}

#[test]
fn a_subscriber_is_notified_of_everything_in_order() {
    let desk = start(&[]);
    let mut subscriber = desk.client();
    assert_eq!(subscriber.call(&Request::Subscribe { filter: Filter::default() }), Reply::Done);
    let mut client = desk.client();
    for number in 0..50 {
        client.put(id(number), &pattern(number, number as usize));
    }
    client.call(&Request::Delete { ids: (0..50).map(id).collect() });
    // The answer to any later question comes after the notices.
    let mut received = Vec::new();
    while received.len() < 100 {
        subscriber.status();
        for push in subscriber.pushes.drain(..) {
            match push {
                Push::Notices(notices) => received.extend(notices),
                Push::NoticesLost(count) => panic!("lost {count}"),
                Push::NamedNotices(_) => panic!("notices of no pool"),
                Push::Calls(calls) => panic!("calls to no pool daemon: {calls:?}"),
                Push::Adoption(call) => panic!("a call to no pool daemon: {call:?}"),
            }
        }
    }
    for number in 0..50 {
        let (sealed, deleted) = (received[number as usize], received[50 + number as usize]);
        assert_eq!((sealed.id, sealed.state), (id(number), ObjectState::Sealed));
        assert_eq!(sealed.data_bytes, number);
        assert_eq!((deleted.id, deleted.state), (id(number), ObjectState::Deleted));
    }
    desk.stop();
}

#[test]
fn a_subscriber_that_does_not_read_is_notified_what_it_lost() {
    let desk = start(&["--log", "error"]);
    let mut subscriber = desk.client();
    subscriber.call(&Request::Subscribe { filter: Filter::default() });
    let client = desk.client();
    let mut asking = desk.client();
    // Announced and aborted again, objects make no notices; sealed and deleted ones make two.
    let (range, fd) = asking.lease(64);
    drop((range, fd));
    let mut writer = client;
    let (range, fd) = writer.lease(64 * 64);
    write_at(&fd, range.offset, &[7; 64]);
    let sizes = Sizes { data: 64, ..Sizes::default() };
    let pairs = NOTIFICATIONS_QUEUED_MAX as u64 / 2 + 50_000;
    // Every object needs its own memory; deleting gives it back, so lease again now and then.
    let mut range = range;
    let mut used = 0;
    let mut last = 0;
    for number in 0..pairs {
        if used == range.bytes {
            (range, _) = writer.lease(64 * 64);
            used = 0;
        }
        let placement = Placement { extent: range.extent, offset: range.offset + used };
        used += 64;
        let put = Put { id: id(number), placement, sizes, traits: Traits::default() };
        let put = Submission::Put(put);
        writer.channel().submit(&put.encode());
        last = writer.channel().submit(&Submission::Delete { id: id(number) }.encode());
        if number % 1000 == 999 {
            writer.ring();
            writer.channel().applied(last);
        }
    }
    writer.ring();
    writer.channel().applied(last);

    let total = 2 * pairs;
    let (mut received, mut lost) = (0, 0);
    while received + lost < total {
        match subscriber.receive().unwrap().0 {
            plasmon_proto::frame::FromDaemon::Push(Push::Notices(notices)) => {
                received += notices.len() as u64;
            }
            plasmon_proto::frame::FromDaemon::Push(Push::NoticesLost(count)) => lost += count,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        lost > 0 && received >= NOTIFICATIONS_QUEUED_MAX as u64,
        "{received} received, {lost} lost"
    );
    assert_eq!(received + lost, total);
    desk.stop();
}

#[test]
fn clients_are_listed_with_what_they_hold() {
    let desk = start(&["--client-quota-bytes", "8m"]);
    let mut client = desk.client();
    client.put(id(1), &pattern(1, 1 << 20));
    let slot = client.find(&id(1)).unwrap();
    client.channel().pin(3, slot.serial);
    client.call(&Request::Subscribe { filter: Filter::default() });
    let Reply::Clients(clients) = client.call(&Request::Clients { skip: 0 }) else { panic!() };
    let [own] = &clients[..] else { panic!("{clients:?}") };
    assert_eq!((own.pid, own.name.as_str()), (std::process::id(), "test"));
    assert_eq!((own.pins, own.subscribed, own.quota_bytes), (1, true, 8 << 20));
    assert!(own.owned_bytes >= 1 << 20, "{own:?}");
    assert_eq!(client.call(&Request::Clients { skip: 1 }), Reply::Clients(Vec::new()));
    let wanted = Request::Lease { bytes_min: 9 << 20, bytes_wanted: 9 << 20 };
    assert_eq!(client.refused(&wanted), Code::QuotaExceeded);
    desk.stop();
}

#[test]
fn memory_is_made_ready_ahead() {
    let flags = ["--capacity-bytes", "32m", "--prefault-bytes", "4m", "--collapse"];
    let desk = start(&flags);
    let mut client = desk.client();
    for number in 0..8 {
        client.put(id(number), &pattern(number, 200_000));
    }
    for number in 0..8 {
        assert_eq!(client.read(&id(number)).unwrap(), pattern(number, 200_000));
    }
    desk.stop();
}

/// A lease whose grant did not fit the client's completion ring belonged to it until it went, and
/// it knew nothing of it: up to 4 MiB each time.
#[test]
fn a_lease_that_the_client_cannot_hear_of_goes_back() {
    let desk = start(&["--capacity-bytes", "64m"]);
    let mut client = desk.client();
    for number in 0..COMPLETIONS as u64 {
        client.submit(&Submission::Delete { id: id(1000 + number) });
    }
    client.submit(&Submission::LeaseWanted { bytes_min: 64, bytes_wanted: 1 << 20 });
    client.call(&Request::Sync);
    until("nothing is leased", || client.status().leased_bytes == 0);
    for _ in 0..COMPLETIONS {
        assert!(matches!(client.next_completion(), Some(Completion::Refused { .. })));
    }
    assert_eq!(client.next_completion(), None);
    // It asks again, and gets an answer.
    client.submit(&Submission::LeaseWanted { bytes_min: 64, bytes_wanted: 1 << 20 });
    until("it has a lease", || {
        client.call(&Request::Sync);
        match client.next_completion() {
            Some(Completion::Lease { range, .. }) => range.bytes == 1 << 20,
            other => {
                assert_eq!(other, None);
                false
            }
        }
    });
    desk.stop();
}

/// A writer that forbade further seals kept its memory open to new writers at level leased, and the
/// daemon only logged it: a third process could change what readers had pinned.
#[test]
fn memory_that_is_open_to_new_writers_is_not_published() {
    let desk = start(&["--level", "leased"]);
    for through_ring in [true, false] {
        let mut client = desk.client();
        if through_ring {
            let (range, fd) = client.lease(4096);
            rustix::fs::fcntl_add_seals(&fd, SealFlags::SEAL).unwrap();
            client.put_in(id(1), &range, &fd, b"open to writers");
        } else {
            let _ = client.create(id(1), 100, false);
            // The daemon does not protect it itself: it would wait for whatever this client writes.
            client.send(&Request::Seal { id: id(1) });
        }
        assert!(
            matches!(client.answer(0), Err(CallError::Failed(f)) if f.code == Code::BadRequest)
        );
        assert!(client.is_closed());
        let mut other = desk.client();
        assert_ne!(other.states(&[id(1)]), [ObjectState::Sealed]);
        assert!(other.find(&id(1)).is_none());
    }
    assert_eq!(desk.status().expelled_total, 2);
    desk.stop();
}

/// The daemon's memory at level shared is what clients of one user trust each other with. One that
/// sealed it against new writers kept others from connecting, from putting, and from getting back
/// what was spilled.
#[test]
fn no_client_can_seal_what_others_use() {
    let desk = start(&["--capacity-bytes", "64m"]);
    let mut client = desk.client();
    let (_, arena) = client.lease(4096);
    let (range, large) = client.create(id(1), 20 << 20, false);
    let attempts: Vec<_> = [SealFlags::FUTURE_WRITE, SealFlags::WRITE]
        .into_iter()
        .flat_map(|seal| [&arena, &large].map(|fd| rustix::fs::fcntl_add_seals(fd, seal)))
        .collect();
    assert!(attempts.iter().all(|done| *done == Err(rustix::io::Errno::PERM)), "{attempts:?}");
    let shared = client.shared();
    let (channel, wakes) =
        (&shared.channel.as_ref().unwrap().0, shared.wake_page.as_ref().unwrap());
    for fd in [&shared.control.0, &shared.index.fd, channel, wakes] {
        let seals = rustix::fs::fcntl_get_seals(fd).unwrap();
        assert!(seals.contains(SealFlags::SEAL), "what comes with a welcome is sealed for good");
    }
    write_at(&large, range.offset, b"x");
    client.call(&Request::Seal { id: id(1) });
    desk.stop();
}

/// The writer of a growing object allocated more than it was granted, gave the object up and left:
/// the memory stayed in the store, whatever its capacity.
#[test]
fn what_a_writer_allocates_by_itself_goes_when_the_object_does() {
    let desk = start(&["--capacity-bytes", "16m"]);
    let mut client = desk.client();
    let traits = Traits::default();
    let wanted = Request::CreateGrowing { id: id(1), traits, bytes: 4096, open_ended: false };
    let (reply, mut fds) = client.try_call(&wanted).unwrap();
    assert!(matches!(reply, Reply::Created(_)), "{reply:?}");
    let fd = fds.remove(0);
    rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, 64 << 20).unwrap();
    let resident = || rustix::fs::fstat(&fd).unwrap().st_blocks * 512;
    assert_eq!(resident(), 64 << 20);
    client.call(&Request::Abort { id: id(1) });
    until("its memory is free", || resident() <= 4096);
    desk.stop();
}
