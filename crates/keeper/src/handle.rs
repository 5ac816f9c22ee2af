//! The keeper as the rest of the daemon sees it: a process that holds things, or a missing one.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use plasmon_proto::extent::ExtentId;
use plasmon_shm::edge::{self, Point};
use plasmon_shm::shortage::is_passing;
use rustix::io::Errno;

use crate::link::KeeperLink;
use crate::wire::{FromKeeper, Label};

/// How long the daemon waits for a keeper that does not read. It is replaced afterwards: a promise
/// that an object outlives the daemon must not hang on a stopped process.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How long the daemon waits for a keeper to close an extent. Until then its memory counts as used,
/// and requests wait for it.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How long the daemon waits after it could not start a keeper.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long it waits when the system is out of something for the moment.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Where the keeper sits. Nothing here waits for the keeper.
///
/// What cannot be said now is written down by its label and said later, with the descriptors that
/// belong to the label by then. A keeper that does not read is replaced after a while; where the
/// system is out of something, which is not the keeper's fault, it stays.
#[derive(Debug, Default)]
pub struct KeeperHandle {
    link: Option<KeeperLink>,
    wanted: bool,
    is_starting: bool,
    retry_at: Option<Instant>,
    /// What the keeper was not told yet: whether it holds what the label names.
    backlog: BTreeMap<Label, bool>,
    /// How long the daemon may hang, when that is still to be said.
    serving: Option<Duration>,
    behind_since: Option<Instant>,
    /// Since when the keeper's socket has been full.
    full_since: Option<Instant>,
    send_again_at: Option<Instant>,
    /// Whether the keeper holds everything, or has at some time.
    is_complete: bool,
    /// Extents that the keeper is to close, and as how many-th it was told to.
    closing: BTreeMap<ExtentId, Option<u64>>,
    /// Since when the keeper has closed none of them.
    closing_since: Option<Instant>,
    /// Extents that this keeper was told to close.
    close_requests: u64,
    /// Extents that it says it has closed.
    closed: u64,
}

/// What the keeper said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperMessage {
    /// Nothing more.
    Nothing,
    /// It was answered.
    Answered,
    /// It is gone.
    Gone,
}

impl KeeperHandle {
    /// No keeper, for good: the store ends with its daemon.
    pub fn unwanted() -> Self {
        Self::default()
    }

    /// The handle of this keeper, which holds everything there is.
    pub fn taken(link: KeeperLink) -> Self {
        Self { link: Some(link), wanted: true, is_complete: true, ..Self::default() }
    }

    /// Whether a keeper is missing and it is time to start one; told once.
    pub fn is_vacant(&mut self, now: Instant) -> bool {
        let is_due = self.retry_at.is_none_or(|at| at <= now);
        let is_vacant = self.wanted && self.link.is_none() && !self.is_starting && is_due;
        self.is_starting |= is_vacant;
        is_vacant
    }

    /// When to look again, without an event.
    pub fn next_deadline(&self) -> Option<Instant> {
        let retry = self.retry_at.filter(|_| self.link.is_none() && !self.is_starting);
        let stuck = self.full_since.map(|since| since + ANSWER_WITHIN);
        let closing = self.closing_since.map(|since| since + CLOSE_WITHIN);
        let late = self.behind_since.map(|since| since + ANSWER_WITHIN);
        let late = late.filter(|at| *at > edge::now());
        [retry, stuck, closing, late, self.send_again_at].into_iter().flatten().min()
    }

    /// The keeper's process, 0 for none that holds everything.
    pub fn pid(&self) -> u32 {
        self.link.as_ref().filter(|_| self.is_complete).map_or(0, KeeperLink::pid)
    }

