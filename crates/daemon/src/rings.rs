//! Which rings are looked at, so that a question costs the same with one client and with thousands.
//!
//! ```text
//!          its doorbell rings        nothing in it for a while, or too many are awake
//!  idle ───────────────────► awake ───────────────────────────────────────────────────► idle
//!  (the client rings         (the daemon looks at it
//!   when it submits)          whenever it looks at rings)
//! ```
//!
//! A client whose ring is idle rings its own doorbell before its submission counts as made. So a
//! submission made before a request is either in a ring that is awake, or its doorbell is among
//! those that the kernel lists here; and a miss that is answered over the socket is final. The
//! memory ordering is described in [`plasmon_shm::sleep_flag`].
//!
//! A doorbell is never read, only listed by an edge-triggered epoll instance of its own.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use plasmon_shm::Doorbell;
use plasmon_store::ClientNo;

use crate::poll::{EVENTS_AT_ONCE, Poll, Ready, Source};
use crate::sessions::{SessionNo, Sessions};

/// Rings that are awake at once. Beyond that, one is put to rest for each that wakes.
const AWAKE_MAX: usize = 256;

/// How often rings that held nothing since the last time are put to rest, in milliseconds.
pub(crate) const REST_EVERY_MS: u64 = 100;

/// A ring that is looked at.
#[derive(Clone, Copy, Debug)]
struct Awake {
    session: SessionNo,
    /// Whether it held something since it was last asked.
    worked: bool,
}

/// A ring that held something when a pass over the rings began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Whose it is.
    pub(crate) session: SessionNo,
    /// The client of that session.
    pub(crate) client: ClientNo,
    /// Records of it that are still to be applied in this pass.
    pub(crate) left: usize,
    /// Records of it that were applied in this pass.
    pub(crate) applied: usize,
}

/// The rings of all connected clients.
#[derive(Debug)]
pub(crate) struct Rings {
    doorbells: Poll,
    rung: Vec<Ready>,
    awake: Vec<Awake>,
    /// How many rings and doorbells were looked at.
    #[cfg(test)]
    looks: usize,
}

