//! The copies that the store shows its clients, found and pinned in the shared index.
//!
//! To ask the store for a copy takes two changes of threads, nearly as long as to send a small
//! object. What the index does not show, such as copies that are withheld, is asked for all the
//! same, and so is what cannot be read at the moment.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::{IndexTable, Welcome};
use plasmon_shm::channel::ChannelClient;
use plasmon_shm::control::ControlReader;
use plasmon_shm::index::IndexReader;
use plasmon_shm::map::{Populate, ReadMap};
use plasmon_shm::reader::{OwnedView, ReadOutcome, Reader};

/// What a look for a copy ended in.
pub(super) enum Look {
    /// The copy, pinned.
    Pinned(OwnedView),
    /// It lies in an extent that is not mapped yet.
    Unmapped(ExtentId),
    /// The store has another table by now.
    TableChanged,
    /// The store is to be asked.
    Missing,
}

/// The index of the store, and the extents that were read.
#[derive(Debug)]
pub(super) struct Shown {
    reader: Arc<Reader>,
}

impl Shown {
    /// Maps what came with a welcome that has a channel.
    pub(super) fn new(welcome: &Welcome, fds: Vec<OwnedFd>) -> io::Result<Self> {
        let mut fds = fds.into_iter();
        let mut next =
            || fds.next().ok_or_else(|| io::Error::other("a welcome without its descriptors"));
        let control = ControlReader::new(next()?)?;
        let index = IndexReader::new(next()?, welcome.index.number, welcome.index.slots)?;
        let channel = ChannelClient::new(next()?)?;
        Ok(Self { reader: Arc::new(Reader::new(control, index, channel)?) })
    }

    /// Looks for a copy, and pins it.
    pub(super) fn look(&self, id: &ObjectId) -> Look {
        match self.reader.get(id) {
            Ok(ReadOutcome::Object(view)) => {
                self.reader.touch(view.record());
                Look::Pinned(view.into_owned(self.reader.clone()))
            }
            Ok(ReadOutcome::Unmapped(held)) => Look::Unmapped(held.image().placement.extent),
            Ok(ReadOutcome::TableChanged) => Look::TableChanged,
            // Of the last two the store says what is the matter.
            Ok(ReadOutcome::Missing | ReadOutcome::Parted) | Err(_) => Look::Missing,
        }
    }

    /// Maps an extent.
    pub(super) fn map(&self, extent: ExtentId, fd: OwnedFd, bytes: u64) -> io::Result<()> {
        self.reader.map_extent(extent, ReadMap::new(fd, bytes, Populate::No)?)
    }

    /// Goes to another table, unless a newer one is there.
    pub(super) fn switch(&self, table: IndexTable, fd: OwnedFd) -> io::Result<()> {
        let index = self.reader.index();
        if table.number <= index.number() {
            return Ok(());
        }
        index.switch(fd, table.number, table.slots)
    }

    /// Unmaps what is gone.
    pub(super) fn sweep(&self) {
        while self.reader.next_completion().is_some() {}
        self.reader.forget_gone();
    }

    /// Says that nothing of the store is read or written any more.
    pub(super) fn leave(&self) {
        self.reader.channel().leave();
    }
}
