//! The keeper's own process: it attends to one daemon after the other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::shortage::{is_failure_of_machine, is_shortage};
use plasmon_shm::socket::Connection;
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::child::Child;
use crate::restart_policy::{Death, Decision, RestartPolicy};
use crate::watchdog::{Progress, Verdict, Watchdog};
use crate::wire::{self, FromKeeper, Label, ToKeeper, WIRE_VERSION};
use crate::{EXIT_SHORTAGE, last_words};

/// How long a daemon that closed its end may take to be gone. One that lives on has dismissed us.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The argument that makes this program a daemon which takes over.
const ADOPTING_ARGUMENT: &str = "--role=adopting";

/// The exit code of a program that could not be loaded.
const EXIT_NOT_LOADED: i32 = 127;

/// How often something is tried again while the system is out of memory or descriptors.
const SEND_TRIES: u32 = 500;

/// The wait between two tries.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The keeper's whole life. `flags` are the settings of the daemons that it starts.
pub fn run(flags: &[OsString]) -> ExitCode {
    // Without its name a keeper is only harder to recognise.
    let _ = rustix::thread::set_name(c"plasmon-keeper");
    match own_link() {
        Ok(link) => keep(flags, Connection::adopt(link)),
        Err(_) => ExitCode::FAILURE,
    }
}

/// The socket to the daemon that started this keeper. The store ends with a keeper that has none,
/// so a machine that is out of descriptors is waited for.
fn own_link() -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match io::stdin().as_fd().try_clone_to_owned() {
            Err(_) if tries < SEND_TRIES => tries += 1,
            outcome => return outcome,
        }
        edge::sleep(AGAIN_AFTER);
    }
}

/// Keeps what the daemon at the other end of `link` hands over.
pub fn keep(flags: &[OsString], link: Connection) -> ExitCode {
    Keeper::new(flags).keep(link)
}

struct Keeper<'a> {
    flags: &'a [OsString],
    held: BTreeMap<Label, Vec<OwnedFd>>,
    restart_policy: RestartPolicy,
    serving_since: Option<Instant>,
    /// Whether any daemon of the store has accepted connections.
    has_served: bool,
    daemon: Option<OwnedFd>,
    daemon_pid: u32,
    child: Option<Child>,
    /// Whether the daemon that serves still answers.
    watchdog: Option<Watchdog>,
    /// Extents that this daemon had closed.
    closed: u64,
    /// Whether the daemon does not know that number yet.
    owes_closed: bool,
    was_hung: bool,
}

/// How a daemon ended, for its keeper.
enum DaemonExit {
    /// It told the keeper to stop, or goes on without this keeper.
    Dismissed,
    /// It died; its exit code, if it ended by itself.
    Died(Option<i32>),
}

impl<'a> Keeper<'a> {
    fn new(flags: &'a [OsString]) -> Self {
        Self {
            flags,
            held: BTreeMap::new(),
            restart_policy: RestartPolicy::default(),
            serving_since: None,
            has_served: false,
            daemon: None,
            daemon_pid: 0,
            child: None,
            watchdog: None,
            closed: 0,
            owes_closed: false,
            was_hung: false,
        }
    }

    fn keep(mut self, mut link: Connection) -> ExitCode {
        loop {
            let DaemonExit::Died(code) = self.attend(&link) else { return ExitCode::SUCCESS };
            if !self.is_worth_keeping() {
                return ExitCode::FAILURE;
            }
            let life = self.serving_since.take().map(edge::since);
            let mut death = life.map_or_else(|| failed_start(code), Death::Serving);
            loop {
                match self.restart_policy.after(death) {
                    Decision::GiveUp => {
                        last_words::say(self.flags, death);
                        return ExitCode::FAILURE;
                    }
                    Decision::Restart(wait) => edge::sleep(wait),
                }
                match self.start_daemon() {
                    Ok(next) => {
                        link = next;
                        break;
                    }
                    Err(failed) => death = failed,
                }
            }
        }
    }

    /// Whether there can be a client or an object, and everything of the store is here. A store
    /// whose first daemon failed to start is reported as one that does not exist, and must not come
    /// into being after that. Of one that was handed over by halves, pins are missing or objects
    /// are: it ends with its daemon, as it does without a keeper.
    fn is_worth_keeping(&self) -> bool {
        let is_told_all = self.held.keys().any(|label| matches!(label, Label::Index { .. }));
        let has_extents = || self.held.keys().any(|label| matches!(label, Label::Extent(_)));
        is_told_all && (self.has_served || has_extents())
    }