impl Rings {
    /// No rings yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            doorbells: Poll::new()?,
            rung: Vec::new(),
            awake: Vec::new(),
            #[cfg(test)]
            looks: 0,
        })
    }

    /// Listens to the doorbell of a session.
    pub(crate) fn watch(&self, doorbell: &Doorbell, session: SessionNo) -> io::Result<()> {
        self.doorbells.add_doorbell(doorbell, Source::Doorbell(session.0))
    }

    /// Stops listening to a doorbell, and looking at the ring.
    pub(crate) fn unwatch(&mut self, session: SessionNo, doorbell: Option<&Doorbell>) {
        if let Some(doorbell) = doorbell {
            self.doorbells.remove(doorbell);
        }
        self.awake.retain(|awake| awake.session != session);
    }

    /// Looks at the ring of a session from now on.
    pub(crate) fn awaken(&mut self, session: SessionNo, sessions: &mut Sessions) {
        if let Some(found) = self.awake.iter_mut().find(|awake| awake.session == session) {
            found.worked = true;
            return;
        }
        let Some(channel) = sessions.channel_mut(session) else { return };
        channel.watch_submissions();
        if self.awake.len() >= AWAKE_MAX {
            // The first that goes: those before it have work, or no doorbell to ring.
            let mut awake = self.awake.iter();
            if let Some(at) = awake.position(|awake| rests(awake.session, sessions)) {
                self.awake.remove(at);
            }
        }
        self.awake.push(Awake { session, worked: true });
    }

    /// Has a new client ring its doorbell with its first submission.
    pub(crate) fn rest(&mut self, session: SessionNo, sessions: &mut Sessions) {
        if !rests(session, sessions) {
            self.awaken(session, sessions);
        }
    }

    /// Awakens the rings whose doorbells were rung before this call.
    pub(crate) fn awaken_rung(&mut self, sessions: &mut Sessions) {
        let mut rung = std::mem::take(&mut self.rung);
        // A doorbell is listed once, however often it rings, so that this many looks are enough for
        // all; one that rings all the time is not waited for.
        for _ in 0..=sessions.count() / EVENTS_AT_ONCE {
            if let Err(error) = self.doorbells.wait(Some(Duration::ZERO), &mut rung) {
                tracing::error!(%error, "doorbells cannot be polled");
                break;
            }
            #[cfg(test)]
            {
                self.looks += 1 + rung.len();
            }
            let is_all = rung.len() < EVENTS_AT_ONCE;
            for ready in rung.drain(..) {
                if let Source::Doorbell(number) = ready.source {
                    self.awaken(SessionNo(number), sessions);
                }
            }
            if is_all {
                break;
            }
        }
        self.rung = rung;
    }

    /// Whether a ring that is awake holds something, or is broken.
    pub(crate) fn have_work(&self, sessions: &Sessions) -> bool {
        self.awake.iter().any(|awake| sessions.has_work(awake.session))
    }

    /// Adds the rings that hold something, or are broken, with what they hold now.
    pub(crate) fn collect_work(&mut self, sessions: &Sessions, into: &mut VecDeque<Work>) {
        #[cfg(test)]
        {
            self.looks += self.awake.len();
        }
        for awake in &mut self.awake {
            let session = awake.session;
            let client = sessions.get(session).and_then(|session| session.client);
            if let (Some(client), Some(left)) = (client, sessions.work(session)) {
                awake.worked = true;
                into.push_back(Work { session, client, left, applied: 0 });
            }
        }
    }

    /// Puts the rings to rest that held nothing since the last call.
    pub(crate) fn rest_idle(&mut self, sessions: &mut Sessions) {
        self.awake.retain_mut(|awake| {
            std::mem::take(&mut awake.worked) || !rests(awake.session, sessions)
        });
    }
}

impl AsFd for Rings {
    /// Becomes readable when a doorbell rings.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.doorbells.as_fd()
    }
}

