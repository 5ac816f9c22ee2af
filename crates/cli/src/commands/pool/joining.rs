//! Whether nodes have joined their pool: their stores serve before that.
//!
//! ```text
//!   a thread asks the pool daemon of each node, again and again ──► all have joined, or the time
//!                                                                   is over: what is missing where
//! ```
//!
//! It is a thread because a pool daemon that hangs answers late, and the command ends at once when
//! it is told to.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plasmon_client::{Client, ConnectOptions, Deadline, Participation};

use super::no_answer::unanswered;

/// The pause before the nodes are asked again.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// After so long it is told what is waited for.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// A node, and the socket of its store.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) socket: PathBuf,
}

/// A node that has not joined in time.
#[derive(Debug)]
pub(super) struct NotJoined {
    /// Its name.
    pub(super) node: String,
    /// What is missing.
    pub(super) why: String,
}

/// Waits for nodes.
pub(super) struct Joining {
    /// It ends with the thread.
    end: UnixStream,
    outcome: Receiver<Result<(), NotJoined>>,
}

impl Joining {
    /// Waits until these nodes, which are all of their pool, have joined it and are connected with
    /// each other.
    pub(super) fn begin(places: Vec<Place>, within: Duration) -> Result<Self> {
        let (end, held) = UnixStream::pair().context("waiting for the nodes")?;
        let (sender, outcome) = channel();
        let run = move || {
            // It fails when the command is about to end.
            let _ = sender.send(wait_for_all(&places, within));
            drop(held);
        };
        let builder = std::thread::Builder::new().name("joining".to_owned());
        builder.spawn(run).context("waiting for the nodes")?;
        Ok(Self { end, outcome })
    }

    /// What came of it; `None` while it goes on.
    pub(super) fn outcome(&self) -> Option<Result<(), NotJoined>> {
        self.outcome.try_recv().ok()
    }
}

impl AsFd for Joining {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn wait_for_all(places: &[Place], within: Duration) -> Result<(), NotJoined> {
    let deadline = Deadline::after(within);
    let nodes = u32::try_from(places.len()).unwrap_or(u32::MAX);
    // A node that has joined stays so while the others do: it is not asked again. One that has
    // joined knows all others.
    for place in places {
        let options = ConnectOptions {
            socket: Some(place.socket.clone()),
            name: "plasmon pool dev".to_owned(),
            channel: false,
            connect_timeout: within,
            ..ConnectOptions::default()
        };
        let missing = |why: String| NotJoined { node: place.name.clone(), why };
        let store = Client::connect(&options).map_err(|error| missing(error.to_string()))?;
        wait(&store, nodes, deadline, |_| {}).map_err(missing)?;
    }
    Ok(())
}

/// Waits until the node of this store has joined its pool and is connected with all others, of
/// which the pool is to have so many at least; what is missing after the time. After a while that
/// is told to `waiting`, whenever it is something else than before.
pub(super) fn wait(
    store: &Client,
    nodes: u32,
    deadline: Deadline,
    mut waiting: impl FnMut(&str),
) -> Result<Participation, String> {
    let (begin, mut told) = (Instant::now(), String::new());
    loop {
        let why = match store.pool_participation() {
            Ok(found) if found.reaches_all() && found.live >= nodes => return Ok(found),
            Ok(found) => missing(store, &found, nodes),
            Err(error) => unanswered(store, &error),
        };
        if deadline.is_past() {
            return Err(why);
        }
        if why != told && begin.elapsed() >= TELL_AFTER {
            waiting(&why);
            told = why;
        }
        std::thread::sleep(ASK_EVERY);
    }
}

/// What a node lacks, in words.
pub(super) fn missing(store: &Client, found: &Participation, nodes: u32) -> String {
    if let Some(reason) = &found.refused {
        return reason.clone();
    }
    if !found.is_leased {
        return "it has no lease in etcd".to_owned();
    }
    if found.slot.is_none() {
        return "the pool has not taken it in yet".to_owned();
    }
    if !found.unreached.is_empty() {
        return format!("it is not connected with {}", unreached(store, found));
    }
    format!("it knows {} of {nodes} nodes", found.live)
}

/// The nodes that a node is not connected with, by name.
pub(super) fn unreached(store: &Client, found: &Participation) -> String {
    // Without their names they have their slots.
    let nodes = store.pool_nodes().unwrap_or_default();
    let name = |slot| match nodes.iter().find(|node| node.slot == slot) {
        Some(node) if node.addresses.is_empty() => node.name.clone(),
        Some(node) => format!("{} at {}", node.name, node.addresses.join(", ")),
        None => format!("slot {slot}"),
    };
    found.unreached.iter().copied().map(name).collect::<Vec<_>>().join("; ")
}
