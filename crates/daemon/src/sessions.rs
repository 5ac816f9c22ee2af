//! The sessions: what the daemon keeps of a client beyond its connection.
//!
//! ```text
//!            hello                    end of file         process ends, or has left
//! (nothing) ───────► connected ──────────────────► detached  ──────────────────► (nothing)
//!                        ▲          resume              │
//!                        └──────────────────────────────┘
//! ```
//!
//! A session is a token, the descriptor of the client's process, and for most clients a channel. As
//! long as the process lives and maps its channel, what its ledger pins and what is lent to it is
//! not used again, connected or not. A session is also what the keeper holds of a client, so it
//! outlives the daemon.

mod queue;
mod session;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use plasmon_proto::ring::{Completion, Record};
use plasmon_shm::scan::PinCounts;
use plasmon_shm::{ChannelDaemon, Doorbell, ProtocolViolation};
use plasmon_store::event::ClientNo;

use self::queue::SessionQueue;
pub(crate) use self::session::{Session, SessionNo, writer_mark};

/// Sessions without a connection that are kept, and as many of one process that hold something. A
/// process that connects and disconnects forever would otherwise leave one behind each time, with
/// two descriptors. The oldest that pin nothing and write nothing are forgotten; while one process
/// has this many that do, it gets no further session.
pub(crate) const DETACHED_MAX: usize = 512;

/// Sessions whose touches are collected for a request that wants memory. Those of the others are
/// known a tenth of a second later at most.
const TOUCHES_OF_SOME: usize = 64;

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Vec<Option<Session>>,
    free: Vec<u32>,
    by_token: HashMap<u64, SessionNo>,
    by_client: BTreeMap<ClientNo, SessionNo>,
    /// Sessions without a connection.
    detached: SessionQueue,
    detached_max: usize,
    /// The slot of the session whose touches were collected last.
    touches_of: usize,
    #[cfg(feature = "sim")]
    counted: std::cell::RefCell<BTreeMap<u64, u32>>,
}