    /// What becomes readable when the keeper says something or is gone.
    pub fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(AsFd::as_fd)
    }

    /// Hands descriptors over. Unless the keeper is behind when this returns, they outlive the
    /// daemon.
    pub fn hold(&mut self, label: &Label, fds: &[BorrowedFd<'_>]) {
        if self.is_free() && self.tell(|link| link.hold(label, fds)) {
            return;
        }
        self.write_down(label.clone(), true);
    }

    /// Has descriptors closed.
    pub fn forget(&mut self, label: &Label) {
        if self.is_free() && self.request_close(label) {
            return;
        }
        self.write_down(label.clone(), false);
    }

    /// Has an extent closed that is nowhere else any more: its memory is free when
    /// [`Self::take_closed`] says so, because the keeper may have its descriptor until then.
    pub fn close(&mut self, extent: ExtentId) {
        self.closing.insert(extent, None);
        self.closing_since.get_or_insert_with(edge::now);
        self.forget(&Label::Extent(extent));
    }

    /// The extents that are closed by now. Where there is no keeper any more, all are: it was
    /// killed.
    pub fn take_closed(&mut self) -> Vec<ExtentId> {
        if self.closing.is_empty() {
            return Vec::new();
        }
        let (closed, is_gone) = (self.closed, self.link.is_none());
        let is_closed =
            |request: &Option<u64>| is_gone || request.is_some_and(|request| request <= closed);
        let (gone, left) = std::mem::take(&mut self.closing)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, request)| is_closed(request));
        self.closing = left;
        if self.closing.is_empty() {
            self.closing_since = None;
        } else if !gone.is_empty() {
            self.closing_since = Some(edge::now());
        }
        gone.into_keys().collect()
    }

    /// Tells the keeper to close what is under a label.
    fn request_close(&mut self, label: &Label) -> bool {
        let is_told = self.tell(|link| link.forget(label));
        if is_told
            && self.link.is_some()
            && let Label::Extent(extent) = label
        {
            self.close_requests += 1;
            if let Some(request) = self.closing.get_mut(extent) {
                *request = Some(self.close_requests);
            }
        }
        is_told
    }

    /// Tells that the daemon accepts connections, and how long it may hang.
    pub fn serving(&mut self, hang_timeout: Duration) {
        if !self.is_free() || !self.tell(|link| link.serving(hang_timeout)) {
            self.serving = Some(hang_timeout);
        }
    }

    /// Whether the keeper was not told everything yet, and may still be within its time.
    pub fn is_behind(&self, now: Instant) -> bool {
        self.behind_since.is_some_and(|since| now < since + ANSWER_WITHIN)
    }

    /// Whether there is something that it can be told now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.send_again_at.is_some_and(|at| at <= now)
    }

    /// Whether the keeper has not read anything for too long.
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.full_since.is_some_and(|since| since + ANSWER_WITHIN <= now)
            || self.closing_since.is_some_and(|since| since + CLOSE_WITHIN <= now)
    }

    /// Whether to wait until the keeper's socket takes something.
    pub fn is_full(&self) -> bool {
        self.full_since.is_some()
    }

    /// Sends the keeper what it was not told yet, as far as it goes, in the order of the labels,
    /// which matters while it was not told everything ([`Label`]). `held` gives the
    /// descriptors that belong to a label, or none if there is no such thing any more.
    pub fn catch_up<'a>(&mut self, held: impl Fn(&Label) -> Option<Vec<BorrowedFd<'a>>>) {
        self.send_again_at = None;
        self.full_since = None;
        while let Some((label, holds)) = self.backlog.pop_first() {
            let is_told = match held(&label).filter(|_| holds) {
                Some(fds) => self.tell(|link| link.hold(&label, &fds)),
                None => self.request_close(&label),
            };
            if !is_told {
                return self.write_down(label, holds);
            }
        }
        if let Some(hang_timeout) = self.serving.take()
            && !self.tell(|link| link.serving(hang_timeout))
        {
            self.serving = Some(hang_timeout);
            return;
        }
        if self.link.is_some() {
            self.is_complete = true;
            self.behind_since = None;
        }
    }

    /// Hears what the keeper says, and answers when it asks for a sign of life.
    pub fn receive(&mut self) -> KeeperMessage {
        let Some(link) = &self.link else { return KeeperMessage::Nothing };
        match link.receive() {
            Ok(Some(FromKeeper::Ask)) => {
                // A keeper that does not read sees other signs of life when it does.
                self.tell(KeeperLink::answer);
                KeeperMessage::Answered
            }
            Ok(Some(FromKeeper::Closed { extents })) => {
                self.closed = self.closed.max(extents);
                KeeperMessage::Answered
            }
            // It says nothing else by then.
            Ok(Some(_)) => KeeperMessage::Answered,
            Ok(None) => KeeperMessage::Nothing,
            Err(_) => KeeperMessage::Gone,
        }
    }

    /// Lets go of a keeper that is gone.
    pub fn vacate(&mut self) {
        (self.full_since, self.send_again_at, self.is_complete) = (None, None, false);
        self.backlog.clear();
        if let Some(link) = self.link.take() {
            self.behind_since.get_or_insert_with(edge::now);
            link.dismiss();
        }
    }

    /// Takes a keeper that is to be told of all this.
    pub fn fill(
        &mut self,
        link: KeeperLink,
        labels: impl Iterator<Item = Label>,
        hang_timeout: Duration,
    ) {
        self.link = Some(link);
        (self.close_requests, self.closed) = (0, 0);
        (self.retry_at, self.is_starting) = (None, false);
        self.backlog = labels.map(|label| (label, true)).collect();
        self.serving = Some(hang_timeout);
    }

    /// No keeper could be started: the store goes on without one for a while.
    pub fn postpone(&mut self) {
        self.vacate();
        self.is_starting = false;
        self.retry_at = Some(edge::now() + RETRY_AFTER);
    }

    /// Ends the keeper with the store.
    pub fn stop(&mut self) {
        if let Some(link) = self.link.take() {
            link.stop();
        }
    }

    fn is_free(&self) -> bool {
        self.backlog.is_empty()
    }

    fn write_down(&mut self, label: Label, holds: bool) {
        if self.link.is_some() {
            self.backlog.insert(label, holds);
            self.behind_since.get_or_insert_with(edge::now);
        }
    }

    /// Whether the keeper was told; otherwise it is to be told again, or it is gone.
    fn tell(&mut self, say: impl FnOnce(&KeeperLink) -> io::Result<()>) -> bool {
        edge::pause(Point::Keeper);
        let Some(link) = &self.link else { return true };
        let Err(error) = say(link) else { return true };
        let now = edge::now();
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => {
                self.full_since.get_or_insert(now);
            }
            Some(errno) if is_passing(errno) => {
                if self.send_again_at.is_none() && self.behind_since.is_none() {
                    tracing::warn!(%error, "cannot notify the keeper now; trying again later");
                }
                self.send_again_at = Some(now + SEND_AGAIN_AFTER);
            }
            _ => {
                tracing::warn!(%error, pid = link.pid(), "the keeper does not answer");
                self.vacate();
            }
        }
        self.link.is_none()
    }
}
