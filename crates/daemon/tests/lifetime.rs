//! How a daemon starts and ends, and what it leaves behind: nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use desk::*;
use plasmon_proto::message::*;
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Code, ObjectState};
use rustix::process::{Resource, Rlimit, Signal};

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let desk = start(&[]);
    let mut client = desk.client();
    client.put(id(1), b"first");
    let mut second = desk.command(&[]).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(wait(&mut second).code(), Some(3));
    let mut text = String::new();
    second.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("already") && text.contains("store.sock"), "{text}");
    assert_eq!(client.read(&id(1)).unwrap(), b"first");
    desk.client();
    desk.stop();
}

#[test]
fn every_polite_signal_and_shutdown_end_it_with_code_0_and_nothing_left() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        for keeper in ["--keeper=true", "--keeper=false"] {
            let mut desk = start(&[keeper]);
            let status = desk.status();
            assert_eq!(status.keeper_pid > 0, keeper.ends_with("true"));
            let held = (status.keeper_pid > 0).then(|| process(status.keeper_pid));
            kill(status.pid, signal);
            assert_eq!(wait(desk.daemon.as_mut().unwrap()).code(), Some(0), "{signal:?}");
            assert!(held.is_none_or(|keeper| ends(&keeper)));
            assert_eq!(left_behind(&desk), ["store.sock.lock"]);
        }
    }
    let mut desk = start(&[]);
    let mut client = desk.client();
    assert_eq!(client.call(&Request::Shutdown), Reply::Done);
    assert!(client.is_closed());
    assert_eq!(wait(desk.daemon.as_mut().unwrap()).code(), Some(0));
    assert_eq!(left_behind(&desk), ["store.sock.lock"]);
}

fn left_behind(desk: &Desk) -> Vec<String> {
    let files = std::fs::read_dir(desk.folder.path()).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_socket_of_a_dead_daemon_is_taken_over() {
    let mut desk = start(&["--keeper=false"]);
    let mut daemon = desk.daemon.take().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(desk.socket().exists());
    desk.launch(&[]);
    assert_eq!(desk.status().epoch, 1, "a new store");
    desk.stop();
}

#[test]
fn something_else_at_the_path_of_the_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sock");
    std::fs::write(&path, "mine").unwrap();
    let mut daemon =
        Command::new(PLASMOND).arg("--socket").arg(&path).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut daemon).code(), Some(1));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn the_socket_has_the_mode_that_was_asked_for() {
    for (flags, mode) in [(&[][..], 0o600), (&["--socket-mode", "0660"][..], 0o660)] {
        let desk = start(flags);
        let found = std::fs::metadata(desk.socket()).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
        desk.stop();
    }
}

