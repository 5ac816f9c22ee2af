//! The process of the pool daemon, `plasmon-poold`: started with a store that belongs to a pool,
//! started again when it ends, and ended with the daemon.
//!
//! ```text
//!   waiting --(the pause is over)--> starting ----> running --(it ended)--> waiting
//! ```
//!
//! A pool daemon outlives a daemon that is killed, and comes back to the next one. So that one
//! waits a while before it starts another.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plasmon_proto::fabric::Choice;
use plasmon_shm::edge;
use plasmon_shm::pidfd::ProcessFd;
use plasmon_shm::program;
use rustix::event::PollFlags;

use crate::log;
use crate::poll::{Poll, Source};
use crate::settings::{BadStart, Config, Pool};

const PROGRAM: &str = "plasmon-poold";

const NOT_FOUND: &str = "a store of a pool needs the program plasmon-poold, which is neither \
                         beside plasmond nor in PATH; install it, or set PLASMON_POOLD to its path";

/// The pause before it is started again: at first, and at most. It doubles from one to the next.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// One that ran for so long gets the shortest pause again.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// How long a daemon that took a store over waits for the pool daemon of the one before it.
const RETURN_WITHIN: Duration = Duration::from_secs(3);

/// How long it has to end by itself.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What the thread that starts it leaves for the core. The store may be over before the core has
/// seen that: then it is ended from here.
#[derive(Debug, Default)]
struct Start {
    child: Option<Child>,
    is_refused: bool,
}

fn lock(start: &Mutex<Start>) -> MutexGuard<'_, Start> {
    start.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool daemon of this store.
#[derive(Debug)]
pub(crate) struct PoolDaemon {
    arguments: Vec<OsString>,
    start: Arc<Mutex<Start>>,
    running: Option<(Child, ProcessFd)>,
    /// When the present one was started.
    started: Instant,
    /// When the next one is started, unless one is being started or runs.
    start_at: Option<Instant>,
    /// The next pause.
    pause: Duration,
}

impl PoolDaemon {
    /// The one of a store with this number; `None` if it belongs to no pool.
    pub(crate) fn of(config: &Config, store: u64, now: Instant) -> Option<Self> {
        let pool = config.pool.as_ref()?;
        let arguments = arguments(config, pool, store);
        let (start, running) = (Arc::default(), None);
        Some(Self {
            arguments,
            start,
            running,
            started: now,
            start_at: Some(now),
            pause: PAUSE_MIN,
        })
    }

    /// The one of the daemon before this one may come back.
    pub(crate) fn expect_back(&mut self, now: Instant) {
        self.start_at = Some(now + RETURN_WITHIN);
    }

