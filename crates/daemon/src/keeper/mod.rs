//! The keeper: a tiny process that holds the store's descriptors, so that the daemon may die.
//!
//! ```text
//! plasmond ──spawns──► keeper                 daemon ── Hold(label) + descriptors ──► keeper
//!    │ kill -9           │ end of file on the socket pair, and the process is gone
//!    ✗                   └──spawns──► plasmond --role=adopting   ◄── Held(label) + descriptors
//!
//! keeper killed:         the daemon sees end of file, starts another keeper, hands everything over
//! daemon stops cleanly:  Farewell; the keeper ends, and with it the last descriptors
//! ```
//!
//! Descriptors that are on their way live in the socket pair itself, so there is no moment at which
//! only a dying process has them. The keeper is this same program, started through `/proc/self/exe`
//! (which works after the file was replaced, too), and reads nothing but its socket: no settings,
//! no log, no clients.

mod child;
pub(crate) mod link;
pub(crate) mod patience;
pub(crate) mod seat;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use plasmon_shm::edge;
use plasmon_shm::socket::Connection;
use rustix::event::PollFlags;

use child::Child;
use patience::{Death, Decision, Patience};
use wire::{FromKeeper, Label, ToKeeper, WIRE_VERSION};

/// The argument that makes this program a keeper; the daemon's own flags follow it.
pub(crate) const KEEPER_ARGUMENT: &str = "--role=keeper";

/// How long a daemon that closed its end may take to be gone. One that lives on has dismissed us.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The argument that makes this program a daemon which takes over.
const ADOPTING_ARGUMENT: &str = "--role=adopting";

/// The keeper's whole life. `flags` are the settings of the daemons that it starts.
pub(crate) fn run(flags: &[OsString]) -> ExitCode {
    // Without its name a keeper is only harder to recognise.
    let _ = rustix::thread::set_name(c"plasmon-keeper");
    let link = io::stdin().as_fd().try_clone_to_owned().map(Connection::adopt);
    match link {
        Ok(link) => keep(flags, link),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Keeps what the daemon at the other end of `link` hands over.
pub(crate) fn keep(flags: &[OsString], link: Connection) -> ExitCode {
    Keeper::new(flags).keep(link)
}

struct Keeper<'a> {
    flags: &'a [OsString],
    held: BTreeMap<Label, Vec<OwnedFd>>,
    patience: Patience,
    serving_since: Option<Instant>,
    daemon: Option<OwnedFd>,
    child: Option<Child>,
}

/// How a daemon parted.
enum Parting {
    /// It said farewell, or goes on without this keeper.
    Dismissed,
    /// It died.
    Died,
}

impl<'a> Keeper<'a> {
    fn new(flags: &'a [OsString]) -> Self {
        Self {
            flags,
            held: BTreeMap::new(),
            patience: Patience::default(),
            serving_since: None,
            daemon: None,
            child: None,
        }
    }

    fn keep(mut self, mut link: Connection) -> ExitCode {
        loop {
            if let Parting::Dismissed = self.attend(&link) {
                return ExitCode::SUCCESS;
            }
            loop {
                let life = self.serving_since.take().map(|since| edge::since(since));
                let death = life.map_or(Death::Starting, Death::Serving);
                match self.patience.after(death) {
                    Decision::GiveUp => return ExitCode::FAILURE,
                    Decision::Restart(wait) => edge::sleep(wait),
                }
                if let Ok(next) = self.start_daemon() {
                    link = next;
                    break;
                }
            }
        }
    }

    /// Listens to one daemon until it parts.
    fn attend(&mut self, link: &Connection) -> Parting {
        loop {
            match wire::receive::<ToKeeper>(link) {
                Ok(Some((message, fds))) => match message {
                    // It goes on with a keeper of its own.
                    ToKeeper::Watch { version, .. } if version != WIRE_VERSION => {
                        return Parting::Dismissed;
                    }
                    ToKeeper::Watch { pid, .. } => self.daemon = watch(pid),
                    ToKeeper::Hold(label) => drop(self.held.insert(label, fds)),
                    ToKeeper::Forget(label) => drop(self.held.remove(&label)),
                    ToKeeper::Serving => self.serving_since = Some(edge::now()),
                    ToKeeper::Farewell => return Parting::Dismissed,
                },
                Ok(None) => return self.parting(),
                // A message that cannot be read means that something would be missing later. The
                // daemon notices that this keeper is gone and gives everything to a new one.
                Err(_) => return Parting::Dismissed,
            }
        }
    }

    /// The daemon closed its end: it died, or it lives on without us.
    fn parting(&mut self) -> Parting {
        if let Some(child) = &mut self.child {
            // Only a child can be a zombie that nobody else collects.
            if self.daemon.as_ref().is_none_or(|daemon| ended_within(daemon, GONE_WITHIN)) {
                child.wait();
                return Parting::Died;
            }
            return Parting::Dismissed;
        }
        match &self.daemon {
            Some(daemon) if ended_within(daemon, GONE_WITHIN) => Parting::Died,
            Some(_) => Parting::Dismissed,
            // It died before it could say which process it was.
            None => Parting::Died,
        }
    }

    fn start_daemon(&mut self) -> io::Result<Connection> {
        let (ours, theirs) = Connection::pair()?;
        let errors = Stdio::inherit();
        let child = Child::start("plasmond", ADOPTING_ARGUMENT, self.flags, &theirs, errors)?;
        // While this end were open here, the end of the other process would go unnoticed.
        drop(theirs);
        self.daemon = watch(child.id());
        let child = self.child.insert(child);
        let failed_starts = self.patience.failed_starts();
        if let Err(error) = hand_over(&ours, &self.held, failed_starts) {
            // Told by halves it must not go on.
            child.kill();
            child.wait();
            return Err(error);
        }
        Ok(ours)
    }
}

fn hand_over(
    link: &Connection,
    held: &BTreeMap<Label, Vec<OwnedFd>>,
    failed_starts: u32,
) -> io::Result<()> {
    let (version, keeper_pid) = (WIRE_VERSION, edge::process_id());
    wire::send(link, &FromKeeper::Begin { version, keeper_pid, failed_starts }, &[])?;
    for (label, fds) in held {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        wire::send(link, &FromKeeper::Held(label.clone()), &fds)?;
    }
    wire::send(link, &FromKeeper::Complete, &[])
}

fn watch(pid: u32) -> Option<OwnedFd> {
    edge::open_process(pid).ok()
}

/// Whether the process ends in this time.
fn ended_within(process: &OwnedFd, time: Duration) -> bool {
    matches!(edge::ready_within(process, PollFlags::IN, Some(time)), Ok(true))
}
