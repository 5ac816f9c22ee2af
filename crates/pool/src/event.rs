//! What can happen to a node, and what it asks to be done.

use std::sync::Arc;

use plasmon_cluster::{Epoch, GroupNo, Map, Slot};
use plasmon_proto::ObjectId;

use crate::message::{Envelope, SegmentRange, TransferNo};
use crate::record::{Birth, Content};
use crate::time::Mono;

/// Names one landing: memory in the node's own store for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How urgent a pull is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A client needs it now.
    Get,
    /// A client waits for it to be created.
    Wait,
    /// A client will need it.
    Prefetch,
    /// A commit needs another copy.
    Replica,
    /// A copy was lost.
    Repair,
}

/// What the node's store tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A client asks for a pooled object that is not here. The store numbers these calls in order.
    Seek {
        /// The object.
        id: ObjectId,
        /// The number of the call.
        number: u64,
        /// Get, wait or prefetch.
        class: Class,
    },
    /// No client asks for it any more.
    Unseek(ObjectId),
    /// A pooled object is complete here. One with a free id is not visible yet.
    Commit {
        /// The object.
        id: ObjectId,
        /// The serial of the incarnation.
        serial: u64,
        /// Its bytes.
        content: Content,
        /// How many copies it shall have.
        copies: u8,
        /// How many it has at least before it is acknowledged.
        copies_min: u8,
    },
    /// A client deletes a pooled object. The store numbers these calls in order.
    Delete {
        /// The object.
        id: ObjectId,
        /// The number of the call.
        number: u64,
    },
    /// A local copy is not there any more: dropped as asked, evicted, or found damaged.
    Ended {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A local copy will not be evicted.
    Kept {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A copy that the store has had since before this node started.
    Has {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
        /// Whether clients can see it.
        visible: bool,
    },
}

/// What became of a sought object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not exist; the node tells when it does, until the store gives up the seek.
    Absent,
    /// It was deleted.
    Deleted,
    /// It may have existed, and no node has a copy.
    Lost,
    /// It could not be found out in time, or not be brought here.
    Unreachable,
    /// There is no room for it here.
    NoRoom,
}

/// Why a commit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another object has the id.
    Exists,
    /// Fewer nodes are live than the copies that it needs at least.
    NotEnoughNodes,
    /// No node has room for the copies that it needs at least.
    StoreFull,
    /// The id was deleted, and this node may still have a copy of the deleted object.
    InUse(Slot),
    /// The node was alone for too long. The commit may have succeeded or not; the object is gone
    /// from here.
    Unreachable,
}

/// What the node tells its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What became of a sought object, for the calls up to this number. One that is brought here
    /// is sealed instead.
    Sought {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
        /// What became of it.
        fate: Fate,
    },
    /// A commit ended; a refused object is ended by the store.
    Committed {
        /// The object.
        id: ObjectId,
        /// The serial of the incarnation.
        serial: u64,
        /// How it ended.
        result: Result<(), Refusal>,
    },
    /// The object that clients wanted to delete is deleted, or did not exist, for the calls up to
    /// this number.
    Deleted {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
    },
    /// The deletes up to this number could not be finished in time; they may still happen.
    DeleteUnreachable {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
    },
    /// End this copy, then say [`Call::Ended`].
    Drop {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Let clients see this copy.
    Publish {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Never evict this copy, then say [`Call::Kept`].
    Keep {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Copies of free ids may be shown for so long from now on.
    Vouch {
        /// Milliseconds.
        ms: u64,
    },
}

/// What can happen to a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its store tells something.
    Local(Call),
    /// Messages of another node arrived.
    Peer(Envelope),
    /// The connection to another node was made or was lost.
    Link {
        /// The other node.
        peer: Slot,
        /// Whether it was made.
        up: bool,
    },
    /// The map of the pool. Each map of a running node is told, in order; after a lost lease the
    /// newest one, as soon as there is a lease again.
    Map(Arc<Map>),
    /// The lease is held, and the node may decide until then.
    Lease(Mono),
    /// The lease is gone.
    LeaseLost,
    /// The memory for a copy is there, or cannot be had.
    Landed {
        /// The landing.
        ticket: Ticket,
        /// Whether there is memory.
        room: bool,
    },
    /// A segment arrived in a landing.
    Arrived {
        /// The transfer.
        transfer: TransferNo,
        /// The segment.
        segment: u32,
        /// Whether its checksum is right.
        intact: bool,
    },
    /// A deadline passed.
    Time,
}

/// What a node asks to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send messages.
    Send {
        /// The receiver.
        to: Slot,
        /// The messages.
        envelope: Envelope,
    },
    /// Tell the store.
    Tell(Told),
    /// Make memory for a copy; answered with [`Event::Landed`].
    Land {
        /// Names it.
        ticket: Ticket,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
    },
    /// Accept the segments of a transfer into a landing; each is answered with
    /// [`Event::Arrived`].
    Accept {
        /// The transfer.
        transfer: TransferNo,
        /// The landing.
        ticket: Ticket,
        /// The node that sends them.
        source: Slot,
    },
    /// Accept no more segments of a transfer; those that arrive are thrown away.
    Refuse(TransferNo),
    /// The copy is complete.
    Seal {
        /// The landing.
        ticket: Ticket,
        /// Whether clients may see it.
        visible: bool,
        /// Whether it is never evicted.
        keep: bool,
    },
    /// The landing is not needed any more.
    Abandon(Ticket),
    /// Send segments over the bulk lane; the copy is pinned until [`Effect::EndServe`].
    Serve {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// The segments.
        ranges: Vec<SegmentRange>,
    },
    /// Send no more of a transfer, and unpin the copy.
    EndServe {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
    },
    /// Report to the leader of the pool: this node leads the group, and all acting nodes have
    /// every record. Repeated until the map says so.
    Report {
        /// The group.
        group: GroupNo,
        /// Since which map it has its acting nodes.
        since: Epoch,
    },
}
