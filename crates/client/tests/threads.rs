//! One connection, many threads; many connections, one store; a store that starts by itself.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use plasmon_client::{Client, Code, ConnectOptions, ObjectId, PutOptions, StartOptions};
use plasmon_testkit::{TEST_TIMEOUT, TestStore, id, pattern, plasmond, until};

const MIB: u64 = 1 << 20;
const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
fn threads_share_one_connection() {
    const THREADS: u64 = 8;
    let node = TestStore::new(512 * MIB);
    let store = node.connect();
    let ids: Vec<ObjectId> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    for n in 0..300 {
                        let seed = thread * 1000 + n;
                        // All three ways of writing, and what each makes of the shared lease.
                        let bytes = [100, 3000, 20_000, 600_000, 9 << 20][n as usize % 5];
                        let bytes = if n % 100 == 4 { bytes } else { bytes.min(20_000) };
                        let data = pattern(seed, bytes);
                        let id = store.put(&data, &PutOptions::default()).unwrap();
                        assert!(store.get(&id, None).unwrap().data() == data);
                        let mut writer = store.create(500, &PutOptions::default()).unwrap();
                        writer.copy_from_slice(&pattern(seed, 500));
                        if n % 2 == 0 {
                            ids.push(writer.seal().unwrap());
                        }
                        ids.push(id);
                    }
                    ids
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id was made twice");
    store.flush().unwrap();
    assert!(store.get_many(&ids, NOW).unwrap().iter().all(Result::is_ok));
    assert_eq!(store.status().unwrap().objects, ids.len() as u64);
}

/// At level leased a thread that maps memory closes it to new writers. Another thread that mapped
/// the same memory a moment later was refused by the kernel.
#[test]
fn threads_begin_to_write_at_once() {
    const THREADS: u64 = 4;
    let node = TestStore::with(16 * MIB, &[("level", "leased")]);
    let store = node.connect();
    for round in 0..150 {
        let at_once = Barrier::new(THREADS as usize);
        let ids: Vec<ObjectId> = thread::scope(|scope| {
            let put = |thread| {
                let (store, at_once) = (&store, &at_once);
                move || {
                    at_once.wait();
                    let data = pattern(round * THREADS + thread, 200 << 10);
                    store.put(&data, &PutOptions::default()).unwrap()
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(put(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // What comes next lies in memory that was never mapped.
        store.delete(&ids).unwrap();
    }
}

#[test]
fn readers_and_writers_of_one_churning_set() {
    let node = TestStore::new(64 * MIB);
    let writers: Vec<Client> = (0..2).map(|_| node.connect()).collect();
    let readers: Vec<Client> = (0..2).map(|_| node.connect()).collect();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (which, store) in writers.iter().enumerate() {
            threads.push(scope.spawn(move || {
                for round in 0..2000u64 {
                    let number = id(round % 10 + 100 * which as u64);
                    // Its first bytes say what all of it must be.
                    let data = [vec![round as u8; 8], vec![round as u8; 2000]].concat();
                    let _ = store.delete(&[number]).unwrap();
                    let options = PutOptions { id: Some(number), ..PutOptions::default() };
                    store.put(&data, &options).unwrap();
                }
            }));
        }
        for store in &readers {
            threads.push(scope.spawn(move || {
                let mut seen = 0;
                while seen < 20_000 {
                    let number = id(seen % 10 + 100 * (seen % 2));
                    if let Some(pinned) = store.get_now(&number) {
                        let first = pinned[0];
                        assert!(pinned.iter().all(|byte| *byte == first), "a torn object");
                    }
                    seen += 1;
                }
            }));
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn embedded(socket: PathBuf) -> (ConnectOptions, StartOptions) {
    let connect = ConnectOptions { socket: Some(socket), ..ConnectOptions::default() };
    let settings = [("capacity_bytes", "16m"), ("linger_ms", "50")];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    (connect, StartOptions { daemon: Some(plasmond()), settings, timeout: TEST_TIMEOUT })
}

#[test]
fn many_starters_share_one_store_which_ends_with_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("deep").join("store.sock");
    let (connect, start) = embedded(socket.clone());
    let stores: Vec<Client> = thread::scope(|scope| {
        let starters: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| Client::connect_or_start(&connect, &start).unwrap()))
            .collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect()
    });
    let pids: HashSet<u32> = stores.iter().map(|store| store.status().unwrap().pid).collect();
    assert_eq!(pids.len(), 1, "two daemons serve one socket");
    let object = stores[0].put(b"seen by all", &PutOptions::default()).unwrap();
    assert!(stores.iter().all(|store| &*store.get(&object, None).unwrap() == b"seen by all"));
    let held = stores[5].get(&object, NOW).unwrap();
    drop(stores);
    // A buffer keeps the store.
    assert!(Client::connect(&connect).is_ok());
    assert_eq!(&*held, b"seen by all");
    drop(held);
    // Looking by connecting would keep it alive: each look would be its last client.
    until("the store ended", || !socket.exists());
    let error = Client::connect(&connect).unwrap_err();
    assert_eq!(error.code(), Code::Disconnected, "{error}");
}

#[test]
fn starting_twice_is_refused_and_a_daemon_that_cannot_start_says_why() {
    let node = TestStore::new(16 * MIB);
    let start = |settings: &[(&str, String)]| {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let daemon = Some(plasmond());
        plasmon_client::start(&StartOptions { daemon, settings, timeout: TEST_TIMEOUT })
    };
    let socket = node.socket().display().to_string();
    let error = start(&[("socket", socket)]).unwrap_err();
    assert_eq!(error.code(), Code::AlreadyRunning, "{error}");
    let other = node.directory().join("other.sock").display().to_string();
    let error = start(&[("socket", other), ("level", "loose".to_owned())]).unwrap_err();
    assert_eq!(error.code(), Code::BadRequest, "{error}");
    assert!(error.to_string().contains("loose"), "{error}");
    let missing = StartOptions {
        daemon: Some(node.directory().join("no-such-program")),
        settings: vec![("socket".to_owned(), node.directory().join("x").display().to_string())],
        timeout: TEST_TIMEOUT,
    };
    assert!(plasmon_client::start(&missing).unwrap_err().to_string().contains("no-such-program"));
}

/// The default socket depends on the environment, which only a child can change safely.
#[test]
fn child() {
    let Ok(expected) = std::env::var("PLASMON_TEST_DEFAULT_SOCKET") else { return };
    match plasmon_client::default_socket() {
        Ok(socket) => assert_eq!(socket.display().to_string(), expected),
        Err(error) => assert_eq!(error.code().key(), expected),
    }
}

#[test]
fn the_default_socket_follows_the_environment() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().display().to_string();
    let uid = rustix::process::geteuid().as_raw();
    let expect = |expected: &str, variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child"]).env("PLASMON_TEST_DEFAULT_SOCKET", expected);
        child.env_remove("PLASMON_SOCKET").env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &base);
        child.envs(variables.iter().copied());
        assert!(child.output().unwrap().status.success(), "{expected} with {variables:?}");
    };
    expect("/a/b", &[("PLASMON_SOCKET", "/a/b"), ("XDG_RUNTIME_DIR", "/run/x")]);
    expect("/run/x/plasmon/store.sock", &[("XDG_RUNTIME_DIR", "/run/x")]);
    let own = format!("{base}/plasmon-{uid}");
    expect(&format!("{own}/store.sock"), &[("PLASMON_SOCKET", "")]);
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o700)).unwrap();
    expect(&format!("{own}/store.sock"), &[]);
    // Another user could put a socket there.
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
    expect("not_permitted", &[]);
}

