//! The core: one thread, one loop, one [`plasmon_pool::Node`].
//!
//! ```text
//!  epoll ──► connections   (links)        ┐
//!        ──► the store                    ├─► Event ──► Node ──► Effect ──► links, movers, store,
//!        ──► inbox: membership            │                                 membership
//!                   movers                ┘
//! ```
//!
//! The node begins when the map names this start of it: its slot is in every message. Until then
//! what the store says waits, and until the store has told its copies the maps do. Effects are
//! carried out in their order before the next event; only what is about an object whose memory is
//! still with a mover waits for that (`backlog.rs`). No call here waits for a socket, for etcd or
//! for a disk.
//!
//! Here is what others have of it: [`Pool`] and [`Inbox`]. The loop is in `run.rs`.

mod assemblies;
mod backlog;
mod checksums;
mod early;
mod gathers;
mod inbox;
mod landings;
mod listings;
mod openings;
mod peers;
mod reads;
mod regions;
mod run;
mod subscribers;
mod subscription;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, channel};
use std::thread::JoinHandle;

use plasmon_cluster::Slot;
use plasmon_fabric::Choice;
use plasmon_membership::Snapshot;
use plasmon_net::handshake::{Encryption, Token};
use plasmon_net::tcp::TcpListener;
use plasmon_pool::record::Place;
use plasmon_pool::tally::Verified;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, GatherRequest};
use plasmon_proto::participation::Participation;
use plasmon_proto::parts::{ReadReply, ReadRequest};
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery, CopyRepair};
use plasmon_proto::pool_listing::ListQuery;
use plasmon_proto::pool_notice::NamesFilter;

use self::checksums::ChecksumQuestion;
pub use self::inbox::Inbox;
use self::inbox::Incoming;
use self::listings::ListQuestion;
pub use self::listings::Listing;
pub use self::regions::{RegionAnswer, RegionAsked, RegionQuestion};
use self::run::{Core, Parts, STORE, Start, WAKER};
pub use self::subscribers::Heard;
use self::subscription::Numbers;
pub use self::subscription::{Ended, PoolSubscription};
use crate::certificates::Certificates;
use crate::checker::Checker;
use crate::fabric::Fabric;
use crate::identity::Identity;
use crate::loader::Loader;
use crate::membership::{self, Membership, Observer};
use crate::movers::{DoneSink, Movers};
use crate::poll::{Interest, Poll, Waker};
use crate::store::Store;

/// How a node runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How it takes part. Without addresses, the one that it listens on is named.
    pub membership: membership::Settings,
    /// Where it listens for the other nodes.
    pub listen: SocketAddr,
    /// What the nodes share.
    pub token: Token,
    /// The capacity of its store.
    pub capacity_bytes: u64,
    /// Threads that move content.
    pub movers: usize,
    /// How long it hears nothing of a node before it reports it, in milliseconds; 0: for ever.
    pub suspect_ms: u64,
    /// What its lanes are encrypted with.
    pub certificates: Option<Certificates>,
    /// The providers by which other nodes write into its memory.
    pub fabric: Choice,
}

/// Asks a node that runs, from any thread.
#[derive(Clone, Debug)]
pub struct Asker {
    inbox: Inbox,
    membership: Observer,
    subscriptions: Numbers,
    /// The number of the last read.
    read: Arc<AtomicU64>,
}

impl Asker {
    /// Asks where an object is. Without an answer the sender is dropped: the node does not take
    /// part yet, or ends.
    pub fn ask(&self, id: ObjectId, answer: SyncSender<Place>) {
        self.inbox.put(Incoming::Where(id, answer));
    }

    /// Asks which objects of a namespace the nodes have, but for those that are not asked. Without
    /// an answer the sender is dropped, as in [`Self::ask`].
    pub fn list(&self, query: ListQuery, without: Vec<Slot>, answer: SyncSender<Listing>) {
        self.inbox.put(Incoming::List(ListQuestion { query, without, answer }));
    }