    /// Listens to one daemon until it parts.
    fn attend(&mut self, link: &Connection) -> DaemonExit {
        self.watchdog = None;
        (self.closed, self.owes_closed) = (0, false);
        loop {
            if self.owes_closed {
                // A daemon that does not read is told with the next message.
                let sent = wire::try_send(link, &FromKeeper::Closed { extents: self.closed }, &[]);
                self.owes_closed = sent.is_err();
            }
            if !self.listen(link) {
                continue;
            }
            match wire::receive::<ToKeeper>(link) {
                Ok(Some((message, fds))) => match message {
                    // It goes on with its own keeper.
                    ToKeeper::Watch { version, .. } if version != WIRE_VERSION => {
                        return DaemonExit::Dismissed;
                    }
                    ToKeeper::Watch { pid, .. } => {
                        (self.daemon, self.daemon_pid) = (watch(pid), pid);
                    }
                    ToKeeper::Hold(label) => drop(self.held.insert(label, fds)),
                    ToKeeper::Forget(label) => self.forget(&label),
                    ToKeeper::Serving { hang_timeout_ms } => {
                        self.serving_since = Some(edge::now());
                        self.has_served = true;
                        self.was_hung = false;
                        let may_hang = Duration::from_millis(hang_timeout_ms);
                        self.watchdog = (hang_timeout_ms > 0).then(|| Watchdog::new(may_hang));
                    }
                    ToKeeper::Alive => {}
                    ToKeeper::Stop => return DaemonExit::Dismissed,
                },
                Ok(None) => return self.exit_after_close(),
                // The message is still there. To end over this would end a store whose daemon has
                // just died.
                Err(error) if is_unread(&error) => edge::sleep(AGAIN_AFTER),
                // A message that cannot be read means that something would be missing later. The
                // daemon notices that this keeper is gone and gives everything to a new one.
                Err(_) => return DaemonExit::Dismissed,
            }
        }
    }

    /// Closes what is under a label. Memory is free when the last descriptor of it is closed, which
    /// the daemon counts on.
    fn forget(&mut self, label: &Label) {
        drop(self.held.remove(label));
        if matches!(label, Label::Extent(_)) {
            self.closed += 1;
            self.owes_closed = true;
        }
    }

    /// Waits until the daemon says something or is gone; false when only a tick is over.
    fn listen(&mut self, link: &Connection) -> bool {
        let tick = self.watchdog.as_ref().map(Watchdog::tick);
        let since = edge::now();
        if matches!(edge::ready_within(link, PollFlags::IN, tick), Ok(true)) {
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.note_message();
            }
            return true;
        }
        let progress = progress_of(self.daemon_pid);
        let Some(watchdog) = &mut self.watchdog else { return false };
        match watchdog.ticked(edge::since(since), progress) {
            Verdict::Wait => {}
            Verdict::Ask => {
                // A socket that takes nothing more belongs to a daemon that does not read.
                let _ = wire::try_send(link, &FromKeeper::Ask, &[]);
            }
            Verdict::Hung => {
                self.watchdog = None;
                self.was_hung = true;
                if self.daemon.as_ref().is_some_and(|daemon| !ended_within(daemon, Duration::ZERO))
                {
                    // It fails only for a process that is gone already.
                    let _ = edge::kill_process(self.daemon_pid);
                }
            }
        }
        false
    }

    /// The daemon closed its end: it died, or it lives on without us.
    fn exit_after_close(&mut self) -> DaemonExit {
        if let Some(child) = &mut self.child {
            // Only a child can be a zombie that no other process collects.
            if self.daemon.as_ref().is_none_or(|daemon| ended_within(daemon, GONE_WITHIN)) {
                return DaemonExit::Died(child.wait());
            }
            return DaemonExit::Dismissed;
        }
        match &self.daemon {
            Some(daemon) if ended_within(daemon, GONE_WITHIN) => DaemonExit::Died(None),
            Some(_) => DaemonExit::Dismissed,
            // It died before it could say which process it was.
            None => DaemonExit::Died(None),
        }
    }

    fn start_daemon(&mut self) -> Result<Connection, Death> {
        let (ours, theirs) = Connection::pair().map_err(|error| not_started(&error))?;
        let errors = Stdio::inherit();
        let child = Child::start("plasmond", ADOPTING_ARGUMENT, self.flags, &theirs, errors);
        let child = child.map_err(|error| not_started(&error))?;
        // While this end were open here, the end of the other process would go unnoticed.
        drop(theirs);
        (self.daemon, self.daemon_pid) = (watch(child.id()), child.id());
        let child = self.child.insert(child);
        let begin = FromKeeper::Begin {
            version: WIRE_VERSION,
            keeper_pid: edge::process_id(),
            failed_starts: self.restart_policy.failed_starts(),
            was_hung: self.was_hung,
        };
        if let Err(error) = hand_over(&ours, &self.held, &begin) {
            // Told by halves it must not go on. It may have ended by itself before.
            child.kill();
            let ended = failed_start(child.wait());
            return Err(if ended == Death::Shortage { ended } else { not_started(&error) });
        }
        Ok(ours)
    }
}

