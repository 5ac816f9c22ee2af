//! A real daemon for each test, in a directory of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plasmon_client::{Client, ConnectOptions, StartOptions, Status};

use crate::{Signal, TEST_TIMEOUT, kill, memory_is_within_bounds, plasmond, until};

/// A store that ends with the test.
#[derive(Debug)]
pub struct TestStore {
    directory: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl TestStore {
    /// With a capacity in bytes.
    pub fn new(capacity_bytes: u64) -> Self {
        Self::with(capacity_bytes, &[])
    }

    /// With more settings.
    pub fn with(capacity_bytes: u64, settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("plasmon-test-").tempdir().unwrap();
        let mut all = vec![
            ("socket".to_owned(), socket_in(&directory).display().to_string()),
            ("capacity_bytes".to_owned(), capacity_bytes.to_string()),
        ];
        all.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let store = Self { directory, settings: all };
        store.start();
        store
    }

    fn start(&self) {
        let started = plasmon_client::start(&self.start_options()).unwrap();
        assert_eq!(started.socket, self.socket());
    }

    fn start_options(&self) -> StartOptions {
        StartOptions {
            daemon: Some(plasmond()),
            settings: self.settings.clone(),
            timeout: TEST_TIMEOUT,
        }
    }

    /// Ends this store and begins another one in its place.
    pub fn start_anew(&self) {
        let before = self.connect().status().unwrap().pid;
        self.connect().shutdown().unwrap();
        until("another store is there", || {
            plasmon_client::start(&self.start_options()).is_ok()
                && Client::connect(&self.options())
                    .and_then(|store| store.status())
                    .is_ok_and(|status| status.pid != before)
        });
    }

    /// Starts a daemon where the one before was killed with its keeper; whether it serves.
    pub fn start_again(&self) -> bool {
        plasmon_client::start(&self.start_options()).is_ok()
    }

    /// A directory for this test alone.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where its clients connect.
    pub fn socket(&self) -> PathBuf {
        socket_in(&self.directory)
    }

    /// How a client of a test connects.
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            socket: Some(self.socket()),
            name: "test".to_owned(),
            connect_timeout: TEST_TIMEOUT,
            reconnect_timeout: TEST_TIMEOUT,
            ..ConnectOptions::default()
        }
    }

    /// A new client.
    pub fn connect(&self) -> Client {
        Client::connect(&self.options()).unwrap()
    }

    /// A client without ring and ledger.
    pub fn connect_by_socket(&self) -> Client {
        Client::connect(&ConnectOptions { channel: false, ..self.options() }).unwrap()
    }

    /// Kills the daemon as the machine would when it is out of memory. Its keeper starts another.
    pub fn kill_daemon(&self, status: &Status) {
        kill(status.pid, Signal::KILL);
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        let options = ConnectOptions { channel: false, ..self.options() };
        let Ok(store) =
            Client::connect(&ConnectOptions { connect_timeout: Duration::from_secs(5), ..options })
        else {
            return;
        };
        if !std::thread::panicking()
            && let Ok(status) = store.status()
        {
            memory_is_within_bounds(&[status.pid], status.capacity_bytes);
        }
        // A test that stopped its store itself has nothing left to stop.
        let _ = store.shutdown();
        if std::thread::panicking()
            && let Ok(log) = std::fs::read_to_string(self.socket().with_extension("log"))
        {
            eprintln!("--- the daemon's log\n{log}---");
        }
    }
}

fn socket_in(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("store.sock")
}
