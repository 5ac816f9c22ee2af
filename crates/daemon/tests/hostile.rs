//! Clients that break the protocol. Each is disconnected and counted, and harms no other client:
//! every test ends with an honest client that put something before and still finds it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use desk::raw::*;
use desk::*;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::frame::encode_request;
use plasmon_proto::limits::*;
use plasmon_proto::message::*;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Attributes, Code, ObjectState};

/// A daemon, and an honest client of it.
fn with_witness() -> (Desk, Client) {
    let desk = start(&["--log", "error"]);
    let mut witness = desk.client();
    witness.put(id(1), b"witnessed");
    (desk, witness)
}

/// The store is as it was, except for clients that were expelled.
fn unharmed(desk: Desk, mut witness: Client, expelled: u64) {
    assert_eq!(witness.read(&id(1)).unwrap(), b"witnessed");
    witness.put(id(2), b"and goes on");
    assert_eq!(witness.states(&[id(1), id(2)]), [ObjectState::Sealed; 2]);
    let status = witness.status();
    assert_eq!((status.expelled_total, status.epoch), (expelled, 1));
    drop(witness);
    desk.stop();
}

/// Sends a frame as it is; the daemon must say why it ends the connection, and end it.
fn expelled(client: &mut Client, frame: &[u8]) {
    client.connection.send(frame, &[]).unwrap();
    match client.answer(0) {
        Err(CallError::Failed(failure)) => assert_eq!(failure.code, Code::BadRequest),
        other => panic!("{other:?}"),
    }
    assert!(client.is_closed());
}

fn broken_frames() -> Vec<Vec<u8>> {
    let good = encode_request(1, &Request::Delete { ids: vec![id(1); 3] }).unwrap();
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let mut frames: Vec<Vec<u8>> = (1..good.len()).map(|cut| good[..cut].to_vec()).collect();
    // Magic, framing version, kind (a reply, a push, nothing), the zero, an unknown request.
    frames.extend([with(0, b'X'), with(4, 9), with(6, 2), with(6, 3), with(6, 77), with(7, 1)]);
    frames.push(with(16, 250));
    frames.push([&good[..], &[0]].concat());
    // A list that claims more ids than there are bytes in the world.
    frames.push([&good[..16], &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]].concat());
    frames.push(vec![0; FRAME_BYTES_MAX]);
    frames.push(pattern(7, FRAME_BYTES_MAX));
    frames
}

#[test]
fn malformed_frames_end_their_client_before_and_after_hello() {
    let (desk, witness) = with_witness();
    let frames = broken_frames();
    for frame in &frames {
        expelled(&mut desk.connect(), frame);
        expelled(&mut desk.client(), frame);
    }
    unharmed(desk, witness, 2 * frames.len() as u64);
}

#[test]
fn oversized_and_empty_messages_end_their_client() {
    let (desk, witness) = with_witness();
    let client = desk.connect();
    // Past what the library would send.
    let long = vec![b'x'; FRAME_BYTES_MAX + 1];
    rustix::net::send(&client.connection, &long, rustix::net::SendFlags::empty()).unwrap();
    let mut client = client;
    assert!(matches!(client.answer(0), Err(CallError::Failed(f)) if f.code == Code::BadRequest));
    assert!(client.is_closed());
    // An empty message reads like the end of a connection.
    let mut client = desk.connect();
    rustix::net::send(&client.connection, &[], rustix::net::SendFlags::empty()).unwrap();
    assert!(client.is_closed());
    unharmed(desk, witness, 1);
}