#[test]
fn wrong_settings_end_with_code_2_and_name_what_is_wrong() {
    for (flags, named) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--capacity-bytes", "many"], "capacity_bytes"),
        (&["--level", "none"], "level"),
        (&["--config", "/nonexistent/plasmon.toml"], "/nonexistent/plasmon.toml"),
    ] {
        let output = Command::new(PLASMOND).args(flags).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(named), "{flags:?}: {text}");
        assert!(output.stdout.is_empty());
    }
    let version = Command::new(PLASMOND).arg("--version").output().unwrap();
    assert_eq!(version.status.code(), Some(0));
    assert!(String::from_utf8(version.stdout).unwrap().contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_daemon_in_the_background_returns_when_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk { folder, daemon: None };
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("log");
    let output = desk
        .command(&["--daemonize", "--log", "info", "--log-file", log.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let status = desk.status();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", status.pid)).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!(fields[3], status.pid.to_string(), "it leads a session of its own");
    for fd in 0..3 {
        let target = std::fs::read_link(format!("/proc/{}/fd/{fd}", status.pid)).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    // One that cannot start says so and passes its code on.
    let second = desk.command(&["--daemonize"]).output().unwrap();
    assert_eq!(second.status.code(), Some(3));
    assert!(String::from_utf8(second.stderr).unwrap().contains("already"));
    desk.stop();
    assert!(std::fs::read_to_string(log).unwrap().contains("stopping after a signal"));
}

#[test]
fn it_ends_with_its_last_client_and_not_before() {
    let mut desk = start(&["--end-with-last-client", "--linger-ms", "1"]);
    // The first client to connect keeps it alive; without one it ends all the same.
    let Ok(connection) = plasmon_shm::Connection::connect(&desk.socket()) else {
        assert_eq!(wait(desk.daemon.as_mut().unwrap()).code(), Some(0));
        return;
    };
    let mut first = Client::new(connection);
    if first.try_hello(true, None).is_err() {
        assert_eq!(wait(desk.daemon.as_mut().unwrap()).code(), Some(0));
        return;
    }
    let mut second = desk.client();
    drop(first);
    second.put(id(1), b"still here");
    let daemon = process(desk.daemon.as_ref().unwrap().id());
    assert!(!readable(&daemon, std::time::Duration::ZERO));
    drop(second);
    assert_eq!(wait(desk.daemon.as_mut().unwrap()).code(), Some(0));
    assert!(!desk.socket().exists());
}

#[test]
fn out_of_descriptors_is_reported_and_passes() {
    let desk = start(&["--log", "error"]);
    let mut client = desk.client();
    client.put(id(1), b"before");
    let pid = client.status().pid;
    let used = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let limit = |count: u64| {
        let limit = Rlimit { current: Some(count), maximum: Some(20_000.min(count.max(4096))) };
        let pid = rustix::process::Pid::from_raw(pid as i32);
        rustix::process::prlimit(pid, Resource::Nofile, limit).unwrap();
    };
    limit(used + 8);
    // Connect until there is no room: each connection is accepted or told why not.
    let mut crowd = Vec::new();
    let told = loop {
        let mut next = desk.connect();
        match next.try_hello(true, None) {
            Ok(()) => crowd.push(next),
            Err(CallError::Failed(failure)) => break failure.code,
            Err(CallError::Closed) => panic!("closed silently"),
        }
        assert!(crowd.len() < 16);
    };
    assert_eq!(told, Code::OutOfDescriptors);
    // Connections without a hello, up to the last descriptor and beyond.
    let mut silent: Vec<Client> = (0..16).map(|_| desk.connect()).collect();
    let last = silent.last_mut().unwrap();
    assert!(
        matches!(last.answer(0), Err(CallError::Failed(f)) if f.code == Code::OutOfDescriptors)
    );
    // A new extent cannot be had, either; that is the store's to say, and nothing is lost by it.
    let sizes = Sizes { data: 20 << 20, ..Sizes::default() };
    let wanted = Request::Create { id: id(2), sizes, traits: Traits::default(), strict: false };
    assert_eq!(client.refused(&wanted), Code::StoreFull);
    assert_eq!(client.states(&[id(1), id(2)]), [ObjectState::Sealed, ObjectState::Absent]);
    drop(silent);
    drop(crowd);
    limit(4096);
    while client.status().clients > 1 {}
    let (range, _) = client.create(id(2), 20 << 20, false);
    assert_eq!(range.bytes, 20 << 20);
    desk.client();
    drop(client);
    desk.stop();
}

#[test]
fn it_is_small_and_quick() {
    let desk = start(&[]);
    let status = desk.status();
    let resident = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    // The targets are for release builds; a debug build stays within them, too, so hold it there.
    assert!(resident(status.pid) < 16 << 20, "{}", resident(status.pid));
    assert!(resident(status.keeper_pid) < 8 << 20, "{}", resident(status.keeper_pid));
    desk.stop();
}

#[test]
fn a_thousand_subscribers_that_end_at_once_need_no_deep_stack() {
    // Each subscriber that was found gone was disconnected within the sending to the one before it,
    // and a daemon with a small stack died of that.
    const SUBSCRIBERS: usize = 900;
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk { folder, daemon: None };
    let plain = desk.command(&["--keeper=false", "--log", "error"]);
    let mut small = Command::new("sh");
    small.args(["-c", "ulimit -n 2000; ulimit -s 256; exec \"$@\"", "sh"]);
    small.arg(plain.get_program()).args(plain.get_args());
    desk.launch_command(small);
    let mut client = desk.client();
    let (range, fd) = client.lease(4096);
    let pid = client.status().pid;
    let subscribers: Vec<Client> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut subscriber = desk.connect();
            subscriber.hello(false, None);
            let filter = Filter::default();
            assert_eq!(subscriber.call(&Request::Subscribe { filter }), Reply::Done);
            subscriber
        })
        .collect();
    // Stopped, the daemon cannot see that they are gone before it has something to tell them.
    kill(pid, Signal::STOP);
    drop(subscribers);
    let position = client.put_in(id(1), &range, &fd, b"tell all");
    kill(pid, Signal::CONT);
    assert_eq!(client.outcome(position), None);
    while client.status().clients > 1 {}
    drop(client);
    desk.stop();
}

#[test]
fn a_log_without_a_reader_stops_no_client() {
    // Standard error was a pipe without a reader: after some 500 refused clients the daemon waited
    // in its write forever.
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk { folder, daemon: None };
    let mut command = desk.command(&["--log", "trace"]);
    command.stderr(Stdio::piped());
    desk.launch_command(command);
    for _ in 0..1500 {
        let mut client = desk.connect();
        assert_eq!(client.refused(&Request::Status), Code::BadRequest);
    }
    assert_eq!(desk.status().expelled_total, 1500);
    let log = desk.daemon.as_mut().unwrap().stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::BufReader::new(log).read_to_string(&mut text).unwrap();
        text
    });
    desk.stop();
    let text = reader.join().unwrap();
    let lines = text.matches("a client is expelled").count();
    assert!((1..1500).contains(&lines), "no client fills a disk: {lines} lines");
}

