//! The seat of the pool daemon, over real daemons. The pool daemons here are doubles: each does for
//! one object, as the test says, what `plasmon-poold` does for all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use desk::*;
use plasmon_proto::frame::FromDaemon;
use plasmon_proto::message::*;
use plasmon_proto::object::{Durability, PoolAttributes, Sizes, Traits};
use plasmon_proto::pool::{Birth, Call, Class, Fate, Origin, Slot, Told};
use plasmon_proto::{Attributes, Code, Name, ObjectId, ObjectState};
use tempfile::TempDir;

const POOL: &[&str] = &["--cluster", "etcd://127.0.0.1:1", "--node-name", "test"];
const SERIAL: u64 = 4711;

/// A pool daemon that does what a test says.
struct Agent {
    client: Client,
    calls: VecDeque<Call>,
    origin: Origin,
}

impl Agent {
    fn of(desk: &Desk, slot: u16) -> Self {
        let slot = Slot(slot);
        let mut client = desk.connect();
        client.hello(false, None);
        let boot = client.shared().welcome.store;
        assert_eq!(client.call(&Request::Agent { token: boot, slot }), Reply::Done);
        Self { client, calls: VecDeque::new(), origin: Origin { slot, boot } }
    }

    fn birth(&self) -> Birth {
        let Origin { slot, boot } = self.origin;
        Birth { slot, boot, serial: SERIAL }
    }

    fn tell(&mut self, told: Told) {
        assert_eq!(self.client.call(&Request::Tell { told: vec![told] }), Reply::Done);
    }