#[test]
fn unrequested_descriptors_are_closed_with_their_client() {
    let (desk, witness) = with_witness();
    let daemon_fds = || {
        let pid = desk.daemon.as_ref().unwrap().id();
        std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
    };
    let before = daemon_fds();
    let frame = encode_request(1, &Request::Status).unwrap();
    let file = null();
    let mut expelled = 0;
    for count in [1, FRAME_FDS_MAX] {
        let mut client = desk.connect();
        if passes(&client, &frame, &vec![file.as_fd(); count]) {
            expelled += 1;
            let answer = client.answer(0);
            assert!(matches!(answer, Err(CallError::Failed(f)) if f.code == Code::BadRequest));
            assert!(client.is_closed());
        }
    }
    let mut witness = witness;
    until("no descriptor is left", || {
        witness.status();
        daemon_fds() == before
    });
    unharmed(desk, witness, expelled);
}

/// Sends a message with descriptors; false where the kernel keeps them out (from Linux 6.16 on).
fn passes(client: &Client, frame: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    match client.connection.send(frame, fds) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => false,
        sent => {
            sent.unwrap();
            true
        }
    }
}

/// A socket with bytes that its other end does not read: closing it takes a minute.
fn slow_closing_socket() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::from_secs(60))).unwrap();
    (socket, other)
}

#[test]
fn a_descriptor_that_is_slow_to_close_delays_no_client() {
    // The daemon closed what a client had passed where it serves all clients: one socket that
    // lingered stopped it for as long as the client liked, before any hello.
    let (desk, mut witness) = with_witness();
    let frame = encode_request(1, &Request::Status).unwrap();
    let mut expelled = 0;
    // Read, and left unread in a connection that is closed.
    for _ in 0..3 {
        let (socket, _other) = slow_closing_socket();
        let client = desk.connect();
        expelled += u64::from(passes(&client, &frame, &[socket.as_fd()]));
        if passes(&client, &frame, &[socket.as_fd()]) {
            drop(socket);
        }
    }
    let before = Instant::now();
    for _ in 0..10 {
        witness.status();
    }
    assert!(before.elapsed() < DEADLINE, "half the time that one of them takes to close");
    unharmed(desk, witness, expelled);
}

#[test]
fn a_doorbell_that_its_client_made_blocking_stops_no_client() {
    // The daemon read the doorbell, whose open file its client shares: with O_NONBLOCK cleared and
    // the count read away at the right moment, it waited forever. Now it reads nothing.
    let (desk, witness) = with_witness();
    let client = desk.client();
    let doorbell = client.shared().doorbell.as_ref().unwrap();
    rustix::fs::fcntl_setfl(doorbell, rustix::fs::OFlags::empty()).unwrap();
    for round in 0..20 {
        let position = client.submit_raw(&delete(id(100 + round)));
        assert_eq!(client.outcome(position), Some(Code::Absent), "it was received");
        let doorbell = client.shared().doorbell.as_ref().unwrap();
        assert!(doorbell.answer().unwrap(), "and what was rung is still to be read");
    }
    drop(client);
    unharmed(desk, witness, 0);
}

#[test]
fn requests_past_their_limits_fail_and_the_client_lives() {
    let (desk, witness) = with_witness();
    let mut client = desk.client();
    let many = vec![id(1); REQUEST_IDS_MAX + 1];
    let text = Some("x".repeat(NAME_BYTES_MAX + 1));
    let filter = Filter { namespace: None, prefix: text };
    for request in [
        Request::States { ids: many.clone() },
        Request::Delete { ids: many.clone() },
        Request::Get { ids: many.clone() },
        Request::Touch { ids: many.clone() },
        Request::Demote { ids: many.clone() },
        Request::Wait { ids: many, count: 0, timeout_ms: Some(0), beyond_end: false },
        Request::Release { serials: vec![1; REQUEST_IDS_MAX + 1] },
        Request::Extents { extents: vec![ExtentId(0); FRAME_FDS_MAX + 1], write: false },
        Request::List { filter: Filter::default(), cursor: 0, limit: LIST_PAGE_MAX as u32 + 1 },
        Request::List { filter: filter.clone(), cursor: 0, limit: 1 },
        Request::Subscribe { filter },
    ] {
        assert_eq!(client.refused(&request), Code::LimitReached, "{request:?}");
    }
    assert_eq!(client.states(&vec![id(1); REQUEST_IDS_MAX]).len(), REQUEST_IDS_MAX);
    for data in [1 << 63, u64::MAX, OBJECT_BYTES_MAX + 1, OBJECT_BYTES_MAX, 64 << 20 | 1] {
        let sizes = Sizes { data, ..Sizes::default() };
        let wanted = Request::Create { id: id(9), sizes, traits: Traits::default(), strict: false };
        let code = client.refused(&wanted);
        assert!(matches!(code, Code::TooLarge | Code::BadRequest), "{data}: {code:?}");
    }
    drop(client);
    unharmed(desk, witness, 0);
}

