//! What programs want of the node besides whole objects: parts of them, and objects in advance.

use std::io;
use std::sync::mpsc::SyncSender;

use plasmon_cluster::Slot;
use plasmon_pool::Event;
use plasmon_pool::message::{ObjectParts, TransferNo};
use plasmon_proto::ObjectId;
use plasmon_proto::gather::{GatherReply, GatherRequest};
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::parts::{ReadReply, ReadRequest};

use super::super::assemblies::{Ready, ToOpen};
use super::Core;
use crate::memory::SharedSource;
use crate::random::random;

impl Core {
    /// Has objects brought here. Before the node takes part nothing is.
    pub(super) fn prefetch(&mut self, ids: Vec<ObjectId>) {
        if self.is_ready {
            self.step(Event::Prefetch(ids));
        }
    }

    /// Has the nodes told that objects are not needed. Before the node takes part none is.
    pub(super) fn demote(&mut self, ids: Vec<ObjectId>) {
        if self.is_ready {
            self.step(Event::Demote(ids));
        }
    }

    /// Gives the node a read. Before it takes part the answer is dropped at once.
    pub(super) fn read(
        &mut self,
        number: u64,
        request: ReadRequest,
        answer: SyncSender<ReadReply>,
    ) -> io::Result<()> {
        if !self.is_ready || self.running.is_none() {
            return Ok(());
        }
        let landing = local_id()?;
        self.reads.begin(number, answer);
        self.step(Event::Read { number, landing, request });
        Ok(())
    }

    pub(super) fn end_read(&mut self, number: u64) {
        self.reads.end(number);
        let left = self.gathers.end(number);
        self.delete_parts(left);
        self.step(Event::EndRead(number));
    }

    /// Gives the node a gather, as [`read`](Self::read) does a read.
    pub(super) fn gather(
        &mut self,
        number: u64,
        request: GatherRequest,
        answer: SyncSender<GatherReply>,
    ) -> io::Result<()> {
        if !self.is_ready || self.running.is_none() {
            return Ok(());
        }
        let landing = local_id()?;
        self.gathers.begin(number, answer);
        self.step(Event::Gather { number, landing, request });
        Ok(())
    }

    /// The store has sealed a local object with parts, or cannot.
    pub(super) fn sealed(&mut self, id: ObjectId, is_sealed: bool) {
        let left = match self.gathers.sealed(id, is_sealed) {
            Some(left) => left,
            None => self.reads.sealed(id, is_sealed).into_iter().collect(),
        };
        self.delete_parts(left);
    }

    /// Deletes local objects that no program takes.
    pub(super) fn delete_parts(&mut self, ids: Vec<ObjectId>) {
        for ids in ids.chunks(REQUEST_IDS_MAX) {
            self.store.delete(ids.to_vec());
        }
    }

    /// Puts parts of several copies together for another node.
    pub(super) fn serve_parts(&mut self, of: (Slot, TransferNo), parts: Vec<ObjectParts>) {
        let openings = &mut self.openings;
        let asked = self.assemblies.begin(of, parts, || openings.next_number());
        asked.into_iter().for_each(|next| self.open_part(next));
    }

    fn open_part(&mut self, ToOpen { number, id, birth }: ToOpen) {
        self.store.open_in_place(number, &id, birth);
    }

    /// The store has opened one of the copies, or does not have it.
    pub(super) fn assemble(&mut self, number: u64, source: Option<SharedSource>) {
        let openings = &mut self.openings;
        let (next, ready) = self.assemblies.opened(number, source, || openings.next_number());
        if let Some(next) = next {
            self.open_part(next);
        }
        match ready {
            Some(Ready::Serve(serve)) => self.movers.serve(serve),
            Some(Ready::Tell(peer, transfer, outcome)) => {
                self.step(Event::Assembled { peer, transfer, outcome });
            }
            None => {}
        }
    }
}

/// An id that no object has, and that is not of a pool.
fn local_id() -> io::Result<ObjectId> {
    random::<OBJECT_ID_BYTES>().map(|bytes| ObjectId::new(bytes).unmarked())
}
