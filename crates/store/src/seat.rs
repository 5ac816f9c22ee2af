//! The seat of the pool daemon: what the store tells it and waits for it to answer.
//!
//! The pool daemon is a client that knows the other nodes. A store that belongs to a pool decides
//! about the copies that are here, and asks for everything else:
//!
//! ```text
//!  a client asks for what is not here   Seek ──► Land, SealLanded: it is here   (landings.rs)
//!                                            └─► Sought: what became of it      (seeks.rs)
//!  a client seals a free id             withheld ── Commit ──► Committed        (commits.rs)
//!  a client puts an id with a home      shown ───── Commit ──► Committed        (uncommitted.rs)
//!  a client asks whether that is done   Settle ──────────────► Committed        (settling.rs)
//!  another node asks for such an id     Look ◄── Commit, Looked                 (commits.rs)
//!  a client deletes                     Delete ──► Drop of each copy, Deleted  (forward.rs)
//!  a client creates what has a copy     Verify ──► Drop of the copy, Verified  (verification.rs)
//!  a client adopts a namespace          Adopt ──► Answer                       (adopting.rs)
//!  a namespace has ended                Namespace ──► Delete of what is here   (sweeping.rs)
//!  a namespace is limited               Quota ──► Usage, of what is here       (usage.rs)
//!  a copy goes, for whatever reason     Ended                                  (copies.rs)
//!  a copy is to be durable              Log ──► Logged                         (logging.rs)
//!  a copy cannot be read                Damaged ──► Discard ──► Ended          (repair.rs)
//! ```
//!
//! A copy that clients must not see is *withheld*: its entry in the index is hidden, and it is
//! neither evicted nor spilled. Three reasons: the directory of the pool has not accepted it yet,
//! the pool daemon says when it is published, or it has a free id and the pool daemon has not
//! vouched for such copies for too long (vouch.rs).
//!
//! While no client has the seat, what waits for an answer waits at most [`ABSENCE_MS`] and then
//! ends as *unreachable*, never as absent. A client that takes the seat is told every copy first,
//! then what waits (agent.rs).
//!
//! A pooled object has no time to live and is not owned by an object of this store, and its members
//! are objects of the pool (composites.rs): the pool ends objects, and a node alone cannot.

mod adopting;
mod agent;
mod commits;
mod composites;
mod copies;
pub(crate) mod creations;
mod forward;
mod landings;
mod logging;
mod members;
pub(crate) mod namespaces;
mod repair;
mod seeks;
mod settles;
mod settling;
mod sweep;
mod sweeping;
mod uncommitted;
mod usage;
mod verification;
mod vouch;

use std::collections::BTreeMap;

use plasmon_proto::message::Failure;
use plasmon_proto::pool::{Class, Fate, Origin};
use plasmon_proto::{Code, ObjectId};

use self::creations::Creations;
use self::members::{Incomplete, Orphans};
use self::namespaces::Namespaces;
use self::sweep::Sweep;
use crate::asker::Asker;
use crate::event::ClientNo;

use self::settles::Settles;
use self::uncommitted::Uncommitted;

/// How long what waits for the pool daemon waits while there is none.
pub(crate) const ABSENCE_MS: u64 = 10_000;

/// What is kept of the pool.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// The client that has the seat.
    agent: Option<ClientNo>,
    /// This node, as the last client with the seat said, perhaps to an earlier daemon.
    here: Option<Origin>,
    /// When what waits is given up, while there is no agent.
    deadline_ms: Option<u64>,
    /// Objects that clients ask for and that are not here.
    seeks: BTreeMap<ObjectId, Seek>,
    /// The number of the last question about one.
    last_number: u64,
    /// Ids that clients want deleted, and the numbers of the calls for that which are not answered,
    /// in order.
    deletes: BTreeMap<ObjectId, Vec<u64>>,
    /// The requests that wait, by the number of their calls.
    delete_requests: BTreeMap<u64, DeleteRequest>,
    /// The number of the last call.
    last_delete: u64,
    /// Creations that wait until it is known whether the objects of copies here exist.
    creations: Creations,
    /// Copies that clients must not see.
    withheld: BTreeMap<ObjectId, Withheld>,
    /// Objects with a home that the directory has not accepted yet.
    uncommitted: Uncommitted,
    /// Requests that wait for the directory to accept objects.
    pub(crate) settles: Settles,
    /// Until when copies of free ids may be shown; 0 while they are not.
    vouched_until_ms: u64,
    /// How far an agent that took the seat has been told what is here.
    inventory: Option<Inventory>,
    /// Whether the agent has much to read before it is told more of that.
    is_behind: bool,
    /// Namespaces that are adopted in the pool.
    pub(crate) namespaces: Namespaces,
    /// Where the deletes of what has ended go on.
    sweep: Sweep,
    /// Composites that are not accepted with all of their members.
    incomplete: Incomplete,
    /// Members of composites that have ended.
    orphans: Orphans,
}