/// The client refused every folder that others could look into, and the daemon only those that they
/// could write to: a store that admitted other users was started and not found.
#[test]
fn a_default_folder_that_the_daemon_takes_is_right_for_the_client() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let folder = directory.path().join(format!("plasmon-{uid}"));
    let socket = folder.join("store.sock");
    std::fs::create_dir(&folder).unwrap();
    let within = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.env("TMPDIR", directory.path()).stdin(Stdio::null());
        command.env_remove("PLASMON_SOCKET").env_remove("XDG_RUNTIME_DIR");
        command
    };
    for (mode, is_safe) in [(0o700, true), (0o755, true), (0o720, false)] {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut daemon = within(&plasmond());
        daemon.args(["--daemonize", "--capacity-bytes", "16777216"]);
        daemon.stdout(Stdio::null()).stderr(Stdio::null());
        let took = daemon.status().unwrap().success();
        let mut child = within(&std::env::current_exe().unwrap());
        child.args(["--exact", "child"]);
        let expected = if is_safe { socket.display().to_string() } else { "not_permitted".into() };
        child.env("PLASMON_TEST_DEFAULT_SOCKET", expected);
        let output = child.output().unwrap();
        if took {
            let socket_option = Some(socket.clone());
            let options = ConnectOptions { socket: socket_option, ..ConnectOptions::default() };
            let client = Client::connect(&options).unwrap();
            let daemon = PathBuf::from(format!("/proc/{}", client.status().unwrap().pid));
            client.shutdown().unwrap();
            // Its lock is held until it is gone, and keeps the next one from starting.
            until("the daemon has ended", || !socket.exists() && !daemon.exists());
        }
        assert_eq!(took, is_safe, "the daemon with mode {mode:o}");
        assert!(output.status.success(), "the client with mode {mode:o}: {output:?}");
    }
}
