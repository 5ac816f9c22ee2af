//! Watching the keeper, and telling it what it has to know.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;
use std::time::Instant;

use plasmon_keeper::KeeperLink;
use plasmon_keeper::KeeperMessage;
use plasmon_keeper::Label;
use plasmon_proto::extent::ExtentId;
use plasmon_shm::edge::{self, Mutation};
use plasmon_spill::{FileMeta, FolderLock};
use plasmon_store::event::Peer;
use plasmon_store::{ClientNo, Effect, Event};

use super::AfterKeeper;
use crate::core::Core;
use crate::poll::{Interest, Source};
use crate::recovery;
use crate::sessions::writer_mark;
use crate::sessions::{Session, SessionNo};
use crate::workers::Done;

impl Core {
    pub(in crate::core) fn watch_keeper(&mut self) -> std::io::Result<()> {
        match self.store.directory().keeper.watched() {
            Some(fd) => self.poll.add(fd, Source::Keeper),
            None => Ok(()),
        }
    }

    /// The keeper asked for a sign of life, takes more than before, or is gone.
    pub(in crate::core) fn on_keeper(&mut self) {
        loop {
            match self.shared().keeper.receive() {
                KeeperMessage::Answered => {}
                KeeperMessage::Nothing => break,
                KeeperMessage::Gone => {
                    let pid = self.store.directory().keeper.pid();
                    tracing::warn!(pid, "the keeper has ended");
                    return self.shared().keeper.vacate();
                }
            }
        }
        if self.store.directory().keeper.is_full() {
            self.keeper_catches_up();
        }
        self.release_closed();
    }

    /// Does for the keeper what is due by the clock, and waits for what it is ready for.
    pub(in crate::core) fn check_keeper(&mut self, now: Instant) {
        if self.store.directory().keeper.is_due(now) {
            self.keeper_catches_up();
        }
        let keeper = &mut self.store.directory_mut().keeper;
        if keeper.is_stuck(now) {
            tracing::warn!(pid = keeper.pid(), "the keeper does not respond and is replaced");
            keeper.vacate();
        }
        if keeper.is_vacant(now) {
            self.replace_keeper();
        }
        self.release_kept(now);
        self.release_closed();
        let keeper = &self.store.directory().keeper;
        let interest = Interest { readable: true, writable: keeper.is_full() };
        if let Some(fd) = keeper.watched()
            && self.keeping.interest != interest
        {
            self.keeping.interest = interest;
            if let Err(error) = self.poll.change(fd, Source::Keeper, interest) {
                tracing::error!(%error, "the keeper cannot be watched");
            }
        }
    }

    /// Starts another keeper, in a thread: a program takes a while to start.
    fn replace_keeper(&mut self) {
        let flags = self.keeping.flags.clone();
        let start = move || Done::Keeper(KeeperLink::start(&flags, Stdio::inherit()));
        if let Err(error) = self.workers.aside("plasmon-starter", start) {
            self.keeper_started(Err(error));
        }
    }

    /// Hands everything over to a keeper that was started.
    pub(in crate::core) fn keeper_started(&mut self, started: std::io::Result<KeeperLink>) {
        let watched = started.and_then(|link| {
            self.poll.add(&link, Source::Keeper)?;
            Ok(link)
        });
        match watched {
            Ok(link) => {
                tracing::info!(pid = link.pid(), "a new keeper takes the store's memory");
                self.keeping.interest = Interest { readable: true, writable: false };
                let labels = self.labels();
                let hang_timeout = self.config.hang_timeout;
                self.shared().keeper.fill(link, labels.into_iter(), hang_timeout);
                self.keeper_catches_up();
            }
            Err(error) => {
                tracing::error!(%error, "no keeper is running: if this daemon dies, the objects \
                                         are lost");
                self.shared().keeper.postpone();
            }
        }
    }

    /// Everything that a keeper holds.
    fn labels(&self) -> Vec<Label> {
        let shared = self.store.directory();
        let mut labels = vec![
            Label::Listener,
            Label::Control { store: self.keeping.store_token },
            Label::Index { number: shared.index.table.number() },
        ];
        labels.extend(self.tier.lock.as_ref().map(|_| Label::SpillFolder));
        labels.extend(self.extents.iter().map(|(extent, _)| Label::Extent(extent)));
        labels.extend(self.dropped_extents.extents().map(Label::Extent));
        labels.extend(shared.sessions.iter().map(|(_, session)| session.label()));
        labels
    }

    fn keeper_catches_up(&mut self) {
        let mut keeper = std::mem::take(&mut self.shared().keeper);
        keeper.catch_up(|label| self.held(label));
        self.shared().keeper = keeper;
    }