/// What is asked about one id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seek {
    /// The number of the last question.
    asked: u64,
    /// The number of the last call, 0 before the first.
    sent: u64,
    /// The last number that was answered, and how.
    answered: u64,
    fate: Option<Fate>,
    /// Whether the pool has found it since, and brings it here.
    is_found: bool,
    class: Class,
}

/// A request whose objects are not all deleted yet.
#[derive(Debug)]
pub(crate) struct DeleteRequest {
    asker: Asker,
    request: u64,
    outcomes: Vec<Option<Code>>,
    /// The places of an id among the outcomes.
    missing: BTreeMap<ObjectId, Vec<usize>>,
}

/// What of the copies here was told to the agent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inventory {
    /// The next record.
    record: u32,
    /// The next serial in the tier, once all records are through.
    spilled: Option<u64>,
}

/// A copy that is here and that clients must not see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Withheld {
    /// Its record.
    pub(crate) record: u32,
    pub(crate) reason: Reason,
}

/// Why a copy is withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was sealed here under a free id, and the directory has not accepted it yet. The seal is
    /// answered then.
    Committing { asker: Option<Asker>, request: u64 },
    /// It is shown when the pool daemon says so.
    Unpublished,
    /// It is shown when the pool daemon vouches again.
    Unvouched,
}

impl Seat {
    /// No client has the seat. What an earlier daemon was told of this node is known.
    pub(crate) fn new(here: Option<Origin>) -> Self {
        Self { here, ..Self::default() }
    }

    /// Whether the client has the seat.
    pub(crate) fn is_agent(&self, client: ClientNo) -> bool {
        self.agent == Some(client)
    }

    /// The withheld copies of this id and their reason.
    pub(crate) fn withheld(&self, id: &ObjectId) -> Option<&Withheld> {
        if self.withheld.is_empty() { None } else { self.withheld.get(id) }
    }

    /// How many copies are withheld.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn withheld_count(&self) -> usize {
        self.withheld.len()
    }

    /// What is under way, and how much of each.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn under_way(&self) -> [(&'static str, usize); 8] {
        [
            ("objects that are sought", self.seeks.len()),
            ("objects that are being deleted", self.deletes.len()),
            ("requests for that", self.delete_requests.len()),
            ("copies that are withheld", self.withheld.len()),
            ("objects with a home that are not accepted", self.uncommitted.len()),
            ("inventories", usize::from(self.inventory.is_some())),
            ("composites that are not accepted", self.incomplete.len()),
            ("members that are to be deleted", self.orphans.len()),
        ]
    }

    /// Whether anything waits for an agent.
    fn has_pending(&self) -> bool {
        let committing = |withheld: &Withheld| matches!(withheld.reason, Reason::Committing { .. });
        !self.seeks.is_empty()
            || !self.deletes.is_empty()
            || !self.settles.is_empty()
            || !self.creations.is_empty()
            || self.namespaces.has_requests()
            || self.withheld.values().any(committing)
    }

    /// Something waits for an agent: while there is none, not for ever.
    fn await_agent(&mut self, now_ms: u64) {
        if self.agent.is_none() && self.deadline_ms.is_none() {
            self.deadline_ms = Some(now_ms.saturating_add(ABSENCE_MS));
        }
    }

    /// Whether the agent is told things now: one that just took the seat is told what is here
    /// first.
    fn hears(&self) -> Option<ClientNo> {
        self.agent.filter(|_| self.inventory.is_none())
    }

    /// When the store has something to do for the pool.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let vouched = (self.vouched_until_ms > 0).then_some(self.vouched_until_ms);
        let adoptions = self.namespaces.next_deadline();
        let sweep = self.sweep.next_deadline();
        let orphans = self.orphans.next_deadline();
        let settles = self.settles.next_deadline();
        self.deadline_ms
            .into_iter()
            .chain(vouched)
            .chain(settles)
            .chain(adoptions)
            .chain(sweep)
            .chain(orphans)
            .min()
    }
}

/// A client that does not have the seat does what is for the one that has.
fn not_the_agent() -> Failure {
    let detail = "only the pool daemon that this store started may do that";
    Failure::of(Code::NotPermitted).with_detail(detail)
}

/// Why nothing can be done with an object of a pool.
pub(crate) fn no_pool() -> Failure {
    Failure::of(Code::Unsupported).with_detail(
        "names that begin with @ belong to a pool of several nodes, and this store is in none: \
         start it with --cluster, or choose another name",
    )
}