#[test]
fn records_that_mean_nothing_end_their_client() {
    let (desk, witness) = with_witness();
    let put = |sizes: Sizes, offset: u64| {
        let placement = Placement { extent: ExtentId(0), offset };
        Submission::Put(Put { id: id(7), placement, sizes, traits: Traits::default() }).encode()
    };
    let sized = |data: u64| Sizes { data, ..Sizes::default() };
    let records = [
        [0; 8],
        [u64::MAX; 8],
        [200, 0, 0, 0, 0, 0, 0, 0],
        put(sized(1 << 63), 0),
        put(sized(1), u64::MAX - 1),
        // Between two units: once this reached the index, where no slot can say it.
        put(sized(1), 8),
        Submission::LeaseReturn(Range { extent: ExtentId(0), offset: 8, bytes: 64 }).encode(),
        Submission::LeaseReturn(Range { extent: ExtentId(0), offset: 64, bytes: 8 }).encode(),
    ];
    for record in &records {
        let mut client = desk.client();
        client.submit_raw(record);
        assert!(
            matches!(client.answer(0), Err(CallError::Failed(f)) if f.code == Code::BadRequest)
        );
        assert!(client.is_closed());
    }
    unharmed(desk, witness, records.len() as u64);
}

#[test]
fn well_formed_lies_in_the_ring_are_refused() {
    let (desk, mut witness) = with_witness();
    let victim = witness.find(&id(1)).unwrap();
    let mut liar = desk.client();
    let (own, _fd) = liar.lease(4096);
    let sizes = Sizes { data: 64, ..Sizes::default() };
    let put = |extent: ExtentId, offset: u64, sizes: Sizes| {
        let placement = Placement { extent, offset };
        Submission::Put(Put { id: id(7), placement, sizes, traits: Traits::default() })
    };
    let attributes = Sizes { data: 64, attributes: 40, ..Sizes::default() };
    for (what, lie) in [
        ("another's memory", put(victim.extent, victim.offset, sizes)),
        ("an extent that is not there", put(ExtentId::new(777, 1), 0, sizes)),
        ("the end of its lease", put(own.extent, own.offset + own.bytes, sizes)),
        ("more than its lease", put(own.extent, own.offset, Sizes { data: 1 << 30, ..sizes })),
        ("attributes that are none", put(own.extent, own.offset, attributes)),
        ("an extent's last bytes and beyond", put(own.extent, 1 << 45, sizes)),
        ("a lease that is another's", Submission::LeaseReturn(Range { bytes: 1 << 40, ..own })),
        ("an object that is not there", Submission::Delete { id: id(99) }),
        ("an object that it does not create", Submission::Abort { id: id(1) }),
        ("an id that is taken", Submission::Announce { id: id(1) }),
    ] {
        let position = liar.submit(&lie);
        assert!(liar.outcome(position).is_some(), "{what} is refused");
    }
    assert_eq!(
        liar.refused(&Request::Extents { extents: vec![victim.extent], write: true }),
        Code::NotOwner
    );
    drop(liar);
    unharmed(desk, witness, 0);
}

