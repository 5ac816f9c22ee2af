//! The worker that seals: it waits where the kernel waits.
//!
//! To refuse every write to a memfd the kernel waits for pages that something else still refers to:
//! up to 150 ms, which a client that keeps one page in a pipe makes it use. Those who wait for such
//! a seal wait for it here, and nobody else.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use plasmon_proto::message::ExtentId;
use plasmon_shm::{Memfd, edge};
use plasmon_store::event::Ticket;
use rustix::io::Errno;

use super::{Done, Report};

/// An extent whose content is to be final.
#[derive(Debug)]
pub(crate) struct SealJob {
    /// Names the work.
    pub(crate) ticket: Ticket,
    /// The extent's number.
    pub(crate) extent: ExtentId,
    /// The extent.
    pub(crate) memfd: Arc<Memfd>,
}

/// The worker's life: it ends when nobody can give it jobs any more.
pub(super) fn work(jobs: &Receiver<SealJob>, report: &Report) {
    while let Ok(SealJob { ticket, extent, memfd }) = edge::receive(jobs) {
        let sealed = memfd.seal_write();
        if let Err(error) = &sealed
            && Errno::from_io_error(error) != Some(Errno::BUSY)
        {
            tracing::error!(?extent, %error, "an extent cannot be sealed");
        }
        report.tell(Done::Hardened(ticket, sealed.is_ok()));
    }
}
