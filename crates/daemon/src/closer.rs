//! Where descriptors that came from clients are closed: never on the loop thread.
//!
//! Closing a descriptor may wait for what it refers to: a socket that lingers, a file of a file
//! system that does not answer. The same holds for a connection that is closed while a message with
//! such a descriptor lies in it unread. So both go to a thread for each user, which may wait, and
//! the other users have their own threads.
//!
//! On kernels from 6.16 on the daemon's sockets take no descriptors in the first place
//! (`Listener::refuse_descriptors`), and little is to be done here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use plasmon_proto::limits::CLIENTS_MAX;
use plasmon_shm::edge;

use crate::workers::spawn;

/// Descriptors that one user passed and that may wait to be closed. A user with more is not let in.
pub(crate) const CLOSING_PER_USER_MAX: usize = 256;

/// Connections and sessions of one user that may wait to be closed: all that there can be may end
/// at once, and the next client comes in.
const ENDING_PER_USER_MAX: usize = 2 * CLIENTS_MAX;

/// Users with their own thread; further ones share one.
const LANES_MAX: usize = 64;

/// How long a thread waits for more to close before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// The number under which users without their own thread are counted: no user has it.
const SHARED_LANE: u32 = u32::MAX;

/// What a user has waiting to be closed.
#[derive(Debug, Default)]
struct UserBacklog {
    descriptors: AtomicUsize,
    ending: AtomicUsize,
}

impl UserBacklog {
    fn of(&self, kind: Kind) -> (&AtomicUsize, usize) {
        match kind {
            Kind::Descriptors(count) => (&self.descriptors, count),
            Kind::Ending => (&self.ending, 1),
        }
    }
}

/// What is closed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// So many descriptors that the user passed.
    Descriptors(usize),
    /// A connection or a session of the user's.
    Ending,
}

/// Something whose end closes descriptors.
struct Parcel {
    kind: Kind,
    _what: Box<dyn Send>,
}

/// One user's thread.
#[derive(Debug, Default)]
struct Lane {
    sender: Option<Sender<Parcel>>,
    pending: Arc<UserBacklog>,
}

/// The threads that close.
#[derive(Debug, Default)]
pub(crate) struct Closer {
    lanes: HashMap<u32, Lane>,
}

impl Closer {
    /// Has something closed that holds this many descriptors passed by this user.
    pub(crate) fn close(&mut self, uid: u32, descriptors: usize, what: impl Send + 'static) {
        self.send(uid, Kind::Descriptors(descriptors), what);
    }

    /// Has a connection or a session of this user's closed.
    pub(crate) fn end(&mut self, uid: u32, what: impl Send + 'static) {
        self.send(uid, Kind::Ending, what);
    }

    fn send(&mut self, uid: u32, kind: Kind, what: impl Send + 'static) {
        let uid = self.lane_of(uid);
        let lane = self.lanes.entry(uid).or_default();
        let (pending, count) = lane.pending.of(kind);
        pending.fetch_add(count, Ordering::Relaxed);
        let mut parcel = Parcel { kind, _what: Box::new(what) };
        if let Some(sender) = &lane.sender {
            match sender.send(parcel) {
                Ok(()) => return,
                // Its thread had nothing to do for a while and ended.
                Err(unsent) => parcel = unsent.0,
            }
        }
        let (sender, parcels) = channel();
        let pending = Arc::clone(&lane.pending);
        match spawn("plasmon-closer", move || work(&parcels, &pending)) {
            Ok(()) => {
                // The receiver has just been made and takes whatever comes.
                let _ = sender.send(parcel);
                lane.sender = Some(sender);
            }
            Err(error) => {
                tracing::warn!(%error, uid, "cannot start the thread that closes descriptors; \
                                             clients wait while the daemon closes them");
                let (pending, count) = lane.pending.of(kind);
                pending.fetch_sub(count, Ordering::Relaxed);
                lane.sender = None;
            }
        }
    }

    /// Whether this user has so much waiting to be closed that no more is taken.
    pub(crate) fn is_full(&self, uid: u32) -> bool {
        self.lanes.get(&self.lane_of(uid)).is_some_and(|lane| {
            lane.pending.descriptors.load(Ordering::Relaxed) >= CLOSING_PER_USER_MAX
                || lane.pending.ending.load(Ordering::Relaxed) >= ENDING_PER_USER_MAX
        })
    }

    fn lane_of(&self, uid: u32) -> u32 {
        let has_own = self.lanes.contains_key(&uid) || self.lanes.len() < LANES_MAX;
        if has_own { uid } else { SHARED_LANE }
    }
}

/// The main loop of one user's thread. It may wait in a close indefinitely.
fn work(parcels: &Receiver<Parcel>, pending: &UserBacklog) {
    loop {
        match edge::receive_within(parcels, IDLE) {
            Ok(parcel) => {
                let (pending, count) = pending.of(parcel.kind);
                drop(parcel);
                pending.fetch_sub(count, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;

    /// Takes as long to close as its other end wants, like a socket that lingers.
    struct Slow(Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    struct Seen(Sender<()>);

    impl Drop for Seen {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_close_that_hangs_holds_up_its_own_user_only() {
        // A client passed a socket that lingers, and the daemon waited in its close for as long as
        // the client liked. Here one user's close never ends.
        let mut closer = Closer::default();
        let (hold, wait) = channel();
        closer.close(ALICE, 1, Slow(wait));
        let (seen, closed) = channel();
        closer.close(BOB, 1, Seen(seen));
        closed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!closer.is_full(ALICE));
        closer.close(ALICE, CLOSING_PER_USER_MAX - 2, ());
        assert!(!closer.is_full(ALICE));
        closer.close(ALICE, 1, ());
        assert!(closer.is_full(ALICE), "at the limit");
        assert!(!closer.is_full(BOB));
        drop(hold);
        let deadline = Instant::now() + Duration::from_secs(60);
        while closer.is_full(ALICE) {
            assert!(Instant::now() < deadline, "what waited is closed");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_user_whose_clients_all_end_at_once_is_admitted() {
        // Nine hundred connections of one user ended together, and the next one was refused for
        // descriptors that were not being passed.
        let mut closer = Closer::default();
        let (hold, wait) = channel();
        closer.end(ALICE, Slow(wait));
        for _ in 1..ENDING_PER_USER_MAX {
            assert!(!closer.is_full(ALICE));
            closer.end(ALICE, ());
        }
        assert!(closer.is_full(ALICE), "at the limit");
        assert!(!closer.is_full(BOB));
        drop(hold);
    }

    #[test]
    fn more_users_than_threads_share_one() {
        let mut closer = Closer::default();
        for uid in 0..2 * LANES_MAX as u32 {
            closer.close(uid, 1, ());
        }
        assert_eq!(closer.lanes.len(), LANES_MAX + 1);
    }
}
