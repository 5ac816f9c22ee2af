//! How other threads reach the core.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use plasmon_cluster::Slot;
use plasmon_pool::event::CopyRead;
use plasmon_pool::record::Place;
use plasmon_pool::tally::Verified;
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, GatherRequest};
use plasmon_proto::participation::Participation;
use plasmon_proto::parts::{ReadReply, ReadRequest};
use plasmon_proto::pool_checksum::CopyRepair;

use super::checksums::ChecksumQuestion;
use super::listings::ListQuestion;
use super::regions::RegionQuestion;
use super::subscribers::Subscriber;
use crate::membership;
use crate::memory::SharedSource;
use crate::movers::Done;
use crate::poll::Waker;
use crate::store::StoreEvent;

/// Something for the core.
pub(super) enum Incoming {
    Membership(membership::Event),
    Mover(Done),
    Store(StoreEvent),
    /// An operator asks where an object is.
    Where(ObjectId, SyncSender<Place>),
    /// A program asks what is in a namespace.
    List(ListQuestion),
    /// An operator has the pool compared, within so many milliseconds.
    Verify(u64, SyncSender<Verified>),
    /// A program asks how far the node is with taking part.
    Participation(SyncSender<Participation>),
    /// An operator asks for checksums of a node's copies.
    Checksums(ChecksumQuestion),
    /// An operator has found copies of a node not to be right.
    Repair(Slot, Vec<CopyRepair>),
    /// A copy was read, by this number, or cannot be.
    CopyRead(u64, Option<CopyRead>),
    /// Parts of a spilled copy are in memory, by the number with which it was opened; or they
    /// cannot be read.
    Loaded(u64, Option<SharedSource>),
    /// A program subscribes.
    Subscribe(Subscriber),
    /// A program that subscribed is gone.
    Unsubscribe(u64),
    /// A program will need these objects.
    Prefetch(Vec<ObjectId>),
    /// Programs do not need these objects now.
    Demote(Vec<ObjectId>),
    /// A program reads parts of an object, by this number.
    Read(u64, Box<ReadRequest>, SyncSender<ReadReply>),
    /// A program reads parts of several objects, by this number.
    Gather(u64, GatherRequest, SyncSender<GatherReply>),
    /// It does not want them any more.
    EndRead(u64),
    /// A program asks something of a region.
    Region(RegionQuestion),
    /// What allocated regions by this number is gone.
    RegionOwnerGone(u64),
    /// These local objects are not needed any more.
    Delete(Vec<ObjectId>),
    End,
}

/// Takes what happens to the core, from any thread.
#[derive(Clone)]
pub struct Inbox {
    sender: Sender<Incoming>,
    waker: Arc<Waker>,
}

impl Inbox {
    pub(super) fn new(sender: Sender<Incoming>, waker: Arc<Waker>) -> Self {
        Self { sender, waker }
    }

    /// The store has something to say. What one thread says comes in order.
    pub fn say(&self, event: StoreEvent) {
        self.put(Incoming::Store(event));
    }

    pub(super) fn put(&self, incoming: Incoming) {
        // After the end of the core nothing is to be done any more.
        if self.sender.send(incoming).is_ok() {
            self.waker.wake();
        }
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
