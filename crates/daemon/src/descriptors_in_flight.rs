//! Descriptors that were sent to clients and that these have not received.
//!
//! The kernel counts them for the user that sends them, which is the daemon's, and lets it have as
//! many as it may have open files. Were they used up, no message with descriptors could be sent any
//! more, not even to the keeper. So there is a limit for each client, for the clients of each user,
//! and for all together. What is counted here is an upper bound: nothing tells the daemon that a
//! client has received what it was sent, but it can ask the kernel whether all of it was.
//!
//! ```text
//! send ─► within the limits? ── yes ─► counted
//!              └── no ─► ask for some clients, in turn: received ─► counted no more
//!                                                 └── not, time after time: disconnected
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

use plasmon_proto::limits::FRAME_FDS_MAX;

/// Descriptors that a client may have been sent and not have received.
pub(crate) const FDS_UNREAD_MAX: usize = 2 * FRAME_FDS_MAX;

/// For how long a client may leave descriptors where they are while others wait for room.
const UNREAD_WITHIN: Duration = Duration::from_secs(2);

/// Of how many clients it is asked at a time whether they have received what they were sent.
pub(crate) const ASKED_AT_ONCE: usize = 64;

/// The part of its open files that the daemon may have on their way to clients. The rest is for the
/// keeper and for other programs of this user.
const SHARE_OF_OPEN_FILES: u64 = 2;

/// The most whatever the kernel allows: some for each client.
const ALL_MAX: u64 = 1 << 16;

/// What one client was sent and may not have received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnreadDescriptors {
    fds: usize,
    /// Since when every look found that it had not received all.
    missing_since: Option<Instant>,
}

impl UnreadDescriptors {
    /// Whether there is something that the client may not have received.
    pub(crate) fn is_any(&self) -> bool {
        self.fds > 0
    }

    /// A look found that the client has not received everything. Whether that is so for too long.
    pub(crate) fn is_overdue(&mut self, now: Instant) -> bool {
        let since = *self.missing_since.get_or_insert(now);
        now.saturating_duration_since(since) >= UNREAD_WITHIN
    }
}

/// What all clients were sent and may not have received.
#[derive(Debug)]
pub(crate) struct DescriptorsInFlight {
    all: usize,
    by_user: HashMap<u32, usize>,
    all_max: usize,
    user_max: usize,
    /// The number of the client at which the next look starts.
    pub(crate) next: u32,
}

impl DescriptorsInFlight {
    /// Nothing is in flight yet. The limits follow from the daemon's open files and users.
    pub(crate) fn new(open_files_max: u64, users: usize) -> Self {
        let all_max = (open_files_max / SHARE_OF_OPEN_FILES).min(ALL_MAX) as usize;
        // At least what two clients may have.
        let all_max = all_max.max(2 * FDS_UNREAD_MAX);
        let user_max = if users > 1 { all_max / 2 } else { all_max };
        Self { all: 0, by_user: HashMap::new(), all_max, user_max, next: 0 }
    }

    /// Whether a client of this user may be sent this many descriptors now.
    pub(crate) fn has_room_for(&self, uid: u32, unread: &UnreadDescriptors, fds: usize) -> bool {
        fds == 0 || unread.fds + fds <= FDS_UNREAD_MAX && self.has_common_room_for(uid, fds)
    }

    /// Whether it may as far as others are concerned.
    pub(crate) fn has_common_room_for(&self, uid: u32, fds: usize) -> bool {
        let of_user = self.by_user.get(&uid).copied().unwrap_or(0);
        of_user + fds <= self.user_max && self.all + fds <= self.all_max
    }

    /// A client of this user was sent this many.
    pub(crate) fn sent(&mut self, uid: u32, unread: &mut UnreadDescriptors, fds: usize) {
        if fds == 0 {
            return;
        }
        unread.fds += fds;
        self.all += fds;
        *self.by_user.entry(uid).or_default() += fds;
    }

    /// A client has received everything, or is gone: the kernel takes back what it has not.
    pub(crate) fn received(&mut self, uid: u32, unread: &mut UnreadDescriptors) {
        let fds = std::mem::take(unread).fds;
        self.all -= fds;
        if let Some(of_user) = self.by_user.get_mut(&uid) {
            *of_user -= fds;
            if *of_user == 0 {
                self.by_user.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_on_their_way_have_a_limit_for_each_user_and_for_all() {
        // Each client had a limit, but some hundred clients that did not read had as many in flight
        // as the kernel allows the daemon's user, and no other client could be sent any.
        let limit = 8 * FDS_UNREAD_MAX;
        let mut passing = DescriptorsInFlight::new(2 * limit as u64, 2);
        let mut clients: Vec<(u32, UnreadDescriptors)> = Vec::new();
        let fill = |passing: &mut DescriptorsInFlight,
                    clients: &mut Vec<(u32, UnreadDescriptors)>,
                    uid,
                    most| {
            for _ in 0..most {
                let mut unread = UnreadDescriptors::default();
                while passing.has_room_for(uid, &unread, FRAME_FDS_MAX) {
                    passing.sent(uid, &mut unread, FRAME_FDS_MAX);
                }
                clients.push((uid, unread));
            }
            clients.iter().filter(|client| client.0 == uid).map(|client| client.1.fds).sum()
        };
        let of_one: usize = fill(&mut passing, &mut clients, 1, 1);
        assert_eq!(of_one, FDS_UNREAD_MAX, "one client");
        let of_first: usize = fill(&mut passing, &mut clients, 1, 100);
        assert_eq!(of_first, limit / 2, "one user");
        let of_second: usize = fill(&mut passing, &mut clients, 2, 100);
        assert_eq!(of_second, limit / 2, "another user has room");
        assert!(!passing.has_room_for(3, &UnreadDescriptors::default(), 1), "all");
        assert!(passing.has_room_for(3, &UnreadDescriptors::default(), 0));
        for (uid, unread) in &mut clients {
            passing.received(*uid, unread);
            assert!(!unread.is_any());
        }
        assert_eq!((passing.all, passing.by_user.len()), (0, 0));
        let mut alone = DescriptorsInFlight::new(2 * limit as u64, 1);
        let of_only: usize = fill(&mut alone, &mut Vec::new(), 1, 100);
        assert_eq!(of_only, limit, "the only user has all");
    }

    #[test]
    fn a_client_is_overdue_when_every_look_for_two_seconds_found_something() {
        let (mut passing, mut unread) =
            (DescriptorsInFlight::new(1 << 20, 1), UnreadDescriptors::default());
        let now = Instant::now();
        passing.sent(1, &mut unread, 1);
        let almost = now + UNREAD_WITHIN - Duration::from_millis(1);
        assert!(!unread.is_overdue(now) && !unread.is_overdue(almost));
        passing.received(1, &mut unread);
        passing.sent(1, &mut unread, 1);
        assert!(!unread.is_overdue(almost));
        assert!(unread.is_overdue(almost + UNREAD_WITHIN));
    }
}
