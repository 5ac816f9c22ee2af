//! Looking after the keeper, and after extents whose writer may come back.

use std::os::fd::AsFd;
use std::process::Stdio;

use plasmon_media::{Described, FolderLock};
use plasmon_proto::message::ExtentId;
use plasmon_store::event::Peer;
use plasmon_store::{Effect, Event};

use super::Core;
use crate::keeper::link::KeeperLink;
use crate::keeper::wire::Label;
use crate::poll::Source;
use crate::recovery;
use crate::sessions::SessionNo;

impl Core {
    pub(super) fn watch_keeper(&mut self) -> std::io::Result<()> {
        match self.store.directory().keeper.watched() {
            Some(fd) => self.poll.add(fd, Source::Keeper),
            None => Ok(()),
        }
    }

    /// The keeper says nothing by itself, so if its socket is readable, it is gone.
    pub(super) fn keeper_parted(&mut self) {
        tracing::warn!(pid = self.store.directory().keeper.pid(), "the keeper is gone");
        self.shared().keeper.vacate();
    }

    /// Starts another keeper and hands everything over.
    pub(super) fn replace_keeper(&mut self) {
        let filled = KeeperLink::start(&self.flags, Stdio::inherit()).and_then(|link| {
            self.hand_over(&link)?;
            self.poll.add(&link, Source::Keeper)?;
            Ok(link)
        });
        match filled {
            Ok(link) => {
                tracing::info!(pid = link.pid(), "another keeper holds the store");
                self.shared().keeper.fill(link);
            }
            Err(error) => {
                tracing::error!(%error, "no keeper for now: the store would end with this daemon");
                self.shared().keeper.postpone();
            }
        }
    }

    fn hand_over(&self, link: &KeeperLink) -> std::io::Result<()> {
        let shared = self.store.directory();
        recovery::hold_door(link, self.door.listener())?;
        let pages = [shared.control.memfd().as_fd(), shared.wakes.as_fd()];
        link.hold(&Label::Control { store: self.store_token }, &pages)?;
        let table = &shared.index.table;
        link.hold(&Label::Index { number: table.number() }, &[table.memfd().as_fd()])?;
        if let Some(lock) = &self.spill_lock {
            link.hold(&Label::SpillFolder, &[lock.as_fd()])?;
        }
        for (extent, memfd) in self.extents.iter() {
            link.hold(&Label::Extent(extent), &[memfd.as_fd()])?;
        }
        for (_, session) in shared.sessions.iter() {
            link.hold(&session.label(), &session.held())?;
        }
        link.serving()
    }

    /// The extents whose registered writer has this token.
    fn extents_of(&self, token: u64) -> Vec<ExtentId> {
        let control = &self.store.directory().control;
        let extents = self.extents.iter().map(|(extent, _)| extent);
        extents.filter(|extent| control.writer(*extent) == Some(token)).collect()
    }

    /// Goes on where the daemon before this one stopped: applies what clients submitted while there
    /// was none, and expects back those that still live.
    pub(crate) fn take_over(&mut self, effects: Vec<Effect>, distrusts_rings: bool) {
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        for no in self.shared().sessions.numbers() {
            let is_lost = self.shared().sessions.get(no).is_some_and(|found| found.is_abandoned);
            if distrusts_rings || is_lost {
                self.abandon(no);
            } else {
                self.expect_back(no);
            }
        }
    }

    /// Keeps only the pins of a session. Its client starts anew; what was in its ring is lost.
    fn abandon(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.get_mut(no) else { return };
        session.is_abandoned = true;
        let channel = session.channel.as_ref();
        let unread = channel.and_then(|channel| channel.pending().ok()).unwrap_or(0);
        tracing::error!(pid = session.pid, unread, "a ring is passed over: what is in it is lost");
        self.outlive(no);
    }

    /// The spill tier of a store that was taken over can be used: now, or not before now.
    pub(super) fn tier_opened(&mut self, found: Vec<Described>, lock: Option<FolderLock>) {
        tracing::info!(objects = found.len(), "the spill tier is there again");
        self.tier_fault.clear();
        if let Some(lock) = lock {
            self.shared().keeper.hold(&Label::SpillFolder, &[lock.as_fd()]);
            self.spill_lock = Some(lock);
        }
        let objects = recovery::spilled_objects(found).collect();
        let mut effects = Vec::new();
        self.store.adopt_tier(self.now_ms, objects, &mut effects);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    fn expect_back(&mut self, no: SessionNo) {
        let client = self.peers.expect();
        let Some(session) = self.shared().sessions.get(no) else { return };
        let peer = Peer {
            pid: session.pid,
            uid: session.uid,
            name: String::new(),
            access: session.access,
            channel: session.channel.is_some(),
        };
        let (token, is_dead) = (session.token, session.is_dead());
        // Those who sleep find their connection closed and come back.
        session.sound_mail();
        let sessions = &mut self.store.directory_mut().sessions;
        sessions.connect(no, client, None);
        self.rings.awaken(no, sessions);
        self.feed(Event::Connect(client, peer));
        for extent in self.extents_of(token) {
            self.store.writer_back(extent, client);
        }
        self.drain_ring(no, client);
        if is_dead {
            self.part(client);
        }
    }

    /// A writer will not come back: what it had may be given to others.
    pub(super) fn end_of_writer(&mut self, token: u64) {
        for extent in self.extents_of(token) {
            self.shared().control.set_writer(extent, 0);
            let mut effects = Vec::new();
            self.store.writer_gone(self.clock.now_ms(), extent, &mut effects);
            effects.into_iter().for_each(|effect| self.carry_out(effect));
        }
    }
}