    fn next_call(&mut self) -> Call {
        loop {
            for push in self.client.pushes.drain(..) {
                match push {
                    Push::Calls(calls) => self.calls.extend(calls),
                    // What the store says of adopted namespaces is tested there.
                    Push::Adoption(_) => {}
                    push => panic!("{push:?}"),
                }
            }
            match self.calls.pop_front() {
                // The tests of the store are about when that comes.
                Some(Call::InventoryEnd) => continue,
                Some(call) => return call,
                None => {}
            }
            match self.client.receive() {
                Some((FromDaemon::Push(push), _)) => self.client.pushes.push(push),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads an object as it lies there, also one that others do not see.
    fn read(&mut self, id: &ObjectId) -> (Location, Vec<u8>) {
        let Reply::Located(located) = self.client.call(&Request::Get { ids: vec![*id] }) else {
            panic!("an answer to a get");
        };
        let location = located[0].unwrap();
        let fd = self.client.extent(location.range.extent, false);
        let bytes = location.sizes.total().unwrap() as usize;
        (location, read_at(&fd, location.range.offset, bytes))
    }

    /// Brings a copy here from another node.
    fn land(&mut self, from: &mut Self, id: ObjectId) {
        let (location, bytes) = from.read(&id);
        let content = (location.sizes.data + location.sizes.metadata) as usize;
        let mut attributes = Attributes::decode(&bytes[content..]).unwrap();
        let pool = attributes.pool.as_mut().unwrap();
        pool.origin = Some(from.origin);
        let encoded = attributes.encode();
        let sizes = Sizes { attributes: encoded.len() as u64, ..location.sizes };
        let birth = from.birth();
        let landing = Landing { id, birth, sizes, traits: location.traits, growing: false };
        let (reply, fds) = self.client.try_call(&Request::Land(landing)).unwrap();
        let Reply::Created(granted) = reply else { panic!("{reply:?}") };
        write_at(&fds[0], granted.range.offset, &[&bytes[..content], &encoded].concat());
        drop(fds);
        let seal = Request::SealLanded { id, birth, visible: true, keep: true };
        assert_eq!(self.client.call(&seal), Reply::Done);
        assert_eq!(
            from.client.call(&Request::Release { serials: vec![location.serial] }),
            Reply::Done
        );
    }
}

fn attributes(name: &Name) -> Attributes {
    let (class, origin) = (Durability::Memory, None);
    let pool = PoolAttributes {
        copies: 2,
        copies_min: 1,
        class,
        origin,
        serial: SERIAL,
        ..PoolAttributes::ONE
    };
    Attributes { name: Some(name.clone()), pool: Some(pool), ..Attributes::default() }
}

/// Creates an object of the pool and asks for its seal.
fn begin_put(client: &mut Client, name: &Name, data: &[u8]) -> u64 {
    begin_put_with(client, name, data, &attributes(name))
}

fn begin_put_with(client: &mut Client, name: &Name, data: &[u8], attributes: &Attributes) -> u64 {
    let encoded = attributes.encode();
    let sizes = Sizes { data: data.len() as u64, metadata: 0, attributes: encoded.len() as u64 };
    let (id, traits) = (name.id(), Traits::default());
    let wanted = Request::Create { id, sizes, traits, strict: false };
    let (reply, fds) = client.try_call(&wanted).unwrap();
    let Reply::Created(granted) = reply else { panic!("{reply:?}") };
    write_at(&fds[0], granted.range.offset, &[data, &encoded].concat());
    client.send(&Request::Seal { id })
}

fn reply_to(client: &mut Client, number: u64) -> Reply {
    client.answer(number).unwrap().0
}

#[test]
fn an_object_moves_between_two_daemons_and_is_deleted_in_both() {
    let (here, there) = (start_alone(), start_alone());
    let (mut a, mut b) = (Agent::of(&here, 0), Agent::of(&there, 1));
    a.tell(Told::Vouch { ms: 60_000 });
    b.tell(Told::Vouch { ms: 60_000 });
    let name = Name::new("", "@prod:sales").unwrap();
    let id = name.id();
    let data = pattern(1, 5 << 20);

    let mut reader = there.client();
    let waiting = reader.wait_for(&[id]);
    let Call::Seek { number, class: Class::Wait, .. } = b.next_call() else { panic!("a seek") };
    b.tell(Told::Sought { id, number, fate: Fate::Absent });

    let mut writer = here.client();
    let sealing = begin_put(&mut writer, &name, &data);
    let Call::Commit { serial: SERIAL, content, copies: 2, .. } = a.next_call() else {
        panic!("a commit");
    };
    assert_eq!(content.data_bytes, data.len() as u64);
    assert!(here.client().find(&id).is_none(), "it is not to be seen yet");
    b.land(&mut a, id);
    a.tell(Told::Committed { id, serial: SERIAL, result: Ok(()) });
    assert_eq!(reply_to(&mut writer, sealing), Reply::Done);
    assert_eq!(reply_to(&mut reader, waiting), Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(b.next_call(), Call::Unseek(id));
    assert!(reader.read(&id).unwrap() == data && here.client().read(&id).unwrap() == data);

    let deleting = reader.send(&Request::Delete { ids: vec![id] });
    assert_eq!(b.next_call(), Call::Delete { id, number: 1 });
    let birth = a.birth();
    for agent in [&mut a, &mut b] {
        agent.tell(Told::Drop { id, birth });
        assert_eq!(agent.next_call(), Call::Ended { id, birth });
    }
    b.tell(Told::Deleted { id, number: 1 });
    assert_eq!(reply_to(&mut reader, deleting), Reply::Outcomes(vec![None]));
    assert!(reader.find(&id).is_none() && here.client().find(&id).is_none());
    here.stop();
    there.stop();
}

#[test]
fn a_killed_daemon_shows_its_copies_again_when_its_pool_daemon_is_back() {
    let desk = start_alone();
    let mut agent = Agent::of(&desk, 0);
    agent.tell(Told::Vouch { ms: 60_000 });
    let name = Name::new("@", "x").unwrap();
    let id = name.id();
    let mut client = desk.client();
    let sealing = begin_put(&mut client, &name, b"outlives the daemon");
    agent.next_call();
    agent.tell(Told::Committed { id, serial: SERIAL, result: Ok(()) });
    assert_eq!(reply_to(&mut client, sealing), Reply::Done);

    let daemon = client.status().pid;
    kill(daemon, Signal::KILL);
    assert!(client.is_closed());
    let mut reader = desk.client();
    let waiting = reader.wait_for(&[id]);
    assert!(desk.client().find(&id).is_none(), "it may have been deleted meanwhile");
    let mut again = Agent::of(&desk, 0);
    let birth = again.birth();
    let Call::Has { id: found, birth: told, visible: true, .. } = again.next_call() else {
        panic!("what is here comes first");
    };
    assert_eq!((found, told), (id, birth));
    assert!(matches!(again.next_call(), Call::Seek { class: Class::Wait, .. }));
    again.tell(Told::Vouch { ms: 60_000 });
    assert_eq!(reply_to(&mut reader, waiting), Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(reader.read(&id).unwrap(), b"outlives the daemon");
    desk.stop();
}

/// A durable object goes to the log when the pool daemon says so. The next store tells it with its
/// birth, and shows it when the pool daemon says so. What was deleted elsewhere is remembered, too.
#[test]
fn durable_copies_and_tombstones_are_told_by_the_next_store() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let flags = [POOL, &["--durable-dir", log.to_str().unwrap()]].concat();
    let start = || launch(tempfile::tempdir().unwrap(), &flags, Path::new("/nonexistent/poold"));
    let desk = start();
    let mut agent = Agent::of(&desk, 0);
    agent.tell(Told::Vouch { ms: 60_000 });
    let name = Name::new("", "@prod:sales").unwrap();
    let (id, data) = (name.id(), pattern(1, 3 << 20));
    let of_name = attributes(&name);
    let class = Durability::Durable;
    let pool = of_name.pool.map(|pool| PoolAttributes { class, ..pool });
    let durable = Attributes { pool, ..of_name };
    let mut client = desk.client();
    let sealing = begin_put_with(&mut client, &name, &data, &durable);
    let Call::Commit { content, .. } = agent.next_call() else { panic!("a commit") };
    assert!(content.durable.is_some());
    let birth = agent.birth();
    agent.tell(Told::Log { id, birth });
    assert_eq!(agent.next_call(), Call::Logged { id, birth });
    agent.tell(Told::Committed { id, serial: SERIAL, result: Ok(()) });
    assert_eq!(reply_to(&mut client, sealing), Reply::Done);
    let ended = Birth { serial: 7, ..birth };
    agent.tell(Told::AddTombstone { id, birth: ended });
    assert_eq!(agent.next_call(), Call::TombstoneAdded { id, birth: ended });
    desk.stop();

    let desk = start();
    let mut agent = Agent::of(&desk, 0);
    assert!(!agent.client.shared().welcome.log_closed);
    let (visible, kept, logged) = (false, true, true);
    assert_eq!(agent.next_call(), Call::Has { id, birth, content, visible, kept, logged });
    assert_eq!(agent.next_call(), Call::TombstoneAdded { id, birth: ended });
    agent.tell(Told::Vouch { ms: 60_000 });
    agent.tell(Told::Publish { id, birth });
    let mut reader = desk.client();
    let waiting = reader.wait_for(&[id]);
    assert_eq!(reply_to(&mut reader, waiting), Reply::States(vec![ObjectState::Sealed]));
    assert!(reader.read(&id).unwrap() == data);
    agent.tell(Told::Drop { id, birth });
    assert_eq!(agent.next_call(), Call::Ended { id, birth });
    desk.stop();
}

fn grow(client: &mut Client, number: u64) -> Vec<std::os::fd::OwnedFd> {
    let (id, traits) = (id(number), Traits { owned: true, ..Traits::default() });
    let wanted = Request::CreateGrowing { id, traits, bytes: 4096, open_ended: false };
    let (reply, fds) = client.try_call(&wanted).unwrap();
    let Reply::Created(_) = reply else { panic!("{reply:?}") };
    fds
}

fn seal_grown(number: u64, attributes: u32) -> Request {
    let target = ObjectId::pooled([number as u8; 12], Some(0));
    Request::SealGrownPooled { id: id(number), target, data: 5, attributes }
}

/// Memory that grew is an object of the pool without a copy: its attributes, which say how many
/// copies it is to have, are read from behind its data, now and by the next daemon.
#[test]
fn what_grew_is_sealed_as_an_object_of_the_pool_and_outlives_the_daemon() {
    let desk = start_alone();
    let mut agent = Agent::of(&desk, 0);
    let mut client = desk.client();
    let name = Name::new("", "@prod:x").unwrap();
    let of_name = attributes(&name);
    let encoded = Attributes { name: None, ..of_name }.encode();
    let bytes = encoded.len() as u32;
    // Bytes that are no attributes, and a file that its writer has cut.
    for (number, is_cut) in [(1, false), (2, true)] {
        let fds = grow(&mut client, number);
        if is_cut {
            rustix::fs::ftruncate(&fds[0], 3).unwrap();
        }
        assert_eq!(client.refused(&seal_grown(number, bytes)), Code::BadRequest);
        assert_eq!(client.refused(&seal_grown(number, u32::MAX)), Code::BadRequest);
    }
    let fds = grow(&mut client, 3);
    write_at(&fds[0], 0, &[b"grown", &encoded[..]].concat());
    drop(fds);
    assert_eq!(client.call(&seal_grown(3, bytes)), Reply::Done);
    let member = ObjectId::pooled([3; 12], Some(0));
    let Call::CommitKept { id: told, copies: 2, content, .. } = agent.next_call() else {
        panic!("a commit");
    };
    assert_eq!((told, content.data_bytes), (member, 5));

    let owner = attributes(&name).pool.map(|pool| PoolAttributes { owns_members: true, ..pool });
    let composite = Attributes { members: vec![member], pool: owner, ..attributes(&name) };
    let encoded = composite.encode();
    let sizes = Sizes { data: 4, metadata: 0, attributes: encoded.len() as u64 };
    let (id, traits) = (name.id(), Traits::default());
    let wanted = Request::Create { id, sizes, traits, strict: false };
    let (reply, fds) = client.try_call(&wanted).unwrap();
    let Reply::Created(granted) = reply else { panic!("{reply:?}") };
    write_at(&fds[0], granted.range.offset, &[b"list", &encoded[..]].concat());
    let sealing = client.send(&Request::Seal { id });
    let Call::Commit { content, .. } = agent.next_call() else { panic!("a commit") };
    let birth = agent.birth();
    assert_eq!(content.attributes_bytes as usize, composite.of_copy(birth).encode().len());
    agent.tell(Told::Vouch { ms: 60_000 });
    agent.tell(Told::Committed { id, serial: SERIAL, result: Ok(()) });
    assert_eq!(reply_to(&mut client, sealing), Reply::Done);

    kill(client.status().pid, Signal::KILL);
    assert!(client.is_closed());
    let mut again = Agent::of(&desk, 0);
    let mut told = [again.next_call(), again.next_call()];
    told.sort_by_key(|call| matches!(call, Call::Has { .. }));
    let [Call::CommitKept { id: kept, copies: 2, .. }, Call::Has { id: has, content: after, .. }] =
        told
    else {
        panic!("{told:?}");
    };
    assert_eq!((kept, has, after), (member, id, content));
    again.tell(Told::Vouch { ms: 60_000 });
    let mut reader = desk.client();
    assert_eq!(reader.read(&member).unwrap(), b"grown");
    assert_eq!(reader.read(&id).unwrap(), b"list");
    // It is deleted with the composite.
    again.tell(Told::Drop { id, birth });
    let calls = [again.next_call(), again.next_call()];
    assert!(calls.contains(&Call::Ended { id, birth }), "{calls:?}");
    assert!(calls.contains(&Call::Delete { id: member, number: 1 }), "{calls:?}");
    desk.stop();
}

/// A program in place of `plasmon-poold`.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("poold");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// A daemon that starts the program of this script, and whose pool daemon it is.
fn start_with(script: &str) -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), script);
    launch(folder, POOL, &program)
}

/// A daemon of a pool that finds no pool daemon: the test is that.
fn start_alone() -> Desk {
    launch(tempfile::tempdir().unwrap(), POOL, Path::new("/nonexistent/poold"))
}

fn launch(folder: TempDir, flags: &[&str], program: &Path) -> Desk {
    let mut desk = Desk { folder, daemon: None };
    let mut command = desk.command(flags);
    command.env("PLASMON_POOLD", program).env("FOLDER", desk.folder.path());
    desk.launch_command(command);
    desk
}

fn lines(desk: &Desk) -> Vec<String> {
    let text = std::fs::read_to_string(desk.folder.path().join("lines")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_pool_daemon_is_told_its_store_and_ends_with_the_daemon() {
    let desk =
        start_with("echo $$ $* > $FOLDER/made; mv $FOLDER/made $FOLDER/lines; exec sleep 600");
    until("it is started", || !lines(&desk).is_empty());
    let store = desk.client().shared().welcome.store;
    let (pid, arguments) =
        lines(&desk)[0].split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let socket = desk.socket();
    let expected = format!(
        "--socket {} --store {store} --cluster etcd://127.0.0.1:1/default --node-name test",
        socket.display()
    );
    assert_eq!(arguments, expected);
    let alive = process(pid.parse().unwrap());
    desk.stop();
    assert!(ends(&alive), "it ends with the daemon");
}

#[test]
fn the_pool_daemon_is_given_what_was_chosen_for_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "echo $* > $FOLDER/made; mv $FOLDER/made $FOLDER/lines");
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o400)).unwrap();
    let token = format!("--pool-token-file={}", token.display());
    let flags = ["--pool-listen=127.0.0.1:0", &token, "--pool-folder=/var/lib/node"];
    let more =
        ["--pool-zone=rack1", "--pool-weight=0", "--pool-movers=3", "--pool-suspect-ms=1000"];
    let desk = launch(folder, &[POOL, &flags, &more].concat(), &program);
    until("it is started", || !lines(&desk).is_empty());
    let given = flags.iter().chain(&more).map(|flag| flag.replacen('=', " ", 1));
    let expected = given.collect::<Vec<_>>().join(" ");
    assert!(lines(&desk)[0].ends_with(&format!("--node-name test {expected}")), "{expected}");
    let status = desk.status();
    assert_eq!(status.cluster, "etcd://127.0.0.1:1/default");
    assert_eq!(status.node_name, "test");
    desk.stop();
}