    /// When the next one is to be started.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.start_at
    }

    /// Whether one is to be started now. It is being started from then on.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.start_at.is_some_and(|at| at <= now);
        if is_due {
            self.start_at = None;
        }
        is_due
    }

    /// What starts it; for another thread, because a program takes a while to start.
    pub(crate) fn starter(&self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let (arguments, start) = (self.arguments.clone(), Arc::clone(&self.start));
        move || {
            let mut start = lock(&start);
            if start.is_refused {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let (stdin, stdout) = (Stdio::null(), Stdio::null());
            let mut command = Command::new(program()?);
            command.args(arguments).stdin(stdin).stdout(stdout).stderr(log::of_child());
            start.child = Some(command.spawn()?);
            Ok(())
        }
    }

    /// It was started, or not.
    pub(crate) fn started(&mut self, started: io::Result<()>, poll: &Poll, now: Instant) {
        let child = lock(&self.start).child.take();
        let watched = started.and_then(|()| {
            let child = child.ok_or(io::ErrorKind::NotFound)?;
            let process = ProcessFd::open(child.id())?;
            poll.add(&process, Source::PoolDaemon)?;
            Ok((child, process))
        });
        self.started = now;
        match watched {
            Ok((child, process)) => {
                tracing::info!(pid = child.id(), "the pool daemon is started");
                self.running = Some((child, process));
            }
            Err(error) => {
                tracing::error!(%error, "the pool daemon cannot be started, so objects of the pool \
                                         are unreachable; it is tried again");
                self.wait_for_next(now);
            }
        }
    }

    /// The poll named it: it may have ended.
    pub(crate) fn ended(&mut self, poll: &Poll, now: Instant) {
        let Some((child, process)) = &mut self.running else { return };
        let Ok(Some(status)) = child.try_wait() else { return };
        tracing::warn!(pid = child.id(), %status, "the pool daemon has ended and is started again");
        poll.remove(process);
        self.running = None;
        if now.saturating_duration_since(self.started) >= STEADY_AFTER {
            self.pause = PAUSE_MIN;
        }
        self.wait_for_next(now);
    }

    fn wait_for_next(&mut self, now: Instant) {
        self.start_at = Some(now + self.pause);
        self.pause = (2 * self.pause).min(PAUSE_MAX);
    }

    /// Another process has the seat; whether it still has is looked at later.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.start_at = Some(now + RETURN_WITHIN);
    }

    /// The store is over: it ends, if need be by force.
    pub(crate) fn stop(&mut self) {
        let mut start = lock(&self.start);
        start.is_refused = true;
        let running = self.running.take().map(|(child, _)| child);
        let Some(mut child) = running.or_else(|| start.child.take()) else { return };
        // One that has ended already is not there to be told.
        let _ = edge::terminate_process(child.id());
        let process = ProcessFd::open(child.id());
        let has_ended =
            process.and_then(|it| edge::ready_within(&it, PollFlags::IN, Some(END_WITHIN)));
        if !has_ended.unwrap_or(false) {
            tracing::warn!(pid = child.id(), "the pool daemon does not end and is killed");
            let _ = child.kill();
        }
        if let Err(error) = child.wait() {
            tracing::warn!(%error, "the end of the pool daemon cannot be waited for");
        }
    }
}

/// The command line of the pool daemon of a store with this number.
fn arguments(config: &Config, pool: &Pool, store: u64) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut give = |flag: &str, value: OsString| arguments.extend([flag.into(), value]);
    give("--socket", config.socket.clone().into());
    give("--store", store.to_string().into());
    give("--cluster", pool.cluster.to_string().into());
    give("--node-name", pool.node_name.clone().into());
    let fabric = Some(&pool.fabric).filter(|fabric| **fabric != Choice::default());
    let chosen = [
        ("--pool-listen", pool.listen.map(|address| address.to_string().into())),
        ("--pool-token-file", pool.token_file.clone().map(OsString::from)),
        ("--pool-etcd-ca", pool.etcd.authority.clone().map(OsString::from)),
        ("--pool-etcd-cert", pool.etcd.certificate.clone().map(OsString::from)),
        ("--pool-etcd-key", pool.etcd.key.clone().map(OsString::from)),
        ("--pool-folder", pool.folder.clone().map(OsString::from)),
        ("--pool-zone", Some(pool.zone.clone().into()).filter(|zone: &OsString| !zone.is_empty())),
        ("--pool-weight", pool.weight.map(|weight| weight.to_string().into())),
        ("--pool-movers", pool.movers.map(|movers| movers.to_string().into())),
        ("--pool-suspect-ms", pool.suspect_ms.map(|ms| ms.to_string().into())),
        ("--pool-fabric", fabric.map(|fabric| fabric.to_string().into())),
    ];
    for (flag, value) in chosen {
        if let Some(value) = value {
            give(flag, value);
        }
    }
    if let Some(tls) = &pool.tls {
        give("--pool-tls-cert", tls.certificate.clone().into());
        give("--pool-tls-key", tls.key.clone().into());
        give("--pool-tls-ca", tls.authority.clone().into());
        if let Some(revoked) = &tls.revoked {
            give("--pool-tls-crl", revoked.clone().into());
        }
        if tls.encrypts_data {
            arguments.push("--pool-encrypt-data".into());
        }
    }
    arguments
}

/// Where the program is.
fn program() -> io::Result<PathBuf> {
    let found = program::find("PLASMON_POOLD", PROGRAM, &[]);
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, NOT_FOUND))
}

/// Whether the program is there; for a start, which is to fail when it is not.
pub(crate) fn check_program() -> Result<(), BadStart> {
    program().map(drop).map_err(|error| BadStart::Value { key: "cluster", what: error.to_string() })
}