/// Waits until the daemon is to be found under its name again.
fn wait_for_name(desk: &Desk) {
    until("the daemon listens again", || plasmon_shm::Connection::connect(&desk.socket()).is_ok());
}

#[test]
fn a_daemon_whose_socket_was_removed_listens_again() {
    // What tidies temporary folders removed the socket, or a logout the whole folder. The daemon
    // went on with all its memory, and no client found it any more.
    let desk = start(&[]);
    let mut client = desk.client();
    client.put(id(1), b"still there");
    std::fs::remove_file(desk.socket()).unwrap();
    wait_for_name(&desk);
    assert_eq!(desk.client().read(&id(1)).unwrap(), b"still there");
    let mut second = desk.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut second).code(), Some(3), "it has its lock");

    std::fs::remove_dir_all(desk.folder.path()).unwrap();
    wait_for_name(&desk);
    assert_eq!(desk.client().read(&id(1)).unwrap(), b"still there");
    let mut second = desk.command(&[]).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut second).code(), Some(3), "it has a lock again");
    assert_eq!(client.read(&id(1)).unwrap(), b"still there", "a client from before");

    // The keeper has the new socket.
    let status = client.status();
    let daemon = process(status.pid);
    kill(status.pid, Signal::KILL);
    assert!(ends(&daemon));
    let mut after = desk.client();
    assert_eq!(after.status().epoch, status.epoch + 1);
    assert_eq!(after.read(&id(1)).unwrap(), b"still there");
    drop((client, after));
    desk.stop();
}

#[test]
fn a_daemon_whose_place_was_taken_ends_with_its_last_client() {
    let mut desk = start(&["--linger-ms", "10"]);
    let mut client = desk.client();
    client.put(id(1), b"of the first");
    let mut first = desk.daemon.take().unwrap();
    let keeper = process(client.status().keeper_pid);
    std::fs::remove_dir_all(desk.folder.path()).unwrap();
    std::fs::create_dir(desk.folder.path()).unwrap();
    desk.launch(&[]);
    let mut other = desk.client();
    assert_eq!(other.states(&[id(1)]), [ObjectState::Absent], "another store");
    assert_eq!(client.read(&id(1)).unwrap(), b"of the first");
    drop(client);
    assert_eq!(wait(&mut first).code(), Some(0));
    assert!(ends(&keeper));
    assert_eq!(other.status().clients, 1, "it left the other's socket alone");
    drop(other);
    desk.client();
    desk.stop();
}