impl Sessions {
    /// No sessions yet, of which at most this many will be kept without a connection.
    pub(crate) fn new(detached_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_token: HashMap::new(),
            by_client: BTreeMap::new(),
            detached: SessionQueue::default(),
            detached_max,
            touches_of: 0,
            #[cfg(feature = "sim")]
            counted: Default::default(),
        }
    }

    /// Takes a session in, detached until [`Self::connect`].
    pub(crate) fn insert(&mut self, session: Session) -> SessionNo {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let no = SessionNo(number);
        self.by_token.insert(session.token, no);
        self.slots[number as usize] = Some(session);
        self.detach(no);
        no
    }

    /// The client of a session is connected under this number.
    pub(crate) fn connect(&mut self, no: SessionNo, client: ClientNo, doorbell: Option<Doorbell>) {
        self.detached.remove(no);
        self.by_client.insert(client, no);
        if let Some(session) = self.get_mut(no) {
            session.client = Some(client);
            session.doorbell = doorbell;
            session.is_deaf = false;
            if let Some(channel) = &session.channel {
                channel.set_parted(false);
            }
        }
    }

    /// The client's connection broke. Its ring is looked at as before.
    pub(crate) fn part(&mut self, no: SessionNo) {
        if let Some(session) = self.get(no) {
            // Its threads look at their socket, which is closed by now.
            session.sound_mail();
        }
        self.detach(no);
    }

    /// The store does not know the client any more. Returns its doorbell, which the daemon ignores
    /// now.
    pub(crate) fn disconnect(&mut self, client: ClientNo) -> Option<(SessionNo, Option<Doorbell>)> {
        let no = self.by_client.remove(&client)?;
        let session = self.get_mut(no)?;
        session.client = None;
        let doorbell = session.doorbell.take();
        // Its threads look at their socket, which is closed by now.
        session.sound_mail();
        self.detach(no);
        Some((no, doorbell))
    }

    /// Forgets a session that is not connected.
    pub(crate) fn remove(&mut self, no: SessionNo) -> Option<Session> {
        let session = self.slots.get_mut(no.0 as usize)?.take()?;
        self.detached.remove(no);
        self.by_token.remove(&session.token);
        self.free.push(no.0);
        Some(session)
    }

    /// A session.
    pub(crate) fn get(&self, no: SessionNo) -> Option<&Session> {
        self.slots.get(no.0 as usize)?.as_ref()
    }

    /// A session.
    pub(crate) fn get_mut(&mut self, no: SessionNo) -> Option<&mut Session> {
        self.slots.get_mut(no.0 as usize)?.as_mut()
    }

    /// The session with this token.
    pub(crate) fn of_token(&self, token: u64) -> Option<SessionNo> {
        self.by_token.get(&token).copied()
    }

    /// The session of a connected client.
    pub(crate) fn of_client(&self, client: ClientNo) -> Option<SessionNo> {
        self.by_client.get(&client).copied()
    }

    /// The numbers of all sessions.
    pub(crate) fn numbers(&self) -> Vec<SessionNo> {
        self.iter().map(|(no, _)| no).collect()
    }

    /// All sessions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionNo, &Session)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((SessionNo(number as u32), slot.as_ref()?)))
    }

    /// Sessions without a connection that are too many: the oldest that hold nothing.
    pub(crate) fn surplus(&self) -> Option<SessionNo> {
        if self.detached.len() <= self.detached_max {
            return None;
        }
        let idle = |no: &SessionNo| self.get(*no).is_some_and(|found| !found.holds_anything());
        self.detached.iter().find(idle)
    }

    /// How many sessions there can be at the moment.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Whether a ring holds something, or is broken.
    #[inline]
    pub(crate) fn has_work(&self, no: SessionNo) -> bool {
        self.work(no).is_some()
    }

    /// How much a ring holds, if anything. One that is broken counts as one record: to take that
    /// out finds what is wrong.
    #[inline]
    pub(crate) fn work(&self, no: SessionNo) -> Option<usize> {
        let session = self.get(no).filter(|session| !session.is_deaf);
        let channel = session.and_then(|session| session.channel.as_ref())?;
        let pending = channel.pending().map_or(1, |count| count as usize);
        (pending > 0).then_some(pending)
    }

    /// The channel of a session.
    pub(crate) fn channel_mut(&mut self, no: SessionNo) -> Option<&mut ChannelDaemon> {
        self.get_mut(no)?.channel.as_mut()
    }

    /// Copies what is in one ring out.
    pub(crate) fn drain(
        &mut self,
        no: SessionNo,
        max: usize,
        into: &mut Vec<(u64, Record)>,
    ) -> Result<usize, ProtocolViolation> {
        let session = self.get_mut(no).filter(|session| !session.is_deaf);
        match session.and_then(|session| session.channel.as_mut()) {
            Some(channel) => channel.drain(max, into),
            None => Ok(0),
        }
    }

    /// Keeps pins that were counted before their objects were hidden: what a broken rule of the
    /// simulator does.
    #[cfg(feature = "sim")]
    pub(crate) fn count_too_early(&mut self, counts: impl Iterator<Item = (u64, u32)>) {
        self.counted.get_mut().extend(counts);
    }

    /// The counts of a look, with those that were made too early in place of the right ones, once.
    #[cfg(feature = "sim")]
    pub(crate) fn counted_too_early(&self, serials: &[u64], mut pins: Vec<u32>) -> Vec<u32> {
        let mut counted = self.counted.borrow_mut();
        for (serial, pins) in serials.iter().zip(&mut pins) {
            *pins = counted.remove(serial).unwrap_or(*pins);
        }
        pins
    }

    /// Passes over what is in one ring: what the simulator's broken rule does.
    pub(crate) fn skip(&mut self, no: SessionNo) {
        let mut records = Vec::new();
        if self.drain(no, usize::MAX, &mut records).is_ok() {
            self.advance(no);
        }
    }

    /// Says that everything drained from a ring is applied.
    pub(crate) fn advance(&self, no: SessionNo) {
        if let Some(channel) = self.get(no).and_then(|session| session.channel.as_ref()) {
            channel.advance();
        }
    }

    /// Says that everything before a position of a ring is applied.
    pub(crate) fn advance_to(&self, no: SessionNo, position: u64) {
        if let Some(channel) = self.get(no).and_then(|session| session.channel.as_ref()) {
            channel.advance_to(position);
        }
    }

    /// Wakes the client's threads that wait for that.
    pub(crate) fn wake(&self, no: SessionNo) -> io::Result<()> {
        let channel = self.get(no).and_then(|session| session.channel.as_ref());
        channel.map_or(Ok(()), ChannelDaemon::wake)
    }

    /// Sends a client a completion through its ring; whether it arrives. A client without a ring
    /// gets nothing, nor does one that does not read.
    pub(crate) fn complete(&mut self, client: ClientNo, completion: &Completion) -> bool {
        let channel = self.of_client(client).and_then(|no| self.get_mut(no)?.channel.as_mut());
        channel.is_some_and(|channel| channel.complete(completion))
    }

    /// Says that a message was sent to a client.
    pub(crate) fn sound_mail(&self, client: ClientNo) {
        if let Some(session) = self.of_client(client).and_then(|no| self.get(no)) {
            session.sound_mail();
        }
    }

    /// Wakes the idle threads of clients that may have an extent mapped which is gone.
    pub(crate) fn sound_gone(&self, recipients: Option<&BTreeSet<SessionNo>>) {
        for (_, session) in self.of(recipients) {
            let woken = session.channel.as_ref().map(|channel| channel.gone().wake());
            if let Some(Err(error)) = woken {
                tracing::warn!(pid = session.pid, %error, "a client cannot be woken");
            }
        }
    }

    /// The processes of these sessions, up to a limit.
    pub(crate) fn pids(&self, recipients: Option<&BTreeSet<SessionNo>>, most: usize) -> Vec<u32> {
        let pids: BTreeSet<u32> = self.of(recipients).map(|(_, session)| session.pid).collect();
        pids.into_iter().take(most).collect()
    }

    /// These sessions, or all.
    fn of(
        &self,
        recipients: Option<&BTreeSet<SessionNo>>,
    ) -> impl Iterator<Item = (SessionNo, &Session)> {
        let named = recipients.into_iter().flatten().filter_map(|no| Some((*no, self.get(*no)?)));
        let all = self.iter().filter(move |_| recipients.is_none());
        named.chain(all)
    }

    /// Tells every client with a channel something, also those that are not connected now.
    pub(crate) fn complete_all(&mut self, completion: &Completion) {
        let sessions = self.slots.iter_mut().flatten();
        for channel in sessions.filter_map(|session| session.channel.as_mut()) {
            // What it misses it can see in the count of lost completions.
            channel.complete(completion);
        }
    }

    /// What this client lately read, and some others, in turn: in a store of few clients all.
    pub(crate) fn some_touches(&mut self, client: ClientNo, into: &mut Vec<u32>) {
        let count = self.slots.len();
        for _ in 0..count.min(TOUCHES_OF_SOME) {
            self.touches_of = (self.touches_of + 1) % count;
            let session = self.slots[self.touches_of].as_mut();
            if let Some(channel) = session.and_then(|session| session.channel.as_mut()) {
                channel.touches(into);
            }
        }
        let own = self.of_client(client).and_then(|no| self.get_mut(no)?.channel.as_mut());
        own.into_iter().for_each(|channel| channel.touches(into));
    }

    /// What clients lately read.
    pub(crate) fn touches(&mut self, into: &mut Vec<u32>) {
        let sessions = self.slots.iter_mut().flatten();
        sessions.filter_map(|found| found.channel.as_mut()).for_each(|c| c.touches(into));
    }

    /// Counts the pins of every client. Returns how many entries of their ledgers were looked at.
    /// A session whose channel was lost may pin anything.
    pub(crate) fn scan_pins(&self, counts: &mut PinCounts) -> usize {
        let unknown = self.slots.iter().flatten().filter(|found| found.lost_channel.is_some());
        counts.add_to_all(unknown.count() as u32);
        let sessions = self.slots.iter().flatten();
        let channels = sessions.filter_map(|session| session.channel.as_ref());
        channels.map(|channel| channel.scan_pins(counts)).sum()
    }

    /// How many sessions without a connection this process has that hold something, if there are
    /// many sessions without a connection in all.
    pub(crate) fn left_holding_by(&self, pid: u32, uid: u32) -> usize {
        if self.detached.len() < self.detached_max {
            return 0;
        }
        let is_its = |no: &SessionNo| {
            self.get(*no)
                .is_some_and(|found| (found.pid, found.uid) == (pid, uid) && found.holds_anything())
        };
        self.detached.iter().filter(is_its).count()
    }

    /// From here on the client gives up what it pins, until it is connected again. Only then it is
    /// right to forget a session that pins nothing while its process lives.
    fn detach(&mut self, no: SessionNo) {
        if let Some(channel) = self.get(no).and_then(|found| found.channel.as_ref()) {
            channel.set_parted(true);
        }
        self.detached.insert(no);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::AsFd;

    use plasmon_proto::message::Access;
    use plasmon_shm::ChannelClient;
    use plasmon_shm::pidfd::ProcessFd;

    use super::*;

    pub(crate) fn session(token: u64) -> Session {
        let process = ProcessFd::open(std::process::id()).unwrap();
        Session {
            token,
            pid: std::process::id(),
            uid: 0,
            access: Access::ReadWrite,
            process: process.as_fd().try_clone_to_owned().unwrap(),
            channel: Some(ChannelDaemon::create().unwrap()),
            lost_channel: None,
            doorbell: None,
            client: None,
            is_deaf: false,
            is_abandoned: false,
        }
    }

    #[test]
    fn a_session_is_found_by_token_and_by_client() {
        let mut sessions = Sessions::new(DETACHED_MAX);
        let one = sessions.insert(session(10));
        let two = sessions.insert(session(20));
        sessions.connect(one, ClientNo(7), None);
        assert_eq!(sessions.of_token(20), Some(two));
        assert_eq!(sessions.of_client(ClientNo(7)), Some(one));
        assert!(!sessions.get(one).unwrap().is_dead());
        assert_eq!(sessions.disconnect(ClientNo(7)).unwrap().0, one);
        assert!(sessions.disconnect(ClientNo(7)).is_none());
        sessions.remove(one).unwrap();
        assert_eq!((sessions.of_token(10), sessions.of_client(ClientNo(7))), (None, None));
        assert_eq!(sessions.insert(session(30)), one, "the number is used again");
    }

    #[test]
    fn what_one_process_left_and_still_pins_is_counted() {
        let mut sessions = Sessions::new(2);
        let lost = || std::fs::File::open("/dev/null").unwrap().into();
        let pinning =
            |token| Session { channel: None, lost_channel: Some(lost()), ..session(token) };
        let (pid, uid) = (std::process::id(), 0);
        sessions.insert(session(1));
        sessions.insert(pinning(2));
        sessions.insert(pinning(3));
        assert_eq!(sessions.left_holding_by(pid, uid), 2);
        assert_eq!(sessions.left_holding_by(pid, 7), 0);
        sessions.remove(sessions.of_token(3).unwrap()).unwrap();
        sessions.remove(sessions.of_token(1).unwrap()).unwrap();
        assert_eq!(sessions.left_holding_by(pid, uid), 0, "few are not looked at");
    }

    #[test]
    fn what_a_client_with_a_lost_channel_pins_is_unknown_so_everything_counts_as_pinned() {
        let pins = |sessions: &Sessions| {
            let mut counts = PinCounts::new(&[5, 6]);
            sessions.scan_pins(&mut counts);
            counts.of(&[5, 6])
        };
        // One damaged channel used to make every later daemon of the store fail to start.
        let mut sessions = Sessions::new(DETACHED_MAX);
        sessions.insert(session(1));
        assert_eq!(pins(&sessions), [0, 0]);
        let lost = std::fs::File::open("/dev/null").unwrap().into();
        let lost = Session { channel: None, lost_channel: Some(lost), ..session(2) };
        assert_eq!(lost.held().len(), 2, "the next keeper holds what cannot be read, too");
        let no = sessions.insert(lost);
        assert_eq!(pins(&sessions), [1, 1]);
        sessions.remove(no).unwrap();
        assert_eq!(pins(&sessions), [0, 0]);
    }

    #[test]
    fn too_many_detached_sessions_are_surplus_from_the_oldest_on() {
        let mut sessions = Sessions::new(2);
        let first = sessions.insert(session(1));
        let second = sessions.insert(session(2));
        sessions.connect(first, ClientNo(1), None);
        sessions.insert(session(3));
        assert_eq!(sessions.surplus(), None);
        sessions.disconnect(ClientNo(1));
        assert_eq!(sessions.surplus(), Some(second), "the first lingers for a shorter time");
    }

    #[test]
    fn a_request_collects_the_touches_of_its_client_and_of_some_others_in_turn() {
        // Each request that wanted memory looked at every client: with 1500 of them for 0.4 ms.
        let mut sessions = Sessions::new(DETACHED_MAX);
        let count = TOUCHES_OF_SOME as u32 + 10;
        let readers: Vec<ChannelClient> = (0..count)
            .map(|number| {
                let no = sessions.insert(session(number.into()));
                sessions.connect(no, ClientNo(number), None);
                let memfd = sessions.get(no).unwrap().channel.as_ref().unwrap().memfd();
                ChannelClient::new(memfd.duplicate().unwrap()).unwrap()
            })
            .collect();
        (0..).zip(&readers).for_each(|(number, reader)| reader.touch(number));
        let mut touched = Vec::new();
        sessions.some_touches(ClientNo(count - 1), &mut touched);
        assert_eq!(touched.len(), TOUCHES_OF_SOME + 1);
        assert!(touched.contains(&(count - 1)), "its own");
        sessions.some_touches(ClientNo(count - 1), &mut touched);
        touched.sort_unstable();
        assert_eq!(touched, (0..count).collect::<Vec<_>>(), "the others have their turn");
    }
}
