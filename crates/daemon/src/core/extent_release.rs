//! Letting extents go: taking their memory away, or waiting until clients have unmapped it.

use std::sync::Arc;
use std::time::Instant;

use plasmon_proto::extent::ExtentId;
use plasmon_proto::object::Level;
use plasmon_proto::ring::Completion;
use plasmon_shm::dropped_extents::{DroppedExtent, LOOKS_MAX, Remains};
use plasmon_shm::last_holder::is_alone;
use plasmon_shm::{Memfd, edge};
use plasmon_store::Event;

use super::Core;
use crate::extents::Recipients;
use crate::workers::MemoryJob;
use plasmon_keeper::Label;

/// Processes that a line of the log names.
const NAMED_MAX: usize = 8;

impl Core {
    pub(super) fn drop_extent(&mut self, extent: ExtentId) {
        if let Some(memfd) = self.extents.remove_growing(extent) {
            self.shared().control.forget_extent(extent);
            self.shared().sessions.complete_all(&Completion::ExtentGone(extent));
            self.give_memory_job(MemoryJob::CloseGrowing { extent, memfd });
            return;
        }
        // At level shared this is not written down, because few extents are sealed there.
        let recipients =
            self.extents.take_recipients(extent).filter(|_| self.config.level != Level::Shared);
        // One that was refused before it was made.
        let Some(memfd) = self.extents.remove(extent) else { return };
        let shared = self.shared();
        shared.control.forget_extent(extent);
        shared.sessions.complete_all(&Completion::ExtentGone(extent));
        if self.take_away(extent, &memfd) {
            return;
        }
        let now = edge::now();
        self.look_at(DroppedExtent::new(extent, Remains::Fixed(memfd), recipients, now), now);
    }

    /// Has the memory of an extent taken away where that is possible, even if processes still have
    /// it mapped. The keeper holds the extent until then: should this daemon end first, the next
    /// one does it.
    fn take_away(&mut self, extent: ExtentId, memfd: &Arc<Memfd>) -> bool {
        if self.config.level != Level::Shared || memfd.is_write_sealed().unwrap_or(true) {
            return false;
        }
        let memfd = self.dropped_extents.begin_close(extent, memfd);
        self.give_memory_job(MemoryJob::Close { extent, memfd, punch: true })
    }

    /// A worker has closed an extent, or could not take its memory away.
    pub(super) fn closed(&mut self, extent: ExtentId, remains: Option<Remains>) {
        let was_taken_away = self.dropped_extents.end_close(extent);
        let Some(remains) = remains else {
            if was_taken_away {
                self.shared().keeper.forget(&Label::Extent(extent));
                return self.apply_event(Event::Released(extent));
            }
            // Its memory is there until the keeper has closed it, too.
            self.shared().keeper.close(extent);
            return self.release_closed();
        };
        let now = edge::now();
        self.report_retained(&remains, extent);
        let mut leaving = DroppedExtent::new(extent, remains, None, now);
        leaving.is_held = true;
        self.dropped_extents.keep(leaving, now);
    }

    /// The memory of extents that the keeper has closed is free.
    pub(super) fn release_closed(&mut self) {
        for extent in self.shared().keeper.take_closed() {
            self.apply_event(Event::Released(extent));
        }
    }

    /// Extents that the daemon before this one had dropped, and that the keeper still holds.
    pub(crate) fn let_go(&mut self, left: Vec<(ExtentId, Arc<Memfd>)>) {
        let now = edge::now();
        for (extent, memfd) in left {
            let remains = Remains::Fixed(Arc::clone(&memfd));
            self.report_retained(&remains, extent);
            if !self.take_away(extent, &memfd) {
                let mut leaving = DroppedExtent::new(extent, remains, None, now);
                leaving.is_held = true;
                self.look_at(leaving, now);
            }
        }
    }

    /// Looks whether extents are let go by now.
    pub(super) fn check_dropped_extents(&mut self, now: Instant) {
        for _ in 0..LOOKS_MAX {
            let Some(leaving) = self.dropped_extents.pop_due(now) else { break };
            self.look_at(leaving, now);
        }
    }

    fn look_at(&mut self, mut leaving: DroppedExtent<Recipients>, now: Instant) {
        let extent = leaving.extent;
        let alone = is_alone(&leaving.remains).unwrap_or_else(|error| {
            tracing::warn!(?extent, %error, "memory that may still be mapped counts as free");
            true
        });
        if alone {
            let job = match leaving.remains {
                Remains::Fixed(memfd) => MemoryJob::Close { extent, memfd, punch: false },
                Remains::Growing(memfd) => MemoryJob::CloseGrowing { extent, memfd },
            };
            if !self.give_memory_job(job) {
                self.apply_event(Event::Released(extent));
            }
            return;
        }
        let sessions = &self.store.directory().sessions;
        sessions.sound_gone(leaving.recipients.as_ref());
        if !leaving.is_held && leaving.is_overdue(now) {
            leaving.is_held = true;
            let pids = sessions.pids(leaving.recipients.as_ref(), NAMED_MAX);
            tracing::warn!(
                ?extent,
                ?pids,
                "memory that was given up stays in use: one of these processes, or a child of \
                 one, still has it mapped"
            );
            self.report_retained(&leaving.remains, extent);
        }
        self.dropped_extents.keep(leaving, now);
    }

    fn report_retained(&mut self, remains: &Remains, extent: ExtentId) {
        // What cannot be looked at is as large as it can be.
        let bytes = remains.resident_bytes().unwrap_or(u64::from(u32::MAX));
        self.apply_event(Event::Retained(extent, bytes));
    }
}
