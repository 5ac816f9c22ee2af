//! The store of this node: what the core needs of it, over the socket of `plasmond`.
//!
//! ```text
//!   core ── tell, land, seal, open ──►  NodeStore ── requests ──►  plasmond
//!                                          │ Maps: memory, mapped once
//!   core ◄── Call, Landed, Opened ──  reader thread ◄── calls, answers
//! ```
//!
//! * [`connection`]: one connection, and requests by number. [`reader`]: the thread that reads.
//! * [`maps`]: extents that are mapped here, to read from and to write to.
//! * [`copies`]: a pinned copy that is sent from where it lies.
//!
//! What the node tells the store is collected and sent at the end of each turn of the core, or
//! before any other request, so that the store hears everything in the order in which it was said.

mod connection;
mod copies;
mod maps;
mod reader;

use std::io;
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_pool::{Birth, Ticket, Told};
use plasmon_proto::ObjectId;
use plasmon_proto::limits::CALLS_MAX;
use plasmon_proto::message::{Landing, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::pool::Origin;

pub use self::connection::{ConnectError, StoreConnection};
use self::connection::{OpenRequest, Purpose};
use self::reader::Reader;
use crate::core::Inbox;
use crate::memory::BoxedLanding;
use crate::store::{LandingRequest, SealOptions, Store};

/// The store of this node.
#[derive(Debug)]
pub struct NodeStore {
    connection: Arc<StoreConnection>,
    /// What was not sent yet.
    told: Vec<Told>,
    here: Option<Origin>,
}

impl NodeStore {
    /// Begins to listen to the store. What it says goes to `inbox`, and `ended` is called after its
    /// last word.
    pub fn start(
        connection: &Arc<StoreConnection>,
        inbox: Inbox,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let reader = Reader::new(connection.clone(), inbox);
        let run = move || {
            reader.run();
            ended();
        };
        std::thread::Builder::new().name("pool-store".to_owned()).spawn(run)?;
        Ok(Self { connection: connection.clone(), told: Vec::new(), here: None })
    }

    fn send(&mut self, request: &Request, purpose: Purpose) {
        self.flush();
        self.connection.send(request, purpose);
    }
}

impl Store for NodeStore {
    fn begin(&mut self, slot: Slot) {
        self.here = Some(Origin { slot, boot: self.connection.store() });
        let request = Request::Agent { token: self.connection.store(), slot };
        self.send(&request, Purpose::Seat);
    }

    fn tell(&mut self, told: Told) {
        if matches!(told, Told::Vouch { .. }) {
            self.connection.check_maps();
        }
        self.told.push(told);
    }

    fn flush(&mut self) {
        for told in std::mem::take(&mut self.told).chunks(CALLS_MAX) {
            let request = Request::Tell { told: told.to_vec() };
            self.connection.send(&request, Purpose::Tell);
        }
    }

    fn land(&mut self, request: LandingRequest) {
        let LandingRequest { id, birth, content, .. } = request;
        let sizes = Sizes {
            data: content.data_bytes,
            metadata: content.metadata_bytes.into(),
            attributes: content.attributes_bytes.into(),
        };
        let traits = Traits { tag: content.tag, ..Traits::default() };
        let landing = Landing { id, birth, sizes, traits, growing: false };
        self.connection.expect_landing(request);
        self.send(&Request::Land(landing), Purpose::Land(request));
    }

    fn seal(&mut self, ticket: Ticket, landing: BoxedLanding, options: SealOptions) {
        // It must not be mapped any more where the kernel is to refuse all writers.
        drop(landing);
        let Some(LandingRequest { id, birth, .. }) = self.connection.take_landing(ticket) else {
            return;
        };
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

    fn open(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        let Some(here) = self.here else { return };
        let request = Request::Get { ids: vec![*id] };
        self.send(&request, Purpose::Open(OpenRequest { number, birth, here }));
    }
}