/// Asks a client to ring from now on; false if there is something in its ring or it has no
/// doorbell, because it is only expected back.
fn rests(session: SessionNo, sessions: &mut Sessions) -> bool {
    let has_doorbell = sessions.get(session).is_some_and(|found| found.doorbell.is_some());
    has_doorbell && sessions.channel_mut(session).is_some_and(|channel| channel.await_doorbell())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::DETACHED_MAX;
    use crate::sessions::tests::session;
    use plasmon_proto::ring::Submission;
    use plasmon_shm::{ChannelClient, ControlDaemon, ControlReader};

    struct Client {
        no: SessionNo,
        channel: ChannelClient,
        doorbell: Doorbell,
    }

    struct RingsFixture {
        rings: Rings,
        sessions: Sessions,
        control: ControlReader,
        clients: Vec<Client>,
    }

    fn fixture(clients: u32) -> RingsFixture {
        let control = ControlDaemon::create().unwrap();
        let control = ControlReader::new(control.memfd().read_only().unwrap()).unwrap();
        let (mut rings, mut sessions) = (Rings::new().unwrap(), Sessions::new(DETACHED_MAX));
        let clients = (0..clients)
            .map(|number| {
                let no = sessions.insert(session(u64::from(number) + 1));
                let doorbell = Doorbell::new().unwrap();
                let channel = sessions.channel_mut(no).unwrap().memfd().writable().unwrap();
                let theirs = Doorbell::adopt(doorbell.duplicate().unwrap());
                rings.watch(&doorbell, no).unwrap();
                sessions.connect(no, ClientNo(number), Some(doorbell));
                rings.rest(no, &mut sessions);
                Client { no, channel: ChannelClient::new(channel).unwrap(), doorbell: theirs }
            })
            .collect();
        RingsFixture { rings, sessions, control, clients }
    }

    impl RingsFixture {
        /// Submits as a client does; whether the doorbell was rung.
        fn submit(&self, at: usize) -> bool {
            let Client { channel, doorbell, .. } = &self.clients[at];
            let record = Submission::LeaseWanted { bytes_min: 1, bytes_wanted: 1 }.encode();
            let submitted = channel.submit(&record, &self.control).unwrap();
            if submitted.must_ring {
                doorbell.ring().unwrap();
                channel.rang(&submitted);
            }
            submitted.must_ring
        }

        fn work(&mut self) -> Vec<SessionNo> {
            self.rings.awaken_rung(&mut self.sessions);
            let mut work = VecDeque::new();
            self.rings.collect_work(&self.sessions, &mut work);
            for ring in &work {
                self.sessions.drain(ring.session, usize::MAX, &mut Vec::new()).unwrap();
            }
            work.into_iter().map(|ring| ring.session).collect()
        }
    }

    #[test]
    fn a_client_rings_once_and_is_looked_at_until_it_rests() {
        let mut fixture = fixture(3);
        let no = fixture.clients[1].no;
        assert!(fixture.submit(1), "its ring is idle");
        assert!(!fixture.submit(1), "it was rung already");
        assert_eq!(fixture.work(), [no]);
        assert!(!fixture.submit(1), "its ring is awake");
        assert_eq!(fixture.work(), [no]);
        // It held something since the last look, then nothing.
        fixture.rings.rest_idle(&mut fixture.sessions);
        assert!(!fixture.submit(1));
        fixture.rings.rest_idle(&mut fixture.sessions);
        assert_eq!(fixture.work(), [no], "a ring with something in it does not rest");
        fixture.rings.rest_idle(&mut fixture.sessions);
        fixture.rings.rest_idle(&mut fixture.sessions);
        assert!(fixture.rings.awake.is_empty());
        assert!(fixture.submit(1));
        assert_eq!(fixture.work(), [no]);
    }

    /// A request cost 25 ns for each client there was, 40 us with 1,500 of them.
    #[test]
    fn a_question_looks_at_as_many_rings_with_a_thousand_idle_clients_as_without() {
        let looks = |idle: u32| {
            let mut fixture = fixture(1 + idle);
            // Two rests, after which no ring is awake that held nothing.
            for _ in 0..2 {
                fixture.rings.rest_idle(&mut fixture.sessions);
            }
            fixture.rings.looks = 0;
            assert!(fixture.submit(0));
            assert_eq!(fixture.work(), [fixture.clients[0].no]);
            assert!(fixture.work().is_empty());
            fixture.rings.looks
        };
        assert_eq!(looks(1000), looks(0));
    }

    #[test]
    fn a_ring_without_a_doorbell_is_always_looked_at() {
        // A client that is expected back rings at a daemon that is dead.
        let mut fixture = fixture(1);
        let no = fixture.clients[0].no;
        let doorbell = fixture.sessions.get_mut(no).unwrap().doorbell.take();
        fixture.rings.unwatch(no, doorbell.as_ref());
        fixture.rings.rest(no, &mut fixture.sessions);
        for _ in 0..3 {
            fixture.rings.rest_idle(&mut fixture.sessions);
            assert!(!fixture.submit(0));
            assert_eq!(fixture.work(), [no]);
        }
    }

    #[test]
    fn no_more_rings_are_awake_than_the_limit_and_none_is_forgotten() {
        let count = AWAKE_MAX + 70;
        let mut fixture = fixture(count as u32);
        (0..count).for_each(|at| assert!(fixture.submit(at)));
        // Those that came too late wait in their own doorbells.
        let mut seen: Vec<_> = fixture.work();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
        for at in 0..count {
            fixture.submit(at);
        }
        assert_eq!(fixture.work().len(), count);
        for _ in 0..2 {
            fixture.rings.rest_idle(&mut fixture.sessions);
        }
        assert!(fixture.rings.awake.is_empty());
    }
}