#[test]
fn a_store_of_a_pool_does_not_start_without_its_program_or_secret() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "exec sleep 600");
    let desk = Desk { folder, daemon: None };
    let refused = |mut command: Command| {
        let output = command.env("PATH", "").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        text
    };
    // No program lies beside one that was copied.
    let alone = desk.folder.path().join("plasmond");
    std::fs::copy(PLASMOND, &alone).unwrap();
    let mut command = daemon_command(&alone, &desk.socket());
    command.args(POOL);
    let text = refused(command);
    assert!(text.contains("plasmon-poold") && text.contains("PLASMON_POOLD"), "{text}");
    let flags = [POOL, &["--pool-token-file=/nonexistent/token"]].concat();
    let mut command = desk.command(&flags);
    command.env("PLASMON_POOLD", &program);
    let text = refused(command);
    assert!(text.contains("/nonexistent/token"), "{text}");
    assert!(!desk.socket().exists());
}

/// The pool daemon counted as a client, so a store of a pool outlived all its programs.
#[test]
fn a_store_ends_with_its_last_client_while_its_pool_daemon_is_connected() {
    let flags = [POOL, &["--end-with-last-client"]].concat();
    let nothing = Path::new("/nonexistent/poold");
    let mut desk = launch(tempfile::tempdir().unwrap(), &flags, nothing);
    let client = desk.client();
    let agent = Agent::of(&desk, 0);
    drop(client);
    assert_eq!(wait(&mut desk.daemon.take().unwrap()).code(), Some(0));
    drop(agent);
}

