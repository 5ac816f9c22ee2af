//! How a connection becomes a client, and who does not become one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use desk::*;
use plasmon_proto::limits::CLIENT_NAME_BYTES_MAX;
use plasmon_proto::message::*;
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectState};

const OTHER_UID: u32 = 65534;

fn hello(version: u32, name: &str) -> Request {
    let name = name.to_owned();
    Request::Hello(Hello { version, name, channel: false, resume: None })
}

#[test]
fn a_welcome_says_what_the_store_is() {
    let desk = start(&["--capacity-bytes", "10000"]);
    let client = desk.client();
    let welcome = &client.shared().welcome;
    assert_eq!(welcome.capacity_bytes, 10_000);
    assert_eq!((welcome.level, welcome.access), (Level::Shared, Access::ReadWrite));
    assert!(welcome.channel && !welcome.resumed && welcome.token != 0);
    assert_eq!((welcome.epoch, client.shared().control.epoch()), (1, 1));
    assert!(client.shared().channel.is_some() && client.shared().doorbell.is_some());
    let mut plain = desk.connect();
    plain.hello(false, None);
    assert!(!plain.shared().welcome.channel && plain.shared().channel.is_none());
    assert_eq!(plain.status().clients, 2);
    drop((client, plain));
    desk.stop();
}

#[test]
fn the_wake_page_is_for_clients_that_trust_each_other() {
    let pages = |arguments: &[&str], channel: bool| {
        let desk = start(arguments);
        let mut client = desk.connect();
        client.hello(channel, None);
        let shared = client.shared();
        let given = (shared.welcome.wake_page, shared.wake_page.is_some());
        desk.stop();
        given
    };
    assert_eq!(pages(&[], true), (true, true));
    assert_eq!(pages(&[], false), (false, false));
    assert_eq!(pages(&["--level", "leased"], true), (false, false));
    assert_eq!(pages(&["--level", "strict"], true), (false, false));
}

#[test]
fn wrong_hellos_are_refused_under_their_number_and_the_connection_ends() {
    let desk = start(&[]);
    let long = "n".repeat(CLIENT_NAME_BYTES_MAX + 1);
    for (request, code) in [
        (hello(PROTOCOL_VERSION + 1, "x"), Code::VersionMismatch),
        (hello(0, "x"), Code::VersionMismatch),
        (hello(PROTOCOL_VERSION, &long), Code::LimitReached),
        (Request::Status, Code::BadRequest),
    ] {
        let mut client = desk.connect();
        assert_eq!(client.refused(&request), code, "{request:?}");
        assert!(client.is_closed());
    }
    let mut client = desk.connect();
    client.call(&hello(PROTOCOL_VERSION, &long[1..]));
    assert_eq!(client.refused(&hello(PROTOCOL_VERSION, "again")), Code::BadRequest);
    assert!(client.is_closed());
    assert_eq!(desk.status().expelled_total, 2, "no hello, two hellos");
    desk.stop();
}

#[test]
fn a_token_of_another_process_or_of_none_resumes_nothing() {
    let desk = start(&[]);
    let mut client = desk.connect();
    let resume = Resume { token: 4711, leases: Vec::new(), creating: Vec::new() };
    client.hello(true, Some(resume));
    assert!(!client.shared().welcome.resumed);
    assert_ne!(client.token(), 4711);
    desk.stop();
}

/// Runs a test of this very program as another user, against the daemon of `desk`.
fn as_other_user(desk: &Desk, test: &str) {
    let folder = desk.folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.join("client");
    // Copied by a separate process: what another test starts meanwhile would inherit a descriptor
    // that writes to the copy, and a program that is being written to cannot be run.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
    assert!(copied.unwrap().success());
    let status = Command::new(copy)
        .args(["--exact", test, "--ignored"])
        .env("PLASMON_TEST_SOCKET", desk.socket())
        .current_dir("/")
        .uid(OTHER_UID)
        .gid(OTHER_UID)
        .status();
    assert!(status.unwrap().success(), "{test} as another user");
}

fn foreign_client() -> Client {
    Client::connect(Path::new(&std::env::var_os("PLASMON_TEST_SOCKET").unwrap()))
}

