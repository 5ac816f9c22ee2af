//! What programs want of the node besides whole objects: parts of them, and objects in advance.

use std::io;
use std::sync::mpsc::SyncSender;

use plasmon_pool::Event;
use plasmon_proto::ObjectId;
use plasmon_proto::id::OBJECT_ID_BYTES;
use plasmon_proto::parts::{ReadReply, ReadRequest};

use super::Core;
use crate::random::random;

impl Core {
    /// Has objects brought here. Before the node takes part nothing is.
    pub(super) fn prefetch(&mut self, ids: Vec<ObjectId>) {
        if self.is_ready {
            self.step(Event::Prefetch(ids));
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
        self.step(Event::EndRead(number));
    }
}

/// An id that no object has, and that is not of a pool.
fn local_id() -> io::Result<ObjectId> {
    random::<OBJECT_ID_BYTES>().map(|bytes| ObjectId::new(bytes).unmarked())
}
