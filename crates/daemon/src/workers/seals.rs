//! The worker that seals: it waits where the kernel waits.
//!
//! To refuse every write to a memfd the kernel waits for pages that something else still refers to:
//! up to 150 ms, which a client that keeps one page in a pipe makes it use. Only requests for such
//! a seal wait for it, here, and no others.
//!
//! A writable mapping may be one that is never written to: a thread of the client forks, and until
//! the child calls `exec` it has what its parent had mapped. Such an extent is tried again for
//! [`BUSY_MAX`], the others go before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plasmon_proto::extent::ExtentId;
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

/// For how long an extent is tried that is still mapped to write to.
pub(super) const BUSY_MAX: Duration = Duration::from_millis(500);

/// The pause after the first try; each later one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Extents that are to be tried again, by the time when, and how long the next pause is.
type Busy = BTreeMap<(Instant, ExtentId), (SealJob, Duration)>;

/// The worker's main loop: it ends when the last sender of jobs is gone.
pub(super) fn work(jobs: &Receiver<SealJob>, report: &Report) {
    let mut busy = Busy::new();
    loop {
        let received = match busy.first_key_value() {
            None => edge::receive(jobs).map_err(|_| RecvTimeoutError::Disconnected),
            Some(((due, _), _)) => {
                edge::receive_within(jobs, due.saturating_duration_since(edge::now()))
            }
        };
        match received {
            Ok(job) => try_seal(job, FIRST_PAUSE, &mut busy, report),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = edge::now();
        while let Some(entry) = busy.first_entry().filter(|entry| entry.key().0 <= now) {
            let (job, pause) = entry.remove();
            try_seal(job, pause, &mut busy, report);
        }
    }
}

/// Seals an extent, or notes that it is to be tried again after a pause.
fn try_seal(job: SealJob, pause: Duration, busy: &mut Busy, report: &Report) {
    let sealed = job.memfd.seal_write();
    if let Err(error) = &sealed {
        // The pauses so far add up to as much as the next one, except for the first.
        if Errno::from_io_error(error) != Some(Errno::BUSY) {
            tracing::error!(extent = ?job.extent, %error, "an extent cannot be sealed");
        } else if pause < BUSY_MAX {
            let now = edge::now();
            busy.insert((now + pause, job.extent), (job, pause * 2));
            return;
        }
    }
    report.tell(Done::Hardened(job.ticket, sealed.is_ok()));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use plasmon_shm::{Doorbell, Populate, WriteMap};

    use super::*;

    const BYTES: u64 = 4096;

    fn job(number: u64) -> SealJob {
        let memfd = Arc::new(Memfd::create_sealable("plasmon-test", BYTES).unwrap());
        SealJob { ticket: Ticket(number), extent: ExtentId::new(0, number), memfd }
    }

    fn worker() -> (Sender<SealJob>, Receiver<Done>) {
        let (sender, jobs) = channel();
        let (done_sender, done) = channel();
        let report = Report { doorbell: Arc::new(Doorbell::new().unwrap()), sender: done_sender };
        thread::spawn(move || work(&jobs, &report));
        (sender, done)
    }

    fn sealed(done: &Receiver<Done>) -> (Ticket, bool) {
        match done.recv().unwrap() {
            Done::Hardened(ticket, sealed) => (ticket, sealed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_extent_that_is_mapped_for_a_moment_is_sealed_after_it_and_others_before() {
        let (jobs, done) = worker();
        let (mapped, other) = (job(1), job(2));
        let map = WriteMap::new(&mapped.memfd, BYTES, Populate::No).unwrap();
        jobs.send(mapped).unwrap();
        jobs.send(other).unwrap();
        assert_eq!(sealed(&done), (Ticket(2), true));
        drop(map);
        assert_eq!(sealed(&done), (Ticket(1), true));
    }

    #[test]
    fn an_extent_that_stays_mapped_is_not_sealed() {
        let (jobs, done) = worker();
        let mapped = job(1);
        let _map = WriteMap::new(&mapped.memfd, BYTES, Populate::No).unwrap();
        jobs.send(mapped).unwrap();
        assert_eq!(sealed(&done), (Ticket(1), false));
    }
}
