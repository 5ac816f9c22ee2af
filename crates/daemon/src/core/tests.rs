//! How much one turn of the loop does, counted.

use std::io::ErrorKind;

use plasmon_proto::ObjectId;
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::limits::SUBMISSIONS;
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Request};
use plasmon_proto::ring::Submission;
use plasmon_shm::{ChannelClient, Connection, ControlReader, Doorbell};
use tempfile::TempDir;

use super::submissions::RECORDS_PER_TURN;
use super::*;
use crate::settings;
use crate::startup;

/// A daemon whose turns the test takes itself.
struct SteppedDaemon {
    core: Core,
    ready: Vec<Ready>,
    folder: TempDir,
    _signals: UnixStream,
}

struct Client {
    connection: Connection,
    control: ControlReader,
    channel: ChannelClient,
    doorbell: Doorbell,
}

fn daemon() -> SteppedDaemon {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s.sock").display().to_string();
    let flags = [
        ("socket", socket),
        ("capacity_bytes", "64m".to_owned()),
        ("keeper", "false".to_owned()),
        ("spin_us", "0".to_owned()),
    ];
    let loaded = settings::load(None, |_| None, &flags).unwrap();
    let config = Config::new(&loaded.settings).unwrap();
    let (signals, other) = UnixStream::pair().unwrap();
    let core =
        startup::fresh_with(signals, config, Vec::new(), std::process::Stdio::null()).unwrap();
    SteppedDaemon { core, ready: Vec::new(), folder, _signals: other }
}

impl SteppedDaemon {
    fn turn(&mut self) {
        // So that it waits for nothing.
        self.core.passes.ring();
        self.core.poll.wait(Some(Duration::ZERO), &mut self.ready).unwrap();
        let ready = std::mem::take(&mut self.ready);
        self.core.serve(ready.into_iter());
    }

    fn connect(&self) -> Connection {
        let connection = Connection::connect(&self.folder.path().join("s.sock")).unwrap();
        connection.set_nonblocking(true).unwrap();
        connection
    }

    fn client(&mut self) -> Client {
        let connection = self.connect();
        let hello = Hello {
            version: PROTOCOL_VERSION,
            name: "test".to_owned(),
            channel: true,
            resume: None,
        };
        ask(&connection, 1, &Request::Hello(hello));
        loop {
            self.turn();
            let mut message = Vec::new();
            if let Ok(received) = connection.recv(&mut message, false) {
                let mut fds = received.fds.into_iter();
                let control = ControlReader::new(fds.next().unwrap()).unwrap();
                let channel = ChannelClient::new(fds.nth(1).unwrap()).unwrap();
                let doorbell = Doorbell::adopt(fds.next().unwrap());
                return Client { connection, control, channel, doorbell };
            }
        }
    }
}

fn ask(connection: &Connection, number: u64, request: &Request) {
    connection.send(&encode_request(number, request).unwrap(), &[]).unwrap();
}

impl Client {
    /// Fills its ring with records that the daemon refuses.
    fn fill_ring(&self) {
        let record = Submission::Delete { id: ObjectId::new([7; 20]) }.encode();
        while self.channel.tail() - self.channel.head() < SUBMISSIONS as u64 {
            let submitted = self.channel.submit(&record, &self.control).unwrap();
            if submitted.must_ring {
                self.doorbell.ring().unwrap();
                self.channel.rang(&submitted);
            }
        }
    }

    /// The number of the next answer, if there is one.
    fn answered(&self) -> Option<u64> {
        let mut message = Vec::new();
        match self.connection.recv(&mut message, false) {
            Ok(_) => match decode_from_daemon(&message).unwrap() {
                FromDaemon::Reply(number, _) => Some(number),
                FromDaemon::Push(push) => panic!("{push:?}"),
            },
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
        }
    }
}

/// Each request had all rings drained before it was answered, so a turn applied a full ring again
/// for each of up to a thousand requests, and everything else waited: 126 ms in the bench.
#[test]
fn a_turn_applies_so_many_records_however_many_clients_ask() {
    let mut daemon = daemon();
    let writer = daemon.client();
    let askers: Vec<Client> = (0..20).map(|_| daemon.client()).collect();
    writer.fill_ring();
    for asker in &askers {
        ask(&asker.connection, 2, &Request::Sync);
        ask(&asker.connection, 3, &Request::Sync);
    }
    let (asked_at, mut turns) = (writer.channel.tail(), 0);
    let mut answers = 0;
    while answers < 2 * askers.len() {
        let head = writer.channel.head();
        daemon.turn();
        turns += 1;
        let applied = writer.channel.head() - head;
        assert!(applied <= RECORDS_PER_TURN as u64, "{applied} records in turn {turns}");
        let now: Vec<u64> = askers.iter().filter_map(Client::answered).collect();
        answers += now.len();
        // What was submitted before the question was asked counts for its answer.
        assert!(now.is_empty() || writer.channel.is_applied(asked_at - 1), "turn {turns}");
        // It never stops.
        writer.fill_ring();
    }
    assert!(turns >= SUBMISSIONS / RECORDS_PER_TURN, "{turns} turns");
}

/// A connection that came while a long queue was worked off waited for all of it.
#[test]
fn a_client_is_let_in_while_a_pass_over_the_rings_is_under_way() {
    let mut daemon = daemon();
    let writer = daemon.client();
    writer.fill_ring();
    daemon.turn();
    assert!(daemon.core.passes.is_under_way());
    let _late = daemon.connect();
    let before = daemon.core.peers.iter().count();
    daemon.turn();
    assert!(daemon.core.passes.is_under_way(), "it is still the first pass");
    assert_eq!(daemon.core.peers.iter().count(), before + 1);
}

/// Closing a connection with a request unanswered must not have the next one with its number be
/// answered in its place.
#[test]
fn a_question_dies_with_its_connection() {
    let mut daemon = daemon();
    let writer = daemon.client();
    let asker = daemon.client();
    writer.fill_ring();
    ask(&asker.connection, 9, &Request::Sync);
    daemon.turn();
    assert_eq!(daemon.core.inbox.questions.len(), 1);
    drop(asker);
    while daemon.core.has_more_to_do() {
        daemon.turn();
    }
    assert_eq!(daemon.core.peers.iter().count(), 1);
    let next = daemon.client();
    assert_eq!(next.answered(), None);
}
