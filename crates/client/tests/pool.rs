//! Objects of a pool through the client, with a scripted pool daemon: it accepts every commit and
//! finds nothing elsewhere, as that of a pool of one node.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use plasmon_client::{Client, Code, ConnectOptions, Name, ObjectState, PutOptions, StartOptions};
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Push, Reply, Request};
use plasmon_proto::pool::{Birth, Call, Fate, Slot, Told};
use plasmon_shm::Connection;
use plasmon_testkit::{TEST_TIMEOUT, ends, kill, pattern, plasmond, process, until};
use rustix::process::Signal;

const NOW: Option<Duration> = Some(Duration::ZERO);

/// A store of a pool, which finds no pool daemon by itself.
fn start(folder: &Path) -> ConnectOptions {
    let socket = folder.join("store.sock");
    let wrapper = folder.join("plasmond");
    let program = plasmond();
    let script =
        format!("#!/bin/sh\nPLASMON_POOLD=/nonexistent/poold exec {} \"$@\"\n", program.display());
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o700)).unwrap();
    let settings = [
        ("socket", socket.display().to_string()),
        ("capacity_bytes", (64 << 20).to_string()),
        ("cluster", "etcd://127.0.0.1:1".to_owned()),
        ("node_name", "test".to_owned()),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let options = StartOptions { daemon: Some(wrapper), settings, timeout: TEST_TIMEOUT };
    plasmon_client::start(&options).unwrap();
    ConnectOptions { socket: Some(socket), name: "test".to_owned(), ..ConnectOptions::default() }
}

/// The pool daemon: answers until the store ends. What it was told comes out of the channel.
fn agent(socket: &Path) -> Receiver<Call> {
    agent_that(socket, true)
}

/// One that decides commits, or never does.
fn agent_that(socket: &Path, decides: bool) -> Receiver<Call> {
    let (told, calls) = channel();
    let connection = Connection::connect(socket).unwrap();
    let mut number = 0;
    let mut send = move |connection: &Connection, request: &Request| {
        number += 1;
        connection.send(&encode_request(number, request).unwrap(), &[])
    };
    let hello =
        Hello { version: PROTOCOL_VERSION, name: "poold".to_owned(), channel: false, resume: None };
    send(&connection, &Request::Hello(hello)).unwrap();
    let Some(FromDaemon::Reply(_, Reply::Welcome(welcome))) = receive(&connection) else {
        panic!("a welcome");
    };
    let boot = welcome.store;
    send(&connection, &Request::Agent { token: boot, slot: Slot(0) }).unwrap();
    assert_eq!(receive(&connection), Some(FromDaemon::Reply(2, Reply::Done)));
    send(&connection, &Request::Tell { told: vec![Told::Vouch { ms: 3_600_000 }] }).unwrap();
    std::thread::spawn(move || {
        let mut births = std::collections::BTreeMap::new();
        while let Some(message) = receive(&connection) {
            let FromDaemon::Push(Push::Calls(calls)) = message else { continue };
            let mut answers = Vec::new();
            for call in calls {
                match call {
                    Call::Commit { id, serial, .. } if decides => {
                        births.insert(id, Birth { slot: Slot(0), boot, serial });
                        answers.push(Told::Committed { id, serial, result: Ok(()) });
                    }
                    Call::Seek { id, number, .. } => {
                        answers.push(Told::Sought { id, number, fate: Fate::Absent });
                    }
                    Call::Delete { id, number } => {
                        let birth = births.remove(&id);
                        answers.extend(birth.map(|birth| Told::Drop { id, birth }));
                        answers.push(Told::Deleted { id, number });
                    }
                    Call::Verify { id, number } => {
                        answers.push(Told::Verified { id, number, known: true });
                    }
                    _ => {}
                }
                let _ = told.send(call);
            }
            if send(&connection, &Request::Tell { told: answers }).is_err() {
                return;
            }
        }
    });
    calls
}

fn receive(connection: &Connection) -> Option<FromDaemon> {
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, true).ok().filter(|it| it.bytes > 0)?;
    Some(decode_from_daemon(&bytes[..received.bytes]).unwrap())
}

#[test]
fn a_name_of_the_pool_is_put_got_waited_for_and_deleted_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let options = start(folder.path());
    let calls = agent(options.socket.as_ref().unwrap());
    let (one, other) = (Client::connect(&options).unwrap(), Client::connect(&options).unwrap());
    let named = |text: &str| {
        let name = Some(Name::new("", text).unwrap());
        PutOptions { name, copies: 3, ..PutOptions::default() }
    };
    for (text, bytes) in [("@prod:small", 5), ("@prod:large", 20 << 20)] {
        let data = pattern(bytes as u64, bytes);
        let id = one.put(&data, &named(text)).unwrap();
        let commit = calls.iter().find(|call| matches!(call, Call::Commit { .. }));
        let Some(Call::Commit { id: told, copies, copies_min, .. }) = commit else { panic!() };
        assert_eq!((told, copies, copies_min), (id, 3, 2));
        assert!(other.get(&id, NOW).unwrap().data() == data);
        assert_eq!(one.put(&data, &named(text)).unwrap_err().code(), Code::Exists);
        assert_eq!(other.delete(&[id]).unwrap(), [None]);
        assert_eq!(one.states(&[id]).unwrap(), [ObjectState::Absent]);
        assert_eq!(one.get(&id, NOW).unwrap_err().code(), Code::Absent);
    }
    let mut writer = one.create(5, &named("@:written")).unwrap();
    writer.copy_from_slice(b"bytes");
    let id = named("@:written").name.unwrap().id();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.get(&id, Some(TEST_TIMEOUT)).unwrap());
        writer.seal().unwrap();
        assert_eq!(waiting.join().unwrap().data(), b"bytes");
    });
    one.shutdown().unwrap();
}

#[test]
fn a_put_that_the_pool_may_have_accepted_is_not_put_again_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    for (text, bytes) in [("@prod:small", 5), ("@prod:large", 20 << 20)] {
        let options = start(folder.path());
        let calls = agent_that(options.socket.as_ref().unwrap(), false);
        let client = Client::connect(&options).unwrap();
        let status = client.status().unwrap();
        let name = Some(Name::new("", text).unwrap());
        let put = PutOptions { name, ..PutOptions::default() };
        let error = std::thread::scope(|scope| {
            let putting = scope.spawn(|| client.put(&pattern(7, bytes), &put).unwrap_err());
            calls.iter().find(|call| matches!(call, Call::Commit { .. })).unwrap();
            // Daemon and keeper start each other again, so neither runs while the other ends.
            let pids = [status.pid, status.keeper_pid];
            let processes = pids.map(process);
            pids.iter().for_each(|pid| kill(*pid, Signal::STOP));
            pids.iter().for_each(|pid| kill(*pid, Signal::KILL));
            until("the store has ended", || processes.iter().all(ends));
            start(folder.path());
            putting.join().unwrap()
        });
        assert_eq!(error.code(), Code::Disconnected, "{error}");
        assert!(error.to_string().contains("whether the pool has accepted"), "{error}");
        // The next store takes the same socket, which this one serves until it has ended.
        let daemon = process(client.status().unwrap().pid);
        client.shutdown().unwrap();
        assert!(ends(&daemon));
    }
}