#[test]
fn well_formed_lies_about_durable_objects_are_refused() {
    let log = tempfile::tempdir().unwrap();
    let folder = log.path().join("log").display().to_string();
    let desk = start(&["--log", "error", "--durable-dir", &folder]);
    let mut witness = desk.client();
    witness.put(id(1), b"witnessed");
    let victim = witness.find(&id(1)).unwrap();
    let mut liar = desk.client();
    let (own, fd) = liar.lease(4096);
    let attributes = Attributes { durable: true, ..Attributes::default() }.encode();
    let (data, end) = (64, 64 + attributes.len() as u64);
    write_at(&fd, own.offset + data, &attributes);
    let sizes = Sizes { data, attributes: attributes.len() as u64, ..Sizes::default() };
    let put = |number, (extent, offset): (ExtentId, u64), sizes| {
        let (id, placement, traits) = (id(number), Placement { extent, offset }, Traits::default());
        Request::PutDurable { id, target: id, placement, sizes, traits }
    };
    let here = (own.extent, own.offset);
    let huge = |data| Sizes { data, ..sizes };
    for (what, lie, code) in [
        ("another's memory", put(7, (victim.extent, victim.offset), sizes), Code::BadRequest),
        ("no extent", put(7, (ExtentId::new(777, 1), 0), sizes), Code::BadRequest),
        ("the end of its lease", put(7, (own.extent, own.offset + own.bytes), sizes), {
            Code::BadRequest
        }),
        ("more than its lease", put(7, here, huge(1 << 30)), Code::BadRequest),
        ("sizes past their limits", put(7, here, huge(u64::MAX)), Code::TooLarge),
        ("another size past it", put(7, here, Sizes { metadata: 1 << 63, ..sizes }), {
            Code::TooLarge
        }),
    ] {
        assert_eq!(liar.refused(&lie), code, "{what}");
    }
    // From here on each takes its memory with it.
    let mut at = own.offset;
    let mut next = || {
        at += 256;
        write_at(&fd, at + data, &attributes);
        (own.extent, at)
    };
    let taken = put(1, next(), sizes);
    assert_eq!(liar.refused(&taken), Code::Exists);
    let cut = put(7, next(), Sizes { attributes: sizes.attributes - 1, ..sizes });
    assert_eq!(liar.refused(&cut), Code::BadRequest);
    let plain = put(7, next(), Sizes { attributes: 0, ..sizes });
    assert_eq!(liar.refused(&plain), Code::BadRequest);
    let good = put(7, next(), sizes);
    assert_eq!(liar.call(&good), Reply::Done);
    assert_eq!(liar.call(&good), Reply::Done, "it is there already");
    assert_eq!(liar.read(&id(7)).unwrap().len(), 64);
    assert!(end < 256);
    for offset in [own.offset + 8, u64::MAX - 63, u64::MAX] {
        let mut client = desk.client();
        client.send(&put(8, (own.extent, offset), sizes));
        assert!(
            matches!(client.answer(0), Err(CallError::Failed(f)) if f.code == Code::BadRequest)
        );
        assert!(client.is_closed());
    }
    drop(liar);
    unharmed(desk, witness, 3);
}

#[test]
fn cursors_out_of_range_end_their_client() {
    let (desk, witness) = with_witness();
    let tails = [SUBMISSIONS as u64 + 1, u64::MAX, 1 << 63];
    for tail in tails {
        let mut client = desk.client();
        client.channel().set(TAIL_AT, tail);
        client.ring();
        assert!(
            matches!(client.answer(0), Err(CallError::Failed(f)) if f.code == Code::BadRequest)
        );
        assert!(client.is_closed());
    }
    unharmed(desk, witness, tails.len() as u64);
}

