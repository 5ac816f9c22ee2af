//! Extents that grow: carrying out what the store asks for.
//!
//! The keeper does not know them, so a daemon that dies takes them with it: the writer keeps what
//! it has mapped and is told that its object is gone. Settled, an extent is held like any other,
//! before its object is published.

use std::io;
use std::sync::Arc;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_shm::Memfd;
use plasmon_store::{Event, Ticket};

use super::Core;
use super::supervision::AfterKeeper;
use crate::workers::MemoryJob;

impl Core {
    pub(super) fn extend(&mut self, ticket: Ticket, new_extent: bool, range: Range) {
        if new_extent {
            self.shared().control.note_birth(range.extent);
        }
        let job = match self.extents.growing(range.extent) {
            _ if new_extent => Some(MemoryJob::MakeGrowing { ticket, range }),
            Some(memfd) => Some(MemoryJob::Extend { ticket, memfd: Arc::clone(memfd), range }),
            None => None,
        };
        let accepted = job.is_some_and(|job| self.give_memory_job(job));
        if !accepted {
            self.apply_event(Event::Reserved(ticket, false));
        }
    }

    pub(super) fn trim(&mut self, extent: ExtentId, bytes: u64) {
        if let Some(memfd) = self.extents.growing(extent) {
            let memfd = Arc::clone(memfd);
            self.give_memory_job(MemoryJob::TrimGrowing { memfd, bytes });
        }
    }

    pub(super) fn settle(&mut self, ticket: Ticket, extent: ExtentId, bytes: u64, strict: bool) {
        let level = self.config.level;
        let job = self.extents.growing(extent).map(|memfd| {
            let memfd = Arc::clone(memfd);
            MemoryJob::Settle { ticket, extent, memfd, bytes, level, strict }
        });
        let accepted = job.is_some_and(|job| self.give_memory_job(job));
        if !accepted {
            self.apply_event(Event::Hardened(ticket, false));
        }
    }

    pub(super) fn settled(&mut self, ticket: Ticket, extent: ExtentId, settled: io::Result<Memfd>) {
        let done = match settled {
            // Its object may have been given up meanwhile.
            Ok(memfd) => {
                let is_there = self.extents.remove_growing(extent).is_some();
                if is_there {
                    self.take_in(extent, memfd);
                    return self.when_kept(AfterKeeper::Settled(ticket));
                }
                is_there
            }
            Err(error) => {
                tracing::warn!(?extent, %error, "an extent that grew cannot be sealed");
                false
            }
        };
        self.apply_event(Event::Hardened(ticket, done));
    }
}