    /// Has the whole pool compared. Without an answer the sender is dropped, as for [`Self::ask`].
    pub fn verify(&self, within_ms: u64, answer: SyncSender<Verified>) {
        self.inbox.put(Incoming::Verify(within_ms, answer));
    }

    /// Asks how far the node is with taking part. Only a node that ended gives no answer; then the
    /// sender is dropped.
    pub fn participation(&self, answer: SyncSender<Participation>) {
        self.inbox.put(Incoming::Participation(answer));
    }

    /// Asks a node for checksums of its copies; `None` when it does not answer. Without an answer
    /// the sender is dropped, as for [`Self::ask`].
    pub fn checksums(
        &self,
        node: Slot,
        query: ChecksumQuery,
        answer: SyncSender<Option<ChecksumPage>>,
    ) {
        self.inbox.put(Incoming::Checksums(ChecksumQuestion { node, query, answer }));
    }

    /// Has copies of a node repaired that were found not to be right. It is not answered.
    pub fn repair(&self, node: Slot, copies: Vec<CopyRepair>) {
        self.inbox.put(Incoming::Repair(node, copies));
    }

    /// Subscribes to what happens to objects with such names; `None` when too many programs do.
    pub fn subscribe(&self, filter: NamesFilter) -> Option<PoolSubscription> {
        PoolSubscription::begin(&self.subscriptions, self.inbox.clone(), filter)
    }
    /// Has objects brought here that programs will need.
    pub fn prefetch(&self, ids: Vec<ObjectId>) {
        self.inbox.put(Incoming::Prefetch(ids));
    }

    /// Has all nodes told that programs do not need these objects now.
    pub fn demote(&self, ids: Vec<ObjectId>) {
        self.inbox.put(Incoming::Demote(ids));
    }

    /// Reads parts of an object, which keep the limits; the number of the read. The local object of
    /// an answer is the caller's. Without an answer the sender is dropped, as in
    /// [`ask`](Self::ask).
    pub fn read(&self, request: ReadRequest, answer: SyncSender<ReadReply>) -> u64 {
        // Only that all numbers differ matters.
        let number = self.read.fetch_add(1, Ordering::Relaxed);
        self.inbox.put(Incoming::Read(number, Box::new(request), answer));
        number
    }

    /// Reads parts of several objects, as [`read`](Self::read) does of one.
    pub fn gather(&self, request: GatherRequest, answer: SyncSender<GatherReply>) -> u64 {
        let number = self.read.fetch_add(1, Ordering::Relaxed);
        self.inbox.put(Incoming::Gather(number, request, answer));
        number
    }

    /// Ends a read that is not wanted any more. If it has an answer, its objects are deleted.
    pub fn end_read(&self, number: u64) {
        self.inbox.put(Incoming::EndRead(number));
    }

    /// Asks something of a region, or for a new one. Without an answer the sender is dropped, as in
    /// [`ask`](Self::ask).
    pub fn region(&self, question: RegionQuestion) {
        self.inbox.put(Incoming::Region(question));
    }

    /// What allocated regions by this number is gone.
    pub fn end_region_owner(&self, owner: u64) {
        self.inbox.put(Incoming::RegionOwnerGone(owner));
    }

    /// Deletes local objects of answers.
    pub fn delete(&self, ids: Vec<ObjectId>) {
        self.inbox.put(Incoming::Delete(ids));
    }

    /// What etcd says of the pool, as far as this node has seen it.
    pub fn pool(&self) -> Snapshot {
        self.membership.snapshot()
    }

    /// Why the pool does not let this node in.
    pub fn refusal(&self) -> Option<String> {
        self.membership.refusal()
    }
}

/// A node that runs.
#[derive(Debug)]
pub struct Pool {
    inbox: Inbox,
    membership: Observer,
    read: Arc<AtomicU64>,
    address: SocketAddr,
    subscriptions: Numbers,
    thread: Option<JoinHandle<Option<Membership>>>,
}