    /// The descriptors that a keeper holds under this label.
    fn held(&self, label: &Label) -> Option<Vec<BorrowedFd<'_>>> {
        let shared = self.store.directory();
        match label {
            Label::Listener => {
                let listener = self.acceptor.listener();
                Some(std::iter::once(listener.as_fd()).chain(listener.lock()).collect())
            }
            Label::Control { .. } => {
                Some(vec![shared.control.memfd().as_fd(), shared.wakes.as_fd()])
            }
            Label::Index { number } => {
                let table = &shared.index.table;
                (table.number() == *number).then(|| vec![table.memfd().as_fd()])
            }
            Label::SpillFolder => self.tier.lock.as_ref().map(|lock| vec![lock.as_fd()]),
            Label::Extent(extent) => {
                let present = self.extents.get(*extent).map(|memfd| memfd.as_fd());
                let held = present.or_else(|| self.dropped_extents.fixed(*extent));
                held.map(|fd| vec![fd])
            }
            Label::Session { token, .. } => {
                let session = shared.sessions.of_token(*token)?;
                shared.sessions.get(session).map(Session::held)
            }
        }
    }

    /// Goes on with something once the keeper has what it is about, or cannot be had for now.
    pub(in crate::core) fn when_kept(&mut self, step: AfterKeeper) {
        if self.store.directory().keeper.is_behind(edge::now()) {
            self.keeping.waiting.push(step);
        } else {
            self.go_on(step);
        }
    }

    fn release_kept(&mut self, now: Instant) {
        if self.keeping.waiting.is_empty() || self.store.directory().keeper.is_behind(now) {
            return;
        }
        for step in std::mem::take(&mut self.keeping.waiting) {
            self.go_on(step);
        }
    }

    fn go_on(&mut self, step: AfterKeeper) {
        match step {
            AfterKeeper::Reserved(ticket, extent) => self.reserved(ticket, extent, true),
            AfterKeeper::Settled(ticket) => self.apply_event(Event::Hardened(ticket, true)),
        }
    }

    /// The extents whose registered writer has this token.
    fn extents_of(&self, token: u64) -> Vec<ExtentId> {
        let (control, mark) = (&self.store.directory().control, writer_mark(token));
        let extents = self.extents.iter().map(|(extent, _)| extent);
        extents.filter(|extent| control.writer(*extent) == Some(mark)).collect()
    }

    /// Goes on where the daemon before this one stopped: applies what clients submitted while there
    /// was none, and expects back those that still live.
    pub(crate) fn take_over(&mut self, effects: Vec<Effect>, distrusts_rings: bool) {
        effects.into_iter().for_each(|effect| self.apply_effect(effect));
        for no in self.shared().sessions.numbers() {
            let is_lost = self.shared().sessions.get(no).is_some_and(|found| found.is_abandoned);
            if distrusts_rings || is_lost {
                self.abandon(no);
            } else {
                self.expect_back(no);
            }
        }
    }

    /// Keeps only the pins of a session. Its client gets a new one; what was in its ring is lost.
    fn abandon(&mut self, no: SessionNo) {
        let Some(session) = self.shared().sessions.get_mut(no) else { return };
        session.is_abandoned = true;
        let channel = session.channel.as_ref();
        let unread = channel.and_then(|channel| channel.pending().ok()).unwrap_or(0);
        tracing::error!(
            pid = session.pid,
            unread,
            "a client's ring cannot be read: its unread submissions are lost"
        );
        let Some(client) = self.expect(no) else { return };
        if let Some(session) = self.shared().sessions.get_mut(no) {
            session.is_deaf = true;
        }
        self.shared().sessions.part(no);
        // It stays while memory is lent to it: until its process ends, because it is not resumed.
        self.part(client);
    }

    /// The spill tier of a store that was taken over can be used: now, or not before now.
    pub(in crate::core) fn tier_opened(&mut self, found: Vec<FileMeta>, lock: Option<FolderLock>) {
        tracing::info!(objects = found.len(), "the spill tier works again");
        self.tier.fault.clear();
        // Whatever is in the tier is told to the store now, and what ended is removed again.
        self.tier.removals.forgive();
        if let Some(lock) = lock {
            self.shared().keeper.hold(&Label::SpillFolder, &[lock.as_fd()]);
            self.tier.lock = Some(lock);
        }
        let objects = recovery::spilled_objects(found).collect();
        let mut effects = Vec::new();
        self.store.adopt_tier(self.now_ms, objects, &mut effects);
        effects.into_iter().for_each(|effect| self.apply_effect(effect));
    }

    fn expect_back(&mut self, no: SessionNo) {
        let Some(client) = self.expect(no) else { return };
        let sessions = &mut self.store.directory_mut().sessions;
        self.rings.awaken(no, sessions);
        if edge::is_broken(Mutation::AdoptWithoutReplay) {
            self.shared().sessions.skip(no);
        }
        self.drain_ring(no, client);
        let is_over = |session: &Session| session.is_dead() || session.has_left();
        if self.shared().sessions.get(no).is_some_and(is_over) {
            self.part(client);
        }
    }

    /// Makes the store know the client of a session that was taken over, as one that is away.
    fn expect(&mut self, no: SessionNo) -> Option<ClientNo> {
        let session = self.shared().sessions.get(no)?;
        let peer = Peer {
            pid: session.pid,
            uid: session.uid,
            name: String::new(),
            access: session.access,
            channel: session.channel.is_some(),
            session: writer_mark(session.token),
        };
        let token = session.token;
        // Those who sleep find their connection closed and come back.
        session.sound_mail();
        let client = self.peers.expect();
        self.shared().sessions.connect(no, client, None);
        self.apply_event(Event::Connect(client, peer));
        self.apply_event(Event::Part(client));
        for extent in self.extents_of(token) {
            self.store.writer_back(extent, client);
        }
        self.looks.begin(no, edge::now());
        Some(client)
    }
}