#[test]
fn scribbling_in_the_channel_harms_only_its_owner() {
    let (desk, mut witness) = with_witness();
    let serial = witness.find(&id(1)).unwrap().serial;
    let client = desk.client();
    // The daemon's own words, a ledger that is longer than it is, touches of nothing, pins of
    // nothing.
    for at in [HEAD_AT, COMPLETION_TAIL_AT, COMPLETION_HEAD_AT, TOUCH_CURSOR_AT, LEDGER_HIGH_AT] {
        client.channel().set(at, u64::MAX - at);
    }
    for entry in 0..64 {
        client.channel().pin(entry, u64::MAX - entry);
    }
    client.channel().pin(70, serial);
    client.submit(&Submission::Delete { id: id(1) });
    // A pin counts, whichever client wrote it: the object is hidden, and its memory waits.
    let mut deleted = false;
    while !deleted {
        deleted = witness.states(&[id(1)]) == [ObjectState::Deleted];
    }
    assert!(witness.slots(&id(1)).iter().all(|slot| slot.hidden && slot.serial == serial));
    client.channel().touch(u32::MAX);
    client.channel().touch(0);
    drop(client);
    witness.put(id(1), b"witnessed");
    unharmed(desk, witness, 0);
}

#[test]
fn a_flood_without_reading_neither_stops_nor_bloats_the_daemon() {
    let (desk, mut witness) = with_witness();
    let pid = desk.daemon.as_ref().unwrap().id();
    let flooder = desk.client();
    let frame = encode_request(1, &Request::States { ids: vec![id(1); REQUEST_IDS_MAX] }).unwrap();
    // Until the daemon reads no more, because its answers are not read.
    let mut sent = 0;
    let mut refusals = 0;
    while refusals < 50 {
        match flooder.connection.try_send(&frame, &[]) {
            Ok(()) => (sent, refusals) = (sent + 1, 0),
            Err(_) => {
                refusals += 1;
                witness.status();
            }
        }
        assert!(sent < 100_000, "the daemon must stop the flood");
    }
    let resident = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = resident.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(pages * 4096 < 64 << 20, "{pages} pages are resident after {sent} requests");
    drop(flooder);
    unharmed(desk, witness, 0);
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let (desk, mut witness) = with_witness();
    let pid = desk.daemon.as_ref().unwrap().id();
    let count = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = count();
    for _ in 0..500 {
        drop(desk.connect());
    }
    for _ in 0..50 {
        let mut client = desk.connect();
        client.hello(false, None);
    }
    while witness.status().clients > 1 {}
    // Sessions of a process that lives on are kept, with its process and nothing else.
    assert!(count() <= before + 50, "{} descriptors instead of {before}", count());
    unharmed(desk, witness, 0);
}

#[test]
fn clients_that_do_not_receive_descriptors_make_way_for_others() {
    // What was in flight to clients that did not read was limited for each of them, not for all:
    // with as many of them as fit, no descriptor could be passed to any other client.
    let mut desk = Desk { folder: tempfile::tempdir().unwrap(), daemon: None };
    let plasmond = desk.command(&[]);
    let mut limited = std::process::Command::new("sh");
    // Half of these may be on their way: those of some ten clients.
    limited.args(["-c", "ulimit -n 512; exec \"$0\" \"$@\""]).arg(plasmond.get_program());
    limited.args(plasmond.get_args());
    desk.launch_command(limited);

    let mut honest = desk.client();
    honest.put(id(1), b"for all");
    let extent = honest.find(&id(1)).unwrap().extent;
    let mut greedy: Vec<Client> = (0..20).map(|_| desk.client()).collect();
    for client in &mut greedy {
        for _ in 0..2 {
            client.send(&Request::Extents { extents: vec![extent; FRAME_FDS_MAX], write: false });
        }
    }
    // It waits until some of the others are sent away, and no longer.
    let mut late = desk.client();
    assert_eq!(late.read(&id(1)).unwrap(), b"for all");
    assert_eq!(honest.read(&id(1)).unwrap(), b"for all");
    assert!(late.status().clients < 22, "some have gone");
    drop((honest, late, greedy));
    desk.stop();
}
