//! The socket at which programs of this user ask what the pool knows: `pool.sock` beside the
//! store's.
//!
//! ```text
//!   program ── request ──►  thread of the connection ── question ──►  core ──►  node
//!           ◄── reply ───            │           ◄── place ────────────┘
//!                                    └── names of the nodes, from the map
//! ```
//!
//! Programs read parts of objects here, too (`reads.rs`), have objects brought here, and write
//! regions (`regions.rs`).
//!
//! The core only passes questions on, and never waits for a connection: an answer has its place in
//! a channel. Bytes that are no request end their connection, and nothing else.

mod notices;
mod reads;
mod regions;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plasmon_cluster::limits::{GROUPS, NODES_MAX};
use plasmon_cluster::{Map, Slot};
use plasmon_pool::limits::{CHECKSUM_MS, PLACE_MS, UNREACHABLE_MS, VERIFY_MS_MAX};
use plasmon_pool::record::{Found, Place};
use plasmon_pool::tally::{NodeTally, Verified};
use plasmon_proto::ObjectId;
use plasmon_proto::frame;
use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::participation::Participation;
use plasmon_proto::pool_admin::{
    LIST_WITHOUT_MAX, NODES_PER_PAGE, ObjectPlace, ObjectRecord, Reply, Request, Standing,
    Verification, VerifiedNode, socket_of,
};
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery, REPAIRS_MAX};
use plasmon_proto::pool_listing::{ListQuery, ListedPage};
use plasmon_proto::pool_status::REFUSED_MAX;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::socket::{Connection, Listener};
use plasmon_shm::socket_folder;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};

use self::reads::Handed;
use self::regions::{Regions, Served};
use crate::core::{Asker, Listing};

/// Connections at one time; a further one is ended at once.
const CONNECTIONS_MAX: usize = 128;

/// A connection that says nothing for so long ends.
const IDLE: Duration = Duration::from_secs(60);

/// A program that does not take its reply for so long is given up.
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Letters of the reason why the pool does not let the node in: each has four bytes at most.
const REFUSAL_CHARS_MAX: usize = 250;

/// The node answers within [`PLACE_MS`]; without a node that runs there is no answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(PLACE_MS + 2_000);

/// For so long the node may take to take part in the pool, where checksums are asked for.
const JOINED_WITHIN: Duration = Duration::from_millis(UNREACHABLE_MS);

/// The pause before it is asked again.
const JOIN_PAUSE: Duration = Duration::from_millis(100);

/// The socket belongs to its owner alone.
const MODE: u32 = 0o600;

/// The open socket; it ends with the value.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    listener: Arc<Listener>,
    open: Arc<Mutex<Open>>,
    thread: Option<JoinHandle<()>>,
}

/// The connections, to be ended with the socket.
#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, OwnedFd>,
    next: u64,
    is_over: bool,
}