/// Whether nothing was received because the kernel had no memory for it, or a signal came.
fn is_unread(error: &io::Error) -> bool {
    let unread = [Errno::NOMEM, Errno::NOBUFS, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| unread.contains(&errno))
}

/// What a daemon died of that never served.
fn failed_start(code: Option<i32>) -> Death {
    let shortages = [i32::from(EXIT_SHORTAGE), EXIT_NOT_LOADED];
    if code.is_some_and(|code| shortages.contains(&code)) {
        Death::Shortage
    } else {
        Death::Starting
    }
}

/// What a start failed of that came to nothing on the keeper's side.
fn not_started(error: &io::Error) -> Death {
    if is_failure_of_machine(error) { Death::Shortage } else { Death::Starting }
}

fn hand_over(
    link: &Connection,
    held: &BTreeMap<Label, Vec<OwnedFd>>,
    begin: &FromKeeper,
) -> io::Result<()> {
    send_with_retry(link, begin, &[])?;
    for (label, fds) in held {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        send_with_retry(link, &FromKeeper::Held(label.clone()), &fds)?;
    }
    send_with_retry(link, &FromKeeper::Complete, &[])
}

/// Sends one message, also when the system is out of something for a moment: too many descriptors
/// that other processes of this user have not received yet, for one.
fn send_with_retry(
    link: &Connection,
    message: &FromKeeper,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    for _ in 1..SEND_TRIES {
        match wire::send(link, message, fds) {
            Err(error) if is_shortage(&error) => {
                edge::sleep(AGAIN_AFTER);
            }
            sent => return sent,
        }
    }
    wire::send(link, message, fds)
}

/// What the kernel says about a daemon's main thread.
fn progress_of(pid: u32) -> Option<Progress> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    Progress::parse(&read("schedstat")?, &read("status")?)
}

pub(crate) fn watch(pid: u32) -> Option<OwnedFd> {
    edge::open_process(pid).ok()
}

/// Whether the process ends in this time.
pub(crate) fn ended_within(process: &OwnedFd, time: Duration) -> bool {
    let deadline = Deadline::after(time);
    loop {
        match edge::ready_within(process, PollFlags::IN, deadline.left()) {
            // Not known yet: a daemon that is taken for a living one is given up with its store.
            Err(error) if is_unread(&error) && !deadline.is_past() => edge::sleep(AGAIN_AFTER),
            other => return matches!(other, Ok(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use plasmon_proto::extent::ExtentId;

    use super::*;

    const LABELS: [Label; 4] = [
        Label::Control { store: 1 },
        Label::Session { token: 2, pid: 3, uid: 4, writes: true },
        Label::Extent(ExtentId(5)),
        Label::Index { number: 6 },
    ];

    /// A keeper that was told this, by a daemon that is gone now.
    fn keeper_with(labels: &[Label]) -> Keeper<'static> {
        let mut keeper = Keeper::new(&[]);
        let (daemon, link) = Connection::pair().unwrap();
        let held = plasmon_shm::Memfd::create("plasmon-test", 4096).unwrap();
        for label in labels {
            wire::try_send(&daemon, &ToKeeper::Hold(label.clone()), &[held.as_fd()]).unwrap();
        }
        drop(daemon);
        assert!(matches!(keeper.attend(&link), DaemonExit::Died(None)));
        keeper
    }

    /// A keeper was killed, and then the daemon, while it told the next keeper of the store: of the
    /// extents before the clients. The next daemon knew of no pins, and used memory again that
    /// clients read. In another order objects were there whose extents were not, and clients
    /// unmapped what they had pinned.
    #[test]
    fn a_store_that_was_handed_over_by_halves_ends() {
        for count in 0..LABELS.len() {
            assert!(!keeper_with(&LABELS[..count]).is_worth_keeping(), "{count}");
        }
        assert!(keeper_with(&LABELS).is_worth_keeping());
    }

    #[test]
    fn pins_are_handed_over_before_memory_and_the_index_comes_last() {
        let mut labels = LABELS;
        labels.reverse();
        labels.sort();
        assert_eq!(labels, LABELS);
    }
}
