//! One session: its process, its channel, and what the keeper holds of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use plasmon_keeper::Label;
use plasmon_proto::Name;
use plasmon_proto::message::Access;
use plasmon_shm::{ChannelDaemon, Doorbell};
use plasmon_store::event::ClientNo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The number of a session: small, and used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionNo(pub u32);

/// How the control page names the writer with this token. Clients can read that page, so it must
/// not say what a session is resumed with.
pub(crate) fn writer_mark(token: u64) -> u64 {
    if token == 0 {
        return 0;
    }
    let name = Name::new("plasmon.writer", token.to_string());
    let id = name.expect("twenty digits are a name").id();
    let bytes: [u8; 8] = std::array::from_fn(|at| id.as_bytes()[at]);
    u64::from_le_bytes(bytes).max(1)
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    /// What its client resumes with. Also how the control page names a writer.
    pub(crate) token: u64,
    /// Its process.
    pub(crate) pid: u32,
    /// Its user.
    pub(crate) uid: u32,
    /// What it may do.
    pub(crate) access: Access,
    /// Its process, for certain.
    pub(crate) process: OwnedFd,
    /// Its rings and its ledger.
    pub(crate) channel: Option<ChannelDaemon>,
    /// A channel that this daemon cannot use. What is pinned in it is not known, so everything
    /// counts as pinned while the process lives.
    pub(crate) lost_channel: Option<OwnedFd>,
    /// What its client rings when the daemon sleeps; only while connected.
    pub(crate) doorbell: Option<Doorbell>,
    /// The client as the store knows it: while it is connected, and while it is away and something
    /// is lent to it.
    pub(crate) client: Option<ClientNo>,
    /// Whether its ring is not looked at, because it was broken, until it is connected again.
    pub(crate) is_deaf: bool,
    /// Whether its ring is given up: it is never resumed, only its pins count.
    pub(crate) is_abandoned: bool,
}

impl Session {
    /// How the keeper calls it.
    pub(crate) fn label(&self) -> Label {
        let Self { token, pid, uid, access, .. } = *self;
        Label::Session { token, pid, uid, writes: access == Access::ReadWrite }
    }

    /// What the keeper holds of it: the process, then the channel if there is one.
    pub(crate) fn held(&self) -> Vec<BorrowedFd<'_>> {
        let channel = self.channel.as_ref().map(|channel| channel.memfd().as_fd());
        let lost = self.lost_channel.as_ref().map(AsFd::as_fd);
        std::iter::once(self.process.as_fd()).chain(channel).chain(lost).collect()
    }

    /// Whether the process has ended.
    pub(crate) fn is_dead(&self) -> bool {
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(count) if count > 0)
    }

    /// Wakes the client's threads that sleep until they are sent something.
    pub(crate) fn sound_mail(&self) {
        let mail = self.channel.as_ref().map(|channel| channel.mail().wake());
        if let Some(Err(error)) = mail {
            tracing::warn!(pid = self.pid, %error, "a client cannot be woken");
        }
    }

    /// Whether its client has said that it left for good.
    pub(crate) fn has_left(&self) -> bool {
        self.channel.as_ref().is_some_and(ChannelDaemon::has_left)
    }

    /// Whether it reads or writes anything.
    pub(crate) fn holds_anything(&self) -> bool {
        self.client.is_some() || self.pins_anything()
    }

    fn pins_anything(&self) -> bool {
        self.lost_channel.is_some()
            || self.channel.as_ref().is_some_and(|channel| channel.pins_count() > 0)
    }
}