impl Door {
    /// Opens the socket that belongs to the store with this one.
    pub fn open(store: &Path, node: Asker) -> io::Result<Self> {
        socket_folder::prepare(store)?;
        let path = socket_of(store);
        let listener = Listener::bind(&path, MODE).map_err(io::Error::other)?;
        let (listener, open) = (Arc::new(listener), Arc::new(Mutex::<Open>::default()));
        let accepting = (listener.clone(), open.clone());
        let run = move || accept(&accepting.0, &accepting.1, &node);
        let thread = std::thread::Builder::new().name("pool-door".to_owned()).spawn(run)?;
        Ok(Self { path, listener, open, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let connections = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.is_over = true;
            std::mem::take(&mut open.connections)
        };
        // It wakes the thread that accepts. A socket that has ended is at its end already.
        let _ = shutdown(&*self.listener, Shutdown::Both);
        for connection in connections.values() {
            let _ = shutdown(connection, Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        // The lock is still held, so it is this one. The next start replaces a file that stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept(listener: &Listener, open: &Arc<Mutex<Open>>, node: &Asker) {
    loop {
        let connection = listener.accept();
        let mut state = open.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return;
        }
        let Ok(connection) = connection else {
            drop(state);
            // The process may be out of descriptors; the loop must not turn without rest.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if state.connections.len() >= CONNECTIONS_MAX || !is_owner(&connection) {
            continue;
        }
        let Ok(second) = connection.duplicate() else { continue };
        let number = state.next;
        state.next += 1;
        state.connections.insert(number, second);
        drop(state);
        let (open, node) = (open.clone(), node.clone());
        let close = {
            let open = open.clone();
            move || {
                let mut state = open.lock().unwrap_or_else(PoisonError::into_inner);
                state.connections.remove(&number);
            }
        };
        let failed = close.clone();
        let run = move || {
            serve(&connection, &node, number);
            close();
        };
        let builder = std::thread::Builder::new().name("pool-asker".to_owned());
        if builder.spawn(run).is_err() {
            failed();
        }
    }
}

fn is_owner(connection: &Connection) -> bool {
    let own = rustix::process::geteuid().as_raw();
    connection.peer().is_ok_and(|peer| peer.uid == own)
}

/// Answers one request after the other, until the connection ends or breaks a rule.
fn serve(connection: &Connection, node: &Asker, owner: u64) {
    let timeouts = [(Timeout::Recv, IDLE), (Timeout::Send, SEND_WITHIN)];
    if timeouts
        .iter()
        .any(|(which, time)| set_socket_timeout(connection, *which, Some(*time)).is_err())
    {
        return;
    }
    let mut bytes = Vec::new();
    let mut handed = Handed::new(node);
    let mut regions = Regions::new(node, owner);
    loop {
        if !regions.wait_for_request(connection) {
            return;
        }
        let Ok(message) = connection.recv(&mut bytes, true) else { return };
        let is_request = message.bytes > 0 && !message.truncated && message.fds.is_empty();
        let Some((number, request)) =
            frame::decode_admin_request(&bytes).ok().filter(|_| is_request)
        else {
            return;
        };
        if let Request::Subscribe(filter) = request {
            if filter.keeps_limits() {
                notices::serve(connection, number, filter, node);
            }
            return;
        }
        let reply = match request {
            Request::Allocate(_) | Request::Region(_) => {
                match regions.serve(connection, number, request) {
                    Served::Reply(reply) => Some(reply),
                    Served::Later => continue,
                    Served::End => None,
                }
            }
            _ if !regions.answer_writes(connection) => None,
            Request::Read(read) => handed.read(connection, read).map(Reply::Read),
            Request::Gather(gather) => handed.gather(connection, &gather).map(Reply::Gather),
            other => answer(node, other),
        };
        let Some(reply) = reply else { return };
        let sent = frame::encode_admin_reply(number, &reply)
            .is_ok_and(|reply| connection.send(&reply, &[]).is_ok());
        if !sent {
            return;
        }
    }
}

fn answer(node: &Asker, request: Request) -> Option<Reply> {
    Some(match request {
        Request::Where(id) => Reply::Where(place(node, id)),
        Request::Status => {
            let mut status = node.pool().status();
            status.refused.truncate(REFUSED_MAX);
            Reply::Status(Box::new(status))
        }
        Request::Nodes { after } => {
            let nodes = node.pool().nodes().into_iter();
            let after = nodes.filter(|node| Some(node.slot) > after);
            Reply::Nodes(after.take(NODES_PER_PAGE).collect())
        }
        Request::List { query, without } => {
            if !query.keeps_limits() || without.len() > LIST_WITHOUT_MAX {
                return None;
            }
            listed(node, query, without)
        }
        Request::Participation => Reply::Participation(Box::new(participation(node))),
        Request::Verify { within_ms } => {
            Reply::Verify(Box::new(verification(node, within_ms.min(VERIFY_MS_MAX))))
        }
        Request::Checksums { node: of, query } => {
            if !query.keeps_limits() {
                return None;
            }
            Reply::Checksums(checksums(node, of, query))
        }
        // It ends with its connection, and so has no single reply.
        Request::Subscribe(_) => return None,
        Request::Prefetch(ids) if ids.len() <= REQUEST_IDS_MAX => {
            node.prefetch(ids);
            Reply::Prefetching
        }
        Request::Demote(ids) if ids.len() <= REQUEST_IDS_MAX => {
            node.demote(ids);
            Reply::Demoting
        }
        Request::Repair { node: of, copies } if copies.len() <= REPAIRS_MAX => {
            node.repair(of, copies);
            Reply::Repairing
        }
        Request::Demote(_) | Request::Prefetch(_) | Request::Repair { .. } => return None,
        Request::Read(_) | Request::Gather(_) => return None,
        Request::Allocate(_) | Request::Region(_) => return None,
    })
}

/// Checksums of some copies of a node, once this one takes part in the pool.
fn checksums(node: &Asker, of: Slot, query: ChecksumQuery) -> Option<ChecksumPage> {
    let deadline = Deadline::after(JOINED_WITHIN);
    loop {
        let (sender, answer) = sync_channel(1);
        node.checksums(of, query, sender);
        match answer.recv_timeout(Duration::from_millis(CHECKSUM_MS + 2_000)) {
            Ok(page) => return page,
            Err(RecvTimeoutError::Disconnected) if !deadline.is_past() => {
                std::thread::sleep(JOIN_PAUSE);
            }
            Err(_) => return None,
        }
    }
}

/// A page of a namespace, and the names of the nodes that did not answer.
fn listed(node: &Asker, query: ListQuery, without: Vec<Slot>) -> Reply {
    let (sender, answer) = sync_channel(1);
    node.list(query, without, sender);
    let Ok(Listing { page, missing }) = answer.recv_timeout(ANSWER_WITHIN) else {
        let missing = vec![(Slot::NONE, "this node, which is joining the pool".to_owned())];
        return Reply::Listed { page: ListedPage::default(), missing };
    };
    let map = node.pool().map.unwrap_or_default();
    let missing = missing.into_iter().take(NODES_PER_PAGE).map(|slot| (slot, name_of(&map, slot)));
    Reply::Listed { page, missing: missing.collect() }
}

fn name_of(map: &Map, slot: Slot) -> String {
    map.node(slot).map_or_else(|| format!("slot {slot}"), |node| node.member.name.clone())
}

/// How far the node is. Names of nodes are looked up in what the watch has seen, which may be older
/// than the map that the node goes by: the answer is that of the older one.
fn participation(node: &Asker) -> Participation {
    let (sender, answer) = sync_channel(1);
    node.participation(sender);
    let mut found = answer.recv_timeout(ANSWER_WITHIN).unwrap_or_default();
    let seen = node.pool().map.unwrap_or_default();
    if seen.epoch().0 < found.epoch {
        found.epoch = seen.epoch().0;
        found.live = seen.nodes().filter(|(_, node)| node.is_live()).count() as u32;
    }
    found.refused = node.refusal().map(|reason| reason.chars().take(REFUSAL_CHARS_MAX).collect());
    found
}

/// Has the whole pool compared, and adds up what the nodes found.
fn verification(node: &Asker, within_ms: u64) -> Verification {
    let (sender, answer) = sync_channel(1);
    node.verify(within_ms, sender);
    let within = Duration::from_millis(within_ms.saturating_add(2_000));
    let groups = GROUPS as u32;
    let Ok(Verified { tallies, unanswered }) = answer.recv_timeout(within) else {
        let map = node.pool().map.unwrap_or_default();
        let unanswered = map.nodes().map(|(slot, _)| slot).collect();
        return Verification { groups, unanswered, ..Verification::default() };
    };
    let mut sum = Verification { groups, ..Verification::default() };
    let mut nodes: BTreeMap<Slot, VerifiedNode> = BTreeMap::new();
    for tally in tallies.values() {
        sum.groups_compared = sum.groups_compared.saturating_add(tally.groups);
        for (to, more) in [
            (&mut sum.objects, tally.objects),
            (&mut sum.short, tally.short),
            (&mut sum.unreachable, tally.unreachable),
            (&mut sum.lost, tally.lost),
        ] {
            *to = to.saturating_add(more);
        }
        for NodeTally { slot, copies, bytes, missing, unrecorded } in &tally.nodes {
            let none = VerifiedNode { slot: *slot, copies: 0, bytes: 0, missing: 0, unrecorded: 0 };
            let node = nodes.entry(*slot).or_insert(none);
            for (to, more) in [
                (&mut node.copies, copies),
                (&mut node.bytes, bytes),
                (&mut node.missing, missing),
                (&mut node.unrecorded, unrecorded),
            ] {
                *to = to.saturating_add(*more);
            }
        }
    }
    sum.nodes = nodes.into_values().take(NODES_MAX).collect();
    sum.unanswered = unanswered.into_iter().collect();
    sum
}

/// Where an object is, with the names of the nodes.
fn place(node: &Asker, id: ObjectId) -> ObjectPlace {
    let (sender, answer) = sync_channel(1);
    node.ask(id, sender);
    let Ok(Place { standing, found, primary }) = answer.recv_timeout(ANSWER_WITHIN) else {
        return ObjectPlace { standing: Standing::Unreachable, primary: None, found: None };
    };
    let map = node.pool().map.unwrap_or_default();
    let name = |slot| name_of(&map, slot);
    let record = |found: Found| ObjectRecord {
        birth: found.birth,
        origin: name(found.birth.slot),
        data_bytes: found.content.data_bytes,
        metadata_bytes: found.content.metadata_bytes,
        copies: found.copies,
        copies_min: found.copies_min,
        holders: found.holders.into_iter().map(name).collect(),
        caches: found.caches.into_iter().map(name).collect(),
        is_durable: found.content.durable.is_some(),
    };
    ObjectPlace { standing, primary: primary.map(name), found: found.map(record) }
}