#[test]
fn a_pool_daemon_that_does_not_end_by_itself_is_killed() {
    let script = "trap '' TERM; echo $$ > $FOLDER/made; mv $FOLDER/made $FOLDER/lines; \
                  while :; do sleep 1; done";
    let desk = start_with(script);
    until("it is started", || !lines(&desk).is_empty());
    let alive = process(lines(&desk)[0].parse().unwrap());
    desk.stop();
    assert!(ends(&alive), "it ends with the daemon");
}

#[test]
fn a_pool_daemon_that_ends_is_started_again_after_growing_pauses() {
    let desk = start_with("date +%s%N >> $FOLDER/lines");
    until("it was started four times", || lines(&desk).len() >= 4);
    let at: Vec<u64> = lines(&desk).iter().map(|line| line.parse().unwrap()).collect();
    // A busy machine makes a pause longer and never shorter.
    let pauses = at.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000);
    for (pause, least_ms) in pauses.zip([100, 200, 400]) {
        assert!(pause >= least_ms, "{pause} ms, at least {least_ms}");
    }
    assert_eq!(desk.status().clients, 1, "clients are served all the same");
    desk.stop();
}

#[test]
fn a_store_without_a_pool_starts_no_pool_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "echo started >> $FOLDER/lines");
    let desk = launch(folder, &[], &program);
    let mut client = desk.client();
    client.put(id(1), b"local");
    assert_eq!(client.states(&[id(1)]), [ObjectState::Sealed]);
    assert!(lines(&desk).is_empty());
    desk.stop();
}

#[test]
fn the_seat_is_for_one_process_that_was_started_for_this_store() {
    let desk = start_alone();
    let mut client = desk.client();
    let token = client.shared().welcome.store;
    let take = |token| Request::Agent { token, slot: Slot(0) };
    assert_eq!(client.refused(&take(token + 1)), Code::NotPermitted);
    let agent = Agent::of(&desk, 0);
    assert_eq!(client.refused(&take(token)), Code::InUse);
    let tell = Request::Tell { told: vec![Told::Vouch { ms: 1 }] };
    assert_eq!(client.refused(&tell), Code::NotPermitted);
    drop(agent);
    // The daemon hears of the end of the connection in its own time.
    until("the seat is free", || client.try_call(&take(token)).is_ok());
    desk.stop();

    let alone = start(&[]);
    let mut client = alone.client();
    let token = client.shared().welcome.store;
    assert_eq!(client.refused(&take(token)), Code::Unsupported);
    alone.stop();
}
