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

mod job;
mod lane;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plasmon_cluster::Slot;
use plasmon_pool::message::TransferNo;

use self::job::Job;
pub(crate) use self::job::{Done, DoneSink, LaneId, Receive, Serve};
use self::lane::{Lane, Transfers};
use crate::links::{BULK_LANES, LaneStream};
use crate::poll::{Interest, Poll, Waker};

/// The number of the waker in a mover's poll.
const WAKER: u64 = 0;

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
    /// Starts so many threads, at least one.
    pub(crate) fn start(count: usize, sink: &DoneSink) -> io::Result<Self> {
        let movers = (0..count.max(1)).map(|number| {
            let (jobs, inbox) = channel();
            let waker = Arc::new(Waker::new()?);
            let mut mover = Mover::new(inbox, waker.clone(), sink.clone())?;
            let name = format!("pool-mover-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || mover.run())?;
            Ok(Handle { jobs, waker, thread: Some(thread) })
        });
        Ok(Self { movers: movers.collect::<io::Result<_>>()? })
    }

    /// The lane of a transfer with a peer.
    pub(crate) fn lane_of(transfer: TransferNo) -> u8 {
        (transfer.0 % u64::from(BULK_LANES)) as u8
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
        let lane = (serve.peer, Self::lane_of(serve.transfer));
        self.give(lane, Job::Serve(serve));
    }

    /// Sends no more of a transfer.
    pub(crate) fn end_serve(&self, peer: Slot, transfer: TransferNo) {
        self.give((peer, Self::lane_of(transfer)), Job::EndServe(peer, transfer));
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
    fn give(&self, job: Job) {
        // A mover ends only when it panicked; its lanes have ended then, which the peers see.
        if self.jobs.send(job).is_ok() {
            self.waker.wake();
        }
    }
}

/// One thread.
struct Mover {
    inbox: Receiver<Job>,
    waker: Arc<Waker>,
    poll: Poll,
    lanes: BTreeMap<LaneId, Lane>,
    numbers: BTreeMap<u64, LaneId>,
    next_number: u64,
    /// What is to be served on lanes that are not there yet. The node limits how many transfers of
    /// a peer are served.
    early: BTreeMap<LaneId, Vec<Serve>>,
    transfers: Transfers,
    /// Lanes that may have something to do.
    due: BTreeSet<LaneId>,
    /// Lanes that have received more than they have looked at, which no event tells of.
    buffered: BTreeSet<LaneId>,
    is_over: bool,
    sink: DoneSink,
}

impl Mover {
    fn new(inbox: Receiver<Job>, waker: Arc<Waker>, sink: DoneSink) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&waker, WAKER, Interest::Read)?;
        Ok(Self {
            inbox,
            waker,
            poll,
            lanes: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: WAKER + 1,
            early: BTreeMap::new(),
            transfers: Transfers::default(),
            due: BTreeSet::new(),
            buffered: BTreeSet::new(),
            is_over: false,
            sink,
        })
    }

    fn run(&mut self) {
        while !self.is_over {
            let time = (!self.buffered.is_empty()).then_some(Duration::ZERO);
            let ready = match self.poll.wait(time) {
                Ok(ready) => ready,
                Err(error) => return (self.sink)(Done::Failed(error)),
            };
            self.waker.clear();
            self.take_jobs();
            for ready in ready {
                let Some(id) = self.numbers.get(&ready.number).copied() else { continue };
                // One that stands still would not see its end, and the poll would not rest.
                let waits = |lane: &Lane| lane.is_waiting();
                if ready.ended && self.lanes.get(&id).is_some_and(waits) {
                    self.end(id, "its connection broke while it stood still");
                }
                self.due.insert(id);
            }
            self.due.append(&mut self.buffered);
            while let Some(id) = self.due.pop_first() {
                self.drive(id);
            }
        }
    }

    /// Takes what the core wants. Lanes are driven after that.
    fn take_jobs(&mut self) {
        while let Ok(job) = self.inbox.try_recv() {
            match job {
                Job::Lane { id, connection, stream } => self.add(id, connection, stream),
                Job::EndPeer(peer) => self.end_peer(peer),
                Job::Serve(serve) => self.serve(serve),
                Job::EndServe(peer, transfer) => self.end_serve(peer, transfer),
                Job::Expect(lane, transfer) => self.transfers.expect(lane, transfer),
                Job::Accept(receive) => {
                    if let Some(done) = self.transfers.accept(receive) {
                        (self.sink)(done);
                    }
                    self.drive_waiting();
                }
                Job::Refuse(transfer) => {
                    if let Some(memory) = self.transfers.refuse(transfer) {
                        (self.sink)(Done::Returned(transfer, memory));
                    }
                    self.drive_waiting();
                }
                Job::End => self.is_over = true,
            }
        }
    }

    fn add(&mut self, id: LaneId, connection: u64, stream: LaneStream) {
        self.interrupt(id);
        let number = self.next_number;
        self.next_number += 1;
        let added = self.poll.add(&stream, number, Interest::Read);
        if let Err(error) = added {
            tracing::warn!("a bulk lane cannot be waited for: {error}");
            return (self.sink)(Done::LaneEnded { id, connection });
        }
        let mut lane = Lane::new(id, number, connection, stream);
        self.early.remove(&id).into_iter().flatten().for_each(|serve| lane.serve(serve));
        self.numbers.insert(number, id);
        self.lanes.insert(id, lane);
        self.due.insert(id);
    }

    fn end_peer(&mut self, peer: Slot) {
        let lanes = self.lanes.keys().filter(|(slot, _)| *slot == peer);
        for id in lanes.copied().collect::<Vec<_>>() {
            self.remove(id);
        }
        self.early.retain(|(slot, _), _| *slot != peer);
    }

    fn serve(&mut self, serve: Serve) {
        let id = (serve.peer, Movers::lane_of(serve.transfer));
        match self.lanes.get_mut(&id) {
            Some(lane) => {
                lane.serve(serve);
                self.due.insert(id);
            }
            None => {
                self.end_serve(serve.peer, serve.transfer);
                self.early.entry(id).or_default().push(serve);
            }
        }
    }

    fn end_serve(&mut self, peer: Slot, transfer: TransferNo) {
        let id = (peer, Movers::lane_of(transfer));
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.end_serve(transfer);
        }
        if let Some(early) = self.early.get_mut(&id) {
            early.retain(|serve| serve.transfer != transfer);
        }
    }

    fn remove(&mut self, id: LaneId) -> Option<Lane> {
        let mut lane = self.lanes.remove(&id)?;
        self.numbers.remove(&lane.number());
        lane.close();
        Some(lane)
    }

    /// Ends the connection of a lane; what it serves waits for the next one.
    fn interrupt(&mut self, id: LaneId) -> Option<u64> {
        let mut lane = self.remove(id)?;
        self.early.entry(id).or_default().extend(lane.take_serves());
        Some(lane.connection())
    }

    /// Lanes that stood still because memory was not there go on.
    fn drive_waiting(&mut self) {
        let waiting = self.lanes.iter().filter(|(_, lane)| lane.is_waiting());
        self.due.extend(waiting.map(|(id, _)| *id));
    }

    fn drive(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let sink = &self.sink;
        let driven = lane.drive(&mut self.transfers, &mut |done| sink(done));
        if let Err(error) = driven {
            return self.end(id, &error.to_string());
        }
        if lane.has_buffered() {
            self.buffered.insert(id);
        }
        if let Some(interest) = lane.new_interest() {
            let changed = self.poll.change(lane.stream(), lane.number(), interest);
            if let Err(error) = changed {
                return self.end(id, &format!("it cannot be waited for: {error}"));
            }
        }
        // A transfer is accepted before its segments are asked for, so one that is not known after
        // a look at the jobs never will be.
        if let Some(transfer) = self.transfers.take_unknown() {
            self.take_jobs();
            if self.transfers.is_known(transfer) {
                self.due.insert(id);
            } else {
                self.end(id, &format!("a segment of transfer {}, which is unknown", transfer.0));
            }
        }
    }

    fn end(&mut self, id: LaneId, why: &str) {
        tracing::debug!("bulk lane {} of slot {} ended: {why}", id.1, id.0);
        if let Some(connection) = self.interrupt(id) {
            (self.sink)(Done::LaneEnded { id, connection });
        }
    }
}

#[cfg(test)]
mod tests;