impl Pool {
    /// Starts a node over the store that `store` makes. It joins the pool meanwhile.
    pub fn start(
        settings: Settings,
        identity: Identity,
        store: impl FnOnce(Inbox) -> Box<dyn Store>,
    ) -> Result<Self, membership::Error> {
        let Settings { mut membership, listen, token, capacity_bytes, movers, .. } = settings;
        let (suspect_ms, certificates) = (settings.suspect_ms, settings.certificates);
        let fabric = settings.fabric;
        let listener = TcpListener::bind(listen).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {listen} (pool_listen): {error}"),
            )
        })?;
        let address = listener.address()?;
        if membership.addresses.is_empty() {
            if address.ip().is_unspecified() {
                let message = "a node that listens on all addresses has to say which of them the \
                               others reach it by";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message).into());
            }
            membership.addresses.push(address.to_string());
        }
        let (sender, receiver) = channel();
        let waker = Arc::new(Waker::new()?);
        let inbox = Inbox::new(sender, waker.clone());
        let poll = Poll::new()?;
        poll.add(&waker, WAKER, Interest::Read)?;
        let to_core = inbox.clone();
        let done: DoneSink = Arc::new(move |done| to_core.put(Incoming::Mover(done)));
        let reached_at = Some(address.ip()).filter(|ip| !ip.is_unspecified());
        let is_everything = |of: &Certificates| of.encryption() == Encryption::Everything;
        let encrypts_data = certificates.as_ref().is_some_and(is_everything);
        let fabric = Fabric::open(&fabric, reached_at, encrypts_data);
        let movers = Movers::start(movers, &done, fabric.as_ref())?;
        let to_core = inbox.clone();
        let read = Arc::new(move |number, read| to_core.put(Incoming::CopyRead(number, read)));
        let checker = Checker::new(read);
        let to_core = inbox.clone();
        let loaded = Arc::new(move |number, parts| to_core.put(Incoming::Loaded(number, parts)));
        let loader = Loader::new(loaded);
        let store = store(inbox.clone());
        if let Some(descriptor) = store.descriptor() {
            poll.add(descriptor, STORE, Interest::Read)?;
        }
        let (name, boot) = (membership.cluster.clone(), membership.boot);
        let to_core = inbox.clone();
        let sink = Arc::new(move |event| to_core.put(Incoming::Membership(event)));
        let membership = Membership::start(membership, identity, sink)?;
        let observer = membership.observer();
        let core = Core::new(
            Parts { poll, waker, receiver, membership, movers, checker, loader, store },
            Start {
                listener: Some(listener),
                name,
                token,
                boot,
                capacity_bytes,
                suspect_ms,
                certificates,
                fabric,
            },
        );
        let run = move || core.run();
        let thread = std::thread::Builder::new().name("pool-core".to_owned()).spawn(run)?;
        let (subscriptions, read) = (Numbers::default(), Arc::default());
        let membership = observer;
        Ok(Self { inbox, membership, read, address, subscriptions, thread: Some(thread) })
    }

    /// What asks this node.
    pub fn asker(&self) -> Asker {
        Asker {
            inbox: self.inbox.clone(),
            membership: self.membership.clone(),
            read: self.read.clone(),
            subscriptions: self.subscriptions.clone(),
        }
    }

    /// Where the node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the node and its lease, so that the others know at once.
    pub fn leave(mut self) -> Result<(), membership::Error> {
        self.stop().map_or(Ok(()), Membership::leave)
    }

    /// Whether the node has ended by itself.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(&mut self) -> Option<Membership> {
        self.inbox.put(Incoming::End);
        // A thread that panicked has said so itself.
        self.thread.take()?.join().ok()?
    }
}

/// Without [`Pool::leave`] the lease ends by itself, as that of a process that is killed.
impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.stop());
    }
}
