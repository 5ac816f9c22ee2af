//! What the core and the movers tell each other.

use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_pool::message::{SegmentRange, TransferNo};

use crate::fabric::News;
use crate::links::{BULK_LANES, LaneStream};
use crate::memory::{BoxedLanding, SharedSource};

/// A lane by its peer and its number.
pub(crate) type LaneId = (Slot, u8);

/// The lane of a transfer with a peer.
pub(crate) fn lane_of(transfer: TransferNo) -> u8 {
    (transfer.0 % u64::from(BULK_LANES)) as u8
}

/// What a mover is to do.
pub(super) enum Job {
    /// Has a lane from now on, over this connection; an earlier one of the id is closed.
    Lane { id: LaneId, connection: u64, stream: LaneStream },
    /// All lanes of a peer end, with what they send.
    EndPeer(Slot),
    /// Sends segments of an object.
    Serve(Serve),
    /// Sends no more of a transfer.
    EndServe(Slot, TransferNo),
    /// Segments of this transfer wait until its memory comes.
    Expect(LaneId, TransferNo),
    /// Receives the segments of a transfer.
    Accept(Receive),
    /// Receives no more of it, and gives the memory back.
    Refuse(TransferNo),
    /// What became of writes, and of endpoints.
    Fabric(News),
    /// Ends the thread.
    End,
}

/// A transfer that is served.
pub(crate) struct Serve {
    pub(crate) peer: Slot,
    pub(crate) transfer: TransferNo,
    pub(crate) source: SharedSource,
    pub(crate) ranges: Vec<SegmentRange>,
}

/// A transfer that is received.
pub(crate) struct Receive {
    pub(crate) lane: LaneId,
    pub(crate) transfer: TransferNo,
    /// How many segments were asked for.
    pub(crate) segments: u32,
    pub(crate) memory: BoxedLanding,
}

/// What a mover has done.
pub(crate) enum Done {
    /// A segment arrived.
    Arrived {
        /// The transfer.
        transfer: TransferNo,
        /// The segment.
        segment: u32,
        /// Whether its checksum is right.
        intact: bool,
        /// The memory, with the last of the segments that were asked for: nothing is received into
        /// it any more.
        memory: Option<BoxedLanding>,
    },
    /// Content arrives from this node, at least every [`MOVING_MS`](super::lane::MOVING_MS) while
    /// it does.
    Moving(Slot),
    /// The memory of a transfer that was refused.
    Returned(TransferNo, BoxedLanding),
    /// This connection of a lane ended, with what the lane was to send.
    LaneEnded {
        /// The lane.
        id: LaneId,
        /// The connection, as it was given.
        connection: u64,
    },
    /// A mover cannot go on: the node has to end.
    Failed(std::io::Error),
}

/// Takes what the movers have done. It must not wait.
pub(crate) type DoneSink = Arc<dyn Fn(Done) + Send + Sync>;
