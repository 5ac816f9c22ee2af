//! The keeper as the rest of the daemon sees it: somebody who holds things, or nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use plasmon_shm::edge;

use super::link::KeeperLink;
use super::wire::Label;

/// Where the keeper sits. A keeper that does not answer loses its seat at once; the loop then fills
/// it again and hands everything over, so nobody who wants something held has to handle a failure.
#[derive(Debug, Default)]
pub(crate) struct KeeperSeat {
    link: Option<KeeperLink>,
    wanted: bool,
    retry_at: Option<Instant>,
}

/// How long the daemon waits after it could not start a keeper.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl KeeperSeat {
    /// A seat that stays empty: the store ends with its daemon.
    pub(crate) fn unwanted() -> Self {
        Self::default()
    }

    /// A seat with this keeper.
    pub(crate) fn taken(link: KeeperLink) -> Self {
        Self { link: Some(link), wanted: true, retry_at: None }
    }

    /// Whether a keeper is missing and it is time to start one.
    pub(crate) fn is_vacant(&self, now: Instant) -> bool {
        self.wanted && self.link.is_none() && self.retry_at.is_none_or(|at| at <= now)
    }

    /// When to try again after a keeper could not be started.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// The keeper's process, 0 for none.
    pub(crate) fn pid(&self) -> u32 {
        self.link.as_ref().map_or(0, KeeperLink::pid)
    }

    /// What becomes readable when the keeper is gone.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(AsFd::as_fd)
    }

    /// Hands descriptors over. When this returns, they outlive the daemon, or the seat is vacant.
    pub(crate) fn hold(&mut self, label: &Label, fds: &[BorrowedFd<'_>]) {
        self.tell(|link| link.hold(label, fds));
    }

    /// Has descriptors closed.
    pub(crate) fn forget(&mut self, label: &Label) {
        self.tell(|link| link.forget(label));
    }

    /// Tells that the daemon accepts connections.
    pub(crate) fn serving(&mut self) {
        self.tell(KeeperLink::serving);
    }

    /// Takes the seat away from a keeper that is gone.
    pub(crate) fn vacate(&mut self) {
        if let Some(link) = self.link.take() {
            link.dismiss();
        }
    }

    /// Fills the seat.
    pub(crate) fn fill(&mut self, link: KeeperLink) {
        self.link = Some(link);
        self.retry_at = None;
    }

    /// No keeper could be started: the store goes on without one for a while.
    pub(crate) fn postpone(&mut self) {
        self.vacate();
        self.retry_at = Some(edge::now() + RETRY_AFTER);
    }

    /// Ends the keeper with the store.
    pub(crate) fn farewell(&mut self) {
        if let Some(link) = self.link.take() {
            link.farewell();
        }
    }

    fn tell(&mut self, say: impl FnOnce(&KeeperLink) -> io::Result<()>) {
        if let Some(link) = &self.link
            && let Err(error) = say(link)
        {
            tracing::warn!(%error, pid = link.pid(), "the keeper does not answer");
            self.vacate();
        }
    }
}
