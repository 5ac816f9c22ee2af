//! The threads that move content: they own the bulk lanes, send segments from memory of the store,
//! and receive into it.
//!
//! ```text
//!  core ── lane, serve, accept, refuse ──► mover ── segments ──► the peer's mover
//!       ◄── arrived, returned, lane ended ─┘
//! ```
//!
//! * A lane belongs to one mover, and so does a transfer: the lane of a transfer follows from its
//!   number, on both sides.
//! * The memory of a landing is moved to the mover with [`Movers::accept`] and comes back with the
//!   last segment, or with [`Done::Returned`], so that no two threads write to it. Where a transfer
//!   is accepted before its memory is here, its lane stands still until then ([`Movers::expect`]).
//! * After [`Movers::refuse`] no byte of the transfer is put anywhere; what still arrives is passed
//!   over.
//! * Transfers that one lane serves take turns, a segment each. One that is served before its lane
//!   is there waits for it. One whose lane ended begins again when the lane is there again: the
//!   receiving side may have asked for it after it saw that end, and what it does not want any more
//!   it ends.
//! * An object without bytes has no segment to send: its landing is complete at once.
//! * Where both nodes have endpoints of one provider, the memory of a large landing is a window,
//!   and the other node writes into it (`windows`, `transfers`). The lane has what is said about
//!   that, and the content where anything fails.

mod job;
mod lane;
mod mover;
mod sending;
mod transfers;
mod windows;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use plasmon_cluster::Slot;
use plasmon_pool::message::TransferNo;

use self::job::Job;
pub(crate) use self::job::{Done, DoneSink, LaneId, Receive, Serve, lane_of};
use self::mover::Mover;
use crate::fabric::{Fabric, Teller};
use crate::links::{BULK_LANES, LaneStream};
use crate::poll::Waker;

/// Movers at most: their numbers are a part of what writes are known by.
const MOVERS_MAX: usize = 64;

/// The movers.
#[derive(Debug)]
pub(crate) struct Movers {
    movers: Vec<Handle>,
}

#[derive(Debug)]
struct Handle {
    jobs: Sender<Job>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Movers {
    /// Starts so many threads, at least one, that use the endpoints of a fabric.
    pub(crate) fn start(
        count: usize,
        sink: &DoneSink,
        fabric: Option<&Arc<Fabric>>,
    ) -> io::Result<Self> {
        let movers = (0..count.clamp(1, MOVERS_MAX)).map(|number| {
            let (jobs, inbox) = channel();
            let waker = Arc::new(Waker::new()?);
            let of_fabric = fabric.map(|fabric| (fabric.clone(), number));
            let mut mover = Mover::new(inbox, waker.clone(), sink.clone(), of_fabric)?;
            let name = format!("pool-mover-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || mover.run())?;
            Ok(Handle { jobs, waker, thread: Some(thread) })
        });
        let movers = movers.collect::<io::Result<Vec<Handle>>>()?;
        if let Some(fabric) = fabric {
            fabric.attach(movers.iter().map(Handle::teller).collect());
        }
        Ok(Self { movers })
    }

    /// Gives a lane to its mover, over this connection; an earlier one is closed.
    pub(crate) fn add(&self, id: LaneId, connection: u64, stream: LaneStream) {
        self.give(id, Job::Lane { id, connection, stream });
    }

    /// Ends the lanes of a peer.
    pub(crate) fn end_peer(&self, peer: Slot) {
        self.movers.iter().for_each(|mover| mover.give(Job::EndPeer(peer)));
    }

    /// Sends segments of an object.
    pub(crate) fn serve(&self, serve: Serve) {
        let lane = (serve.peer, lane_of(serve.transfer));
        self.give(lane, Job::Serve(serve));
    }

    /// Sends no more of a transfer.
    pub(crate) fn end_serve(&self, peer: Slot, transfer: TransferNo) {
        self.give((peer, lane_of(transfer)), Job::EndServe(peer, transfer));
    }

    /// Segments of this transfer wait until [`accept`](Self::accept).
    pub(crate) fn expect(&self, lane: LaneId, transfer: TransferNo) {
        self.give(lane, Job::Expect(lane, transfer));
    }

    /// Receives the segments of a transfer over its lane.
    pub(crate) fn accept(&self, receive: Receive) {
        self.give(receive.lane, Job::Accept(receive));
    }

    /// Receives no more of a transfer; its memory comes back with [`Done::Returned`].
    pub(crate) fn refuse(&self, lane: LaneId, transfer: TransferNo) {
        self.give(lane, Job::Refuse(transfer));
    }

    /// Gives a job to the mover of a lane.
    fn give(&self, (peer, lane): LaneId, job: Job) {
        let number = usize::from(peer.0) * usize::from(BULK_LANES) + usize::from(lane);
        if let Some(mover) = self.movers.get(number % self.movers.len().max(1)) {
            mover.give(job);
        }
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.movers.iter().for_each(|mover| mover.give(Job::End));
        for mover in &mut self.movers {
            // A thread that panicked has said so itself.
            let _ = mover.thread.take().map(JoinHandle::join);
        }
    }
}

impl Handle {
    /// What tells the mover what became of writes.
    fn teller(&self) -> Teller {
        let (jobs, waker) = (self.jobs.clone(), self.waker.clone());
        Box::new(move |news| {
            // After the end of the mover nothing waits for its writes.
            if jobs.send(Job::Fabric(news)).is_ok() {
                waker.wake();
            }
        })
    }

    fn give(&self, job: Job) {
        // A mover ends only when it panicked; its lanes have ended then, which the peers see.
        if self.jobs.send(job).is_ok() {
            self.waker.wake();
        }
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod window_tests;
