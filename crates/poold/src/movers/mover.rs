//! One mover: a thread with a poll of its own, the lanes that are its, and what moves over them.
//!
//! A turn takes the jobs of the core, then what has become ready, then what was waited for long
//! enough; then every lane that may have something to do is driven once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use plasmon_cluster::Slot;
use plasmon_fabric::{Completion, Endpoint};
use plasmon_net::note::Note;
use plasmon_pool::message::TransferNo;

use super::job::{Done, DoneSink, Job, LaneId, Receive, Serve, lane_of};
use super::lane::{Lane, Turn};
use super::transfers::{Refused, Transfers};
use super::windows::{WINDOW_BYTES_MIN, window_note};
use crate::clock::now_ms;
use crate::fabric::{self, Fabric, News};
use crate::links::LaneStream;
use crate::poll::{Interest, Poll, Waker};

/// The number of the waker in a mover's poll.
const WAKER: u64 = 0;

/// One thread.
pub(super) struct Mover {
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
    /// The endpoints, and the number of this mover there.
    fabric: Option<(Arc<Fabric>, usize)>,
    /// The lanes of writes that are under way.
    writes: BTreeMap<u64, LaneId>,
    next_write: u64,
    is_over: bool,
    sink: DoneSink,
}

impl Mover {
    pub(super) fn new(
        inbox: Receiver<Job>,
        waker: Arc<Waker>,
        sink: DoneSink,
        fabric: Option<(Arc<Fabric>, usize)>,
    ) -> io::Result<Self> {
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
            fabric,
            writes: BTreeMap::new(),
            next_write: 0,
            is_over: false,
            sink,
        })
    }

    /// Goes on until the last job, or until the poll fails.
    pub(super) fn run(&mut self) {
        if let Err(error) = self.run_turns() {
            (self.sink)(Done::Failed(error));
        }
        // The store has the memory of its landings back when the connection to it ends.
        for endpoint in self.transfers.endpoints_of(|_| true) {
            fabric::close(&endpoint);
        }
    }

    fn run_turns(&mut self) -> io::Result<()> {
        while !self.is_over {
            let ready = self.poll.wait(self.time_left())?;
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
            self.time_passed();
            while let Some(id) = self.due.pop_first() {
                self.drive(id);
            }
        }
        Ok(())
    }

    /// Takes what the core wants. Lanes are driven after that.
    fn take_jobs(&mut self) {
        while let Ok(job) = self.inbox.try_recv() {
            match job {
                Job::Lane { id, connection, stream } => self.add(id, connection, stream),
                Job::EndPeer(peer) => self.end_peer(peer),
                Job::Serve(serve) => self.serve(serve),
                Job::EndServe(peer, transfer) => self.end_serve(peer, transfer),
                Job::Expect(lane, transfer) => self.expect(lane, transfer),
                Job::Accept(receive) => self.accept(receive),
                Job::Refuse(transfer) => self.refuse(transfer),
                Job::Fabric(News::Written(completion)) => self.written(&completion),
                Job::Fabric(News::Endpoints) => self.tell_endpoints(),
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
        let fabric = self.fabric.as_ref().map(|(fabric, _)| &**fabric);
        let early = self.early.remove(&id).into_iter().flatten();
        early.for_each(|serve| lane.serve(serve, fabric));
        self.numbers.insert(number, id);
        self.lanes.insert(id, lane);
        if let Some((fabric, _)) = &self.fabric {
            let endpoints = fabric.endpoints();
            if !endpoints.endpoints.is_empty() {
                self.tell(id, &Note::Endpoints(endpoints));
            }
        }
        self.due.insert(id);
    }

    fn end_peer(&mut self, peer: Slot) {
        let lanes = self.lanes.keys().filter(|(slot, _)| *slot == peer);
        for id in lanes.copied().collect::<Vec<_>>() {
            self.remove(id);
        }
        self.early.retain(|(slot, _), _| *slot != peer);
        self.lose(|(slot, _)| slot == peer);
    }

    fn serve(&mut self, serve: Serve) {
        let id = (serve.peer, lane_of(serve.transfer));
        match self.lanes.get_mut(&id) {
            Some(lane) => {
                lane.serve(serve, self.fabric.as_ref().map(|(fabric, _)| &**fabric));
                self.due.insert(id);
            }
            None => {
                self.end_serve(serve.peer, serve.transfer);
                self.early.entry(id).or_default().push(serve);
            }
        }
    }

    fn end_serve(&mut self, peer: Slot, transfer: TransferNo) {
        let id = (peer, lane_of(transfer));
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
        self.lose(|lost| lost == id);
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
        let mover = self.fabric.as_ref().map_or(0, |(_, number)| *number);
        let (writes, next_write) = (&mut self.writes, &mut self.next_write);
        let driven = lane.drive(&mut Turn {
            transfers: &mut self.transfers,
            fabric: self.fabric.as_ref().map(|(fabric, _)| &**fabric),
            next_token: &mut || {
                *next_write += 1;
                let token = Fabric::token(mover, *next_write);
                writes.insert(token, id);
                token
            },
            done: &mut |done| sink(done),
        });
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

    /// Takes note of a transfer whose memory is not here yet. Its peer waits for a window for a
    /// while, and then sends.
    fn expect(&mut self, lane: LaneId, transfer: TransferNo) {
        self.transfers.expect(lane, transfer);
    }

    /// Takes the memory of a transfer: as a window, where the peer can write into it.
    fn accept(&mut self, receive: Receive) {
        if let Some(receive) = self.open_window(receive)
            && let Some(done) = self.transfers.accept(receive)
        {
            (self.sink)(done);
        }
        self.drive_waiting();
    }

    /// Opens a window; what has none comes back.
    fn open_window(&mut self, mut receive: Receive) -> Option<Receive> {
        let (lane, transfer) = (receive.lane, receive.transfer);
        let is_large = receive.memory.bytes().len() as u64 >= WINDOW_BYTES_MIN;
        let endpoint = if is_large { self.endpoint(lane) } else { None };
        let Some(endpoint) = endpoint.filter(|_| !self.transfers.is_sent(transfer)) else {
            return Some(receive);
        };
        // Into what is here, which came from another peer, nothing is written again.
        let is_empty = receive.memory.arrived().is_empty();
        let opened =
            if is_empty { self.transfers.open(receive, endpoint.clone()) } else { Err(receive) };
        match opened {
            Ok(grant) => {
                self.tell(lane, &window_note(transfer, &endpoint, grant));
                None
            }
            Err(receive) => {
                self.tell(lane, &Note::NoWindow { transfer: transfer.0 });
                Some(receive)
            }
        }
    }

    fn refuse(&mut self, transfer: TransferNo) {
        match self.transfers.refuse(transfer, now_ms()) {
            Refused::Memory(memory) => (self.sink)(Done::Returned(transfer, memory)),
            Refused::Stop(lane) => self.tell(lane, &Note::Stop { transfer: transfer.0 }),
            Refused::Nothing => {}
        }
        self.drive_waiting();
    }

    /// The endpoint for transfers with the peer of a lane.
    fn endpoint(&self, id: LaneId) -> Option<Arc<Endpoint>> {
        self.lanes.get(&id)?.endpoint(&self.fabric.as_ref()?.0)
    }

    /// Tells the peer of a lane something, as long as there is the lane.
    fn tell(&mut self, id: LaneId, note: &Note) {
        self.with_lane(id, |lane| lane.tell(note));
    }

    /// Does something with a lane, which is driven then, or has ended.
    fn with_lane(
        &mut self,
        id: LaneId,
        mut act: impl FnMut(&mut Lane) -> Result<(), plasmon_net::Error>,
    ) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        match act(lane) {
            Ok(()) => _ = self.due.insert(id),
            Err(error) => self.end(id, &error.to_string()),
        }
    }

    /// A write ended.
    fn written(&mut self, completion: &Completion) {
        let Some(id) = self.writes.remove(&completion.token) else { return };
        let mut bytes = 0;
        self.with_lane(id, |lane| {
            bytes = lane.written(completion)?;
            Ok(())
        });
        if let Some((fabric, _)) = &self.fabric {
            fabric.count(bytes);
        }
    }

    /// Peers are told what they can write into now, and windows of endpoints that are closed are
    /// memory again.
    fn tell_endpoints(&mut self) {
        self.take_dead();
        let Some((fabric, _)) = &self.fabric else { return };
        let note = Note::Endpoints(fabric.endpoints());
        let lanes: Vec<LaneId> = self.lanes.keys().copied().collect();
        lanes.into_iter().for_each(|id| self.tell(id, &note));
    }

    /// The peers of some lanes are lost, and may be in the middle of a write.
    fn lose(&mut self, is_lost: impl Fn(LaneId) -> bool) {
        self.reset(self.transfers.endpoints_of(is_lost));
    }

    /// Closes endpoints, so that nothing is written into their windows any more.
    fn reset(&mut self, endpoints: Vec<Arc<Endpoint>>) {
        let Some((fabric, _)) = &self.fabric else { return };
        for endpoint in endpoints {
            tracing::debug!("an endpoint of {} is closed", endpoint.provider_name());
            fabric.reset(&endpoint);
        }
        self.take_dead();
    }

    fn take_dead(&mut self) {
        for (transfer, memory) in self.transfers.close_dead() {
            (self.sink)(Done::Returned(transfer, memory));
        }
    }

    /// How long nothing has to be done if nothing happens.
    fn time_left(&self) -> Option<Duration> {
        if !self.buffered.is_empty() {
            return Some(Duration::ZERO);
        }
        let of_lanes = self.lanes.values().filter_map(Lane::next_deadline_ms);
        let next = of_lanes.chain(self.transfers.next_deadline_ms()).min()?;
        Some(Duration::from_millis(next.saturating_sub(now_ms())))
    }

    /// What was waited for long enough is not waited for any more.
    fn time_passed(&mut self) {
        if self.fabric.is_none() {
            return;
        }
        let now = now_ms();
        let stuck = self.lanes.values().flat_map(|lane| lane.stuck(now));
        let closed = stuck.chain(self.transfers.overdue(now)).collect();
        self.reset(closed);
        let is_due = |lane: &Lane| lane.next_deadline_ms().is_some_and(|at_ms| at_ms <= now);
        let due = self.lanes.iter().filter(|(_, lane)| is_due(lane));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.with_lane(id, |lane| lane.time_passed(now));
        }
    }

    fn end(&mut self, id: LaneId, why: &str) {
        tracing::debug!("bulk lane {} of slot {} ended: {why}", id.1, id.0);
        if let Some(connection) = self.interrupt(id) {
            (self.sink)(Done::LaneEnded { id, connection });
        }
    }
}
