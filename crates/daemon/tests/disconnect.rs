//! Clients that go in other ways than by the end of their process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use desk::*;
use plasmon_proto::ObjectState;
use plasmon_proto::message::*;
use plasmon_shm::ChannelClient;

const MIB: u64 = 1 << 20;

/// Runs one of the parts below in a separate process, until it says that it is ready.
fn spawn(desk: &Desk, part: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", part])
        .env("PLASMON_TEST_SOCKET", desk.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let mut output = child.stdout.take().unwrap();
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    child
}

fn connect_to_parent() -> Client {
    let socket = std::env::var_os("PLASMON_TEST_SOCKET").unwrap();
    let mut client = Client::connect(Path::new(&socket));
    client.hello(true, None);
    client
}

/// Says that everything is as the test wants it, and waits for its word.
fn ready() {
    std::io::stdout().write_all(b"ready\n").unwrap();
    std::io::stdout().flush().unwrap();
    let mut byte = [0];
    assert_eq!(std::io::stdin().read(&mut byte).unwrap(), 1);
}

/// A process that went on as another program kept its pins and its leases until that program ended:
/// 400 MB lingered for a `sleep`.
#[test]
fn a_process_that_goes_on_as_another_program_lets_go_of_pins_and_leases() {
    let desk = start(&["--capacity-bytes", "16m"]);
    let mut other = desk.client();
    let (range, fd) = other.create(id(1), 8 * MIB, false);
    write_at(&fd, range.offset, b"pinned");
    other.call(&Request::Seal { id: id(1) });
    let mut child = spawn(&desk, "part_becomes_another_program");
    assert_eq!(other.call(&Request::Delete { ids: vec![id(1)] }), Reply::Outcomes(vec![None]));
    let status = other.status();
    assert_eq!((status.lingering, status.creating), (1, 1));
    assert!(status.leased_bytes >= MIB / 4);

    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    until("everything is let go", || {
        let status = other.status();
        (status.lingering, status.creating, status.leased_bytes, status.away_bytes) == (0, 0, 0, 0)
    });
    assert_eq!(other.states(&[id(2)]), [ObjectState::CreatorDied]);
    assert!(child.try_wait().unwrap().is_none(), "the other program still runs");
    other.create(id(3), 15 * MIB, false);
    child.kill().unwrap();
    child.wait().unwrap();
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another program"]
fn part_becomes_another_program() {
    let mut client = connect_to_parent();
    let slot = client.find(&id(1)).unwrap();
    client.channel().pin(0, slot.serial);
    let (_lease, _fd) = client.lease(MIB / 4);
    let (_range, _fd) = client.create(id(2), MIB, false);
    let channel = client.channel().0.try_clone().unwrap();
    // As the clients of the library do.
    let _mapped = ChannelClient::new(channel).unwrap();
    ready();
    panic!("{}", Command::new("sleep").arg("1000").exec());
}

/// The connection is gone, the process has everything still: nothing of it is given to others, for
/// as long as the process lives.
#[test]
fn a_process_that_has_lost_its_connection_keeps_what_was_lent_to_it_until_it_ends() {
    let desk = start(&["--capacity-bytes", "16m"]);
    let mut other = desk.client();
    let mut child = spawn(&desk, "part_loses_its_connection");
    until("the connection is gone", || other.status().away_bytes >= 8 * MIB + MIB / 4);
    let refused = Request::Create {
        id: id(3),
        sizes: plasmon_proto::object::Sizes { data: 12 * MIB, ..Default::default() },
        traits: Default::default(),
        strict: false,
    };
    assert_eq!(other.refused(&refused), plasmon_proto::Code::StoreFull);
    assert_eq!(other.states(&[id(2)]), [ObjectState::Creating]);
    child.kill().unwrap();
    child.wait().unwrap();
    until("everything is let go", || other.status().away_bytes == 0);
    other.create(id(3), 12 * MIB, false);
    desk.stop();
}

#[test]
#[ignore = "a part of another test, run as another program"]
fn part_loses_its_connection() {
    let mut client = connect_to_parent();
    let _lease = client.lease(MIB / 4);
    let _created = client.create(id(2), 8 * MIB, false);
    client.hang_up();
    ready();
}

/// A goodbye takes effect at once, even if the process lives on and has everything mapped.
#[test]
fn a_client_that_says_goodbye_lets_go_of_everything() {
    let desk = start(&["--capacity-bytes", "16m"]);
    let mut other = desk.client();
    other.put(id(1), b"pinned");
    let mut client = desk.client();
    let slot = client.find(&id(1)).unwrap();
    client.channel().pin(0, slot.serial);
    client.lease(MIB / 4);
    client.create(id(2), 8 * MIB, false);
    let mapped = ChannelClient::new(client.channel().0.try_clone().unwrap()).unwrap();
    mapped.leave();
    client.hang_up();
    other.call(&Request::Delete { ids: vec![id(1)] });
    until("everything is let go", || {
        let status = other.status();
        (status.lingering, status.creating, status.leased_bytes, status.away_bytes) == (0, 0, 0, 0)
    });
    let token = client.token();
    let mut again = desk.connect();
    again.hello(true, Some(Resume { token, leases: Vec::new(), creating: Vec::new() }));
    assert!(!again.shared().welcome.resumed, "it has left for good");
    desk.stop();
}
