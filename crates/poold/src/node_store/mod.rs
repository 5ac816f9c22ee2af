//! The store of this node: what the core needs of it, over the socket of `plasmond`.
//!
//! ```text
//!   core ── tell, land, seal, open ──►  NodeStore ── requests ──►  plasmond
//!                                          │ Maps: memory, mapped once
//!   core ◄── Call, Landed, Opened ──    Reader  ◄── calls, answers
//! ```
//!
//! * [`connection`]: one connection, and requests by number. [`reader`]: what comes over it.
//! * [`maps`]: extents that are mapped here, to read from and to write to.
//! * [`shown`]: the index of the store, where the copies are found that its clients can see.
//! * [`copies`]: a pinned copy that is sent from where it lies. [`files`]: one that is spilled.
//! * [`parts`]: local objects with parts of what is elsewhere.
//! * [`regions`]: objects under construction that all nodes write.
//!
//! What the node tells the store, and that it wants memory, is collected and sent at the end of
//! each turn of the core, or before any other request, so that the store hears everything in the
//! order in which it was said. Meanwhile the core has asked another node for what is to go into the
//! memory.

mod connection;
mod copies;
mod files;
mod maps;
mod parts;
mod reader;
mod regions;
mod shown;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_cluster::Slot;
use plasmon_pool::{Birth, Ticket, Told};
use plasmon_proto::ObjectId;
use plasmon_proto::limits::{ADOPTIONS_TOLD_MAX, CALLS_MAX};
use plasmon_proto::message::{Landing, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::pool::Origin;
use plasmon_proto::pool_adoption::AdoptionTold;
use plasmon_proto::pool_listing::ListQuery;

pub use self::connection::{ConnectError, StoreConnection};
use self::connection::{OpenRequest, Purpose};
use self::copies::{PinnedCopy, View};
use self::reader::Reader;
use self::shown::Look;
use crate::memory::BoxedLanding;
use crate::store::{AllocationRequest, LandingRequest, SealOptions, Store, StoreEvent};

/// So often mappings that are of no use are given up.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What waits to be sent.
enum Unsent {
    Told(Told),
    Land(LandingRequest),
}

/// The store of this node.
pub struct NodeStore {
    connection: Arc<StoreConnection>,
    reader: Reader,
    /// Called once, when the store has ended.
    ended: Option<Box<dyn FnOnce() + Send>>,
    sweep_at: Instant,
    /// What was not sent yet.
    unsent: Vec<Unsent>,
    here: Option<Origin>,
    /// What did not have to be asked.
    answers: VecDeque<StoreEvent>,
}

impl NodeStore {
    /// The store at the other end of a connection; `ended` is called after its last word.
    pub fn new(connection: &Arc<StoreConnection>, ended: impl FnOnce() + Send + 'static) -> Self {
        Self {
            connection: connection.clone(),
            reader: Reader::new(connection.clone()),
            ended: Some(Box::new(ended)),
            sweep_at: Instant::now(),
            unsent: Vec::new(),
            here: None,
            answers: VecDeque::new(),
        }
    }

    fn send(&mut self, request: &Request, purpose: Purpose) {
        self.flush();
        self.connection.send(request, purpose);
    }

    /// Looks for a copy in the index; what the store is to be asked for if it is not found there.
    fn look_for(&mut self, (number, id, birth): (u64, ObjectId, Birth)) -> Option<OpenRequest> {
        // Before the node has its slot no copy is one that another node can want.
        let here = self.here.unwrap_or(Origin { slot: Slot(u16::MAX), boot: 0 });
        let open = OpenRequest { number, id, birth, here };
        match self.connection.look(&open) {
            Look::Pinned(view) => {
                if let Some(copy) = PinnedCopy::new(View::Shown(view), &open) {
                    let opened = StoreEvent::Opened(number, Some(Arc::new(copy)));
                    self.answers.push_back(opened);
                    return None;
                }
            }
            Look::Unmapped(extent) => {
                let request = Request::Extents { extents: vec![extent], write: false };
                self.send(&request, Purpose::MapShown(open, extent));
                return None;
            }
            Look::TableChanged => self.send(&Request::Index, Purpose::Index),
            Look::Missing => {}
        }
        Some(open)
    }

    fn send_told(&self, told: Vec<Told>) {
        for told in told.chunks(CALLS_MAX) {
            let request = Request::Tell { told: told.to_vec() };
            self.connection.send(&request, Purpose::Tell);
        }
    }

    fn send_land(&self, request: LandingRequest) {
        if parts::is_parts(&request) {
            return self.connection.send(&parts::create(&request), Purpose::Land(request));
        }
        let LandingRequest { id, birth, content, .. } = request;
        let sizes = Sizes {
            data: content.data_bytes,
            metadata: content.metadata_bytes.into(),
            attributes: content.attributes_bytes.into(),
        };
        let traits = Traits { tag: content.tag, ..Traits::default() };
        let landing = Landing { id, birth, sizes, traits, growing: false };
        self.connection.send(&Request::Land(landing), Purpose::Land(request));
    }
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeStore").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Store for NodeStore {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connection.as_fd())
    }

    fn receive(&mut self, events: &mut Vec<StoreEvent>) -> bool {
        let is_open = self.reader.read(events);
        if !is_open && let Some(ended) = self.ended.take() {
            ended();
        }
        is_open
    }

    fn answer(&mut self) -> Option<StoreEvent> {
        self.answers.pop_front()
    }

    fn begin(&mut self, slot: Slot) {
        self.here = Some(Origin { slot, boot: self.connection.store() });
        let request = Request::Agent { token: self.connection.store(), slot };
        self.send(&request, Purpose::Seat);
    }

    fn tell(&mut self, told: Told) {
        if matches!(told, Told::Vouch { .. }) {
            self.connection.check_maps();
        }
        self.unsent.push(Unsent::Told(told));
    }

    fn tell_adoptions(&mut self, told: Vec<AdoptionTold>) {
        for told in told.chunks(ADOPTIONS_TOLD_MAX) {
            let request = Request::TellAdoptions { told: told.to_vec() };
            self.send(&request, Purpose::Tell);
        }
    }

    fn flush(&mut self) {
        let now = Instant::now();
        if now >= self.sweep_at {
            self.connection.maps().sweep();
            if let Some(shown) = self.connection.shown() {
                shown.sweep();
            }
            self.sweep_at = now + SWEEP_EVERY;
        }
        let mut told = Vec::new();
        for unsent in std::mem::take(&mut self.unsent) {
            match unsent {
                Unsent::Told(one) => told.push(one),
                Unsent::Land(request) => {
                    self.send_told(std::mem::take(&mut told));
                    self.send_land(request);
                }
            }
        }
        self.send_told(told);
    }

    fn land(&mut self, request: LandingRequest) {
        self.connection.expect_landing(request);
        self.unsent.push(Unsent::Land(request));
    }

    fn seal(&mut self, ticket: Ticket, landing: BoxedLanding, options: SealOptions) {
        // It must not be mapped any more where the kernel is to refuse all writers.
        drop(landing);
        let Some(request) = self.connection.take_landing(ticket) else { return };
        let LandingRequest { id, birth, .. } = request;
        if parts::is_parts(&request) {
            return self.send(&Request::Seal { id }, Purpose::SealParts(id));
        }
        let SealOptions { visible, keep } = options;
        let request = Request::SealLanded { id, birth, visible, keep };
        self.send(&request, Purpose::Seal { id, birth });
    }

    fn abandon(&mut self, ticket: Ticket, landing: BoxedLanding) {
        drop(landing);
        if let Some(LandingRequest { id, .. }) = self.connection.take_landing(ticket) {
            self.send(&Request::Abort { id }, Purpose::Abort);
        }
    }

    fn delete(&mut self, ids: Vec<ObjectId>) {
        self.send(&Request::Delete { ids }, Purpose::Delete);
    }

    fn demote(&mut self, ids: Vec<ObjectId>) {
        self.send(&Request::Demote { ids }, Purpose::Tell);
    }

    fn allocate(&mut self, request: AllocationRequest) {
        self.send(&regions::create(&request), Purpose::Allocate(request));
    }

    fn seal_region(&mut self, id: ObjectId, memory: BoxedLanding, settles: bool) {
        // It must not be mapped any more where the kernel is to refuse all writers.
        drop(memory);
        self.send(&Request::Seal { id }, Purpose::SealRegion { id, settles });
    }

    fn end_region(&mut self, id: ObjectId, memory: BoxedLanding) {
        drop(memory);
        self.send(&Request::Abort { id }, Purpose::Abort);
    }

    fn open(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        if let Some(open) = self.look_for((number, *id, birth)) {
            self.flush();
            self.connection.ask_open(open);
        }
    }

    fn open_in_place(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        if let Some(open) = self.look_for((number, *id, birth)) {
            self.send(&Request::OpenSpilled { id: *id }, Purpose::OpenFile(open));
        }
    }

    fn check_logged(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        self.send(&Request::CheckLogged { id: *id, birth }, Purpose::CheckLogged(number));
    }

    fn list(&mut self, number: u64, query: ListQuery) {
        self.send(&Request::ListNamespace(query), Purpose::List(number));
    }

    fn describe(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        self.send(&Request::Describe { id: *id, birth }, Purpose::Describe(number));
    }
}

#[cfg(test)]
mod tests;