#[test]
fn another_user_is_refused_by_mode_and_then_by_name() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let desk = start(&[]);
    as_other_user(&desk, "foreign_is_refused");
    desk.stop();
    let desk = start(&["--socket-mode", "0666"]);
    as_other_user(&desk, "foreign_is_not_permitted");
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another user"]
fn foreign_is_refused() {
    let socket = std::env::var_os("PLASMON_TEST_SOCKET").unwrap();
    let error = plasmon_shm::Connection::connect(Path::new(&socket)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
#[ignore = "a part of another test, run as another user"]
fn foreign_is_not_permitted() {
    let mut client = foreign_client();
    assert_eq!(client.refused(&hello(PROTOCOL_VERSION, "x")), Code::NotPermitted);
    assert!(client.is_closed());
}

#[test]
fn an_admitted_user_reads_and_cannot_write() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let admit = format!("{OTHER_UID}:ro");
    let desk = start(&["--socket-mode", "0666", "--admit", &admit]);
    let mut owner = desk.client();
    assert_eq!(owner.shared().welcome.level, Level::Leased);
    owner.put(id(1), b"for all");
    as_other_user(&desk, "foreign_only_reads");
    assert_eq!(owner.read(&id(1)).unwrap(), b"for all");
    assert_eq!(owner.states(&[id(1), id(2)]), [ObjectState::Sealed, ObjectState::Absent]);
    drop(owner);
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another user"]
fn foreign_only_reads() {
    let mut client = foreign_client();
    client.hello(true, None);
    assert_eq!(client.shared().welcome.access, Access::ReadOnly);
    assert_eq!(client.read(&id(1)).unwrap(), b"for all");
    let image = client.find(&id(1)).unwrap();

    // Neither by the descriptor that it was given, nor by opening that again.
    let fd = client.extent(image.extent, false);
    assert!(rustix::io::pwrite(&fd, b"x", image.offset).is_err());
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    assert!(std::fs::OpenOptions::new().write(true).open(path).is_err());

    let sizes = Sizes { data: 1, ..Sizes::default() };
    for request in [
        Request::Extents { extents: vec![image.extent], write: true },
        Request::Lease { bytes_min: 64, bytes_wanted: 64 },
        Request::Create { id: id(2), sizes, traits: Traits::default(), strict: false },
        Request::Delete { ids: vec![id(1)] },
        Request::Evict { bytes: 1 },
        Request::Shutdown,
    ] {
        assert_eq!(client.refused(&request), Code::NotPermitted, "{request:?}");
    }
    let position = client.submit(&Submission::Delete { id: id(1) });
    assert_eq!(client.outcome(position), Some(Code::NotPermitted));
}

#[test]
fn unidentified_connections_make_room_for_identified_ones() {
    // Connections that never said hello took every place for ten seconds, and again.
    let desk = start(&[]);
    let mut silent: Vec<Client> = (0..300).map(|_| desk.connect()).collect();
    let mut client = desk.client();
    assert_eq!(client.status().clients, 1);
    let Err(CallError::Failed(failure)) = silent[0].answer(0) else { panic!("it is told why") };
    assert_eq!(failure.code, Code::LimitReached);
    assert!(silent[0].is_closed());
    // The latest may still speak.
    silent.last_mut().unwrap().hello(false, None);
    drop((client, silent));
    desk.stop();
}

#[test]
fn a_process_and_a_user_have_as_many_connections_as_the_settings_say() {
    // One process could take every connection of its user, and with each the memory of a channel
    // and descriptors on the way.
    for (flag, said) in [
        ("--connections-per-process-max", "too many connections of this process (pid "),
        ("--connections-per-user-max", "too many connections of this user"),
    ] {
        let desk = start(&[flag, "3"]);
        let mut clients: Vec<Client> = (0..3).map(|_| desk.client()).collect();
        let mut late = desk.connect();
        let Err(CallError::Failed(failure)) = late.answer(0) else { panic!("it is told why") };
        assert_eq!((failure.code, failure.wanted, failure.found), (Code::LimitReached, 4, 3));
        assert!(failure.detail.starts_with(said), "{}", failure.detail);
        assert!(failure.detail.contains("3, and the setting connections_per_"), "{failure:?}");
        assert!(late.is_closed());
        // A client that leaves makes room.
        clients.truncate(1);
        until("the others have left", || clients[0].status().clients <= 1);
        assert_eq!(desk.client().status().clients, 2);
        desk.stop();
    }
}
