//! Limits on connections, so that no user can take those of the others.
//!
//! Half of all connections are divided among the users that the store admits; the other half is
//! for any admitted user. A store for one user has all its connections for that user.
//! Settings limit what one user and one process may have.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use plasmon_proto::limits::CLIENTS_MAX;
use plasmon_store::ClientNo;

use crate::settings::config::ConnectionsMax;

/// How long a connection may take to say hello.
pub(crate) const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// Connections of one user that have not said hello yet. When there is one more, the one that has
/// been silent for longest goes.
pub(crate) const UNIDENTIFIED_PER_USER_MAX: usize = 256;

/// Whose connection it is, and which process made it; 0 for one that the daemon cannot see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
}

/// Why there is no room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The store has as many connections as it takes, or this user its share of them.
    Full,
    /// This user has this many, which is what the settings allow.
    User(usize),
    /// This process has this many, which is what the settings allow.
    Process(usize),
}

/// How many connections there are, and of whom, against what is allowed.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    by_user: HashMap<u32, usize>,
    by_process: HashMap<u32, usize>,
    most: ConnectionsMax,
    /// What every admitted user has for itself.
    share: usize,
    /// What is for all.
    common: usize,
    common_taken: usize,
    /// Connections that have not said hello when they came, the oldest first. Some of them may have
    /// said hello since or be gone.
    unidentified: VecDeque<UnidentifiedConnection>,
}

/// A connection that had not said hello when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnidentifiedConnection {
    /// Which.
    pub(crate) client: ClientNo,
    /// Whose.
    pub(crate) uid: u32,
    /// When it must have.
    pub(crate) until: Instant,
}

impl ConnectionLimits {
    /// Limits for a number of admitted users, with no connection yet.
    pub(crate) fn new(users: usize, most: ConnectionsMax) -> Self {
        let share = match users {
            0 | 1 => CLIENTS_MAX,
            users => CLIENTS_MAX / 2 / users,
        };
        let common = CLIENTS_MAX.saturating_sub(share * users.max(1));
        Self {
            by_user: HashMap::new(),
            by_process: HashMap::new(),
            most,
            share,
            common,
            common_taken: 0,
            unidentified: VecDeque::new(),
        }
    }

    /// Whether there is room for one more connection of this user and process.
    pub(crate) fn has_room_for(&self, holder: Holder) -> Result<(), NoRoom> {
        let of_user = self.taken(holder.uid);
        let of_process = self.by_process.get(&holder.pid).copied().unwrap_or(0);
        if of_process >= self.most.of_process {
            return Err(NoRoom::Process(of_process));
        }
        if of_user >= self.most.of_user {
            return Err(NoRoom::User(of_user));
        }
        let is_free = of_user < self.share || self.common_taken < self.common;
        if is_free { Ok(()) } else { Err(NoRoom::Full) }
    }

    /// How many connections a user has.
    pub(crate) fn taken(&self, uid: u32) -> usize {
        self.by_user.get(&uid).copied().unwrap_or(0)
    }

    /// Counts a connection that opened.
    pub(crate) fn take(&mut self, holder: Holder) {
        if holder.pid != 0 {
            *self.by_process.entry(holder.pid).or_default() += 1;
        }
        let taken = self.by_user.entry(holder.uid).or_default();
        *taken += 1;
        if *taken > self.share {
            self.common_taken += 1;
        }
    }

    /// Counts a connection that closed.
    pub(crate) fn leave(&mut self, holder: Holder) {
        let Holder { uid, pid } = holder;
        if let Some(taken) = self.by_process.get_mut(&pid) {
            *taken -= 1;
            if *taken == 0 {
                self.by_process.remove(&pid);
            }
        }
        let Some(taken) = self.by_user.get_mut(&uid) else { return };
        if *taken > self.share {
            self.common_taken -= 1;
        }
        *taken -= 1;
        if *taken == 0 {
            self.by_user.remove(&uid);
        }
    }

    /// A connection has to say hello.
    pub(crate) fn expect_hello(&mut self, unidentified: UnidentifiedConnection) {
        self.unidentified.push_back(unidentified);
    }

    /// Forgets the oldest connections of which `is_over` says that they have said hello or are
    /// gone; returns the oldest that is left.
    pub(crate) fn oldest_unidentified(
        &mut self,
        is_over: impl Fn(&UnidentifiedConnection) -> bool,
    ) -> Option<UnidentifiedConnection> {
        while self.unidentified.front().is_some_and(&is_over) {
            self.unidentified.pop_front();
        }
        self.unidentified.front().copied()
    }

    /// The connection of this user that has been unidentified for longest, if the user is at the
    /// limit.
    pub(crate) fn surplus_unidentified(
        &mut self,
        uid: u32,
        is_over: impl Fn(&UnidentifiedConnection) -> bool,
    ) -> Option<UnidentifiedConnection> {
        if self.unidentified.len() < UNIDENTIFIED_PER_USER_MAX {
            return None;
        }
        self.unidentified.retain(|unidentified| !is_over(unidentified));
        let mut own = self.unidentified.iter().filter(|unidentified| unidentified.uid == uid);
        let oldest = own.next().copied()?;
        (own.count() + 1 >= UNIDENTIFIED_PER_USER_MAX).then_some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: ConnectionsMax = ConnectionsMax { of_user: CLIENTS_MAX, of_process: CLIENTS_MAX };

    fn of(uid: u32) -> Holder {
        Holder { uid, pid: 100 + uid }
    }

    #[test]
    fn no_user_takes_the_connections_of_another() {
        let mut limits = ConnectionLimits::new(2, ANY);
        let share = CLIENTS_MAX / 4;
        // The first takes its share and all that is common.
        let mut taken = 0;
        while limits.has_room_for(of(1)).is_ok() {
            limits.take(of(1));
            taken += 1;
        }
        assert_eq!(taken, share + CLIENTS_MAX / 2);
        for _ in 0..share {
            assert_eq!(limits.has_room_for(of(2)), Ok(()));
            limits.take(of(2));
        }
        assert_eq!(limits.has_room_for(of(2)), Err(NoRoom::Full), "every connection is taken");
        limits.leave(of(1));
        assert!(limits.has_room_for(of(2)).is_ok() && limits.has_room_for(of(1)).is_ok());
        limits.take(of(2));
        assert_eq!(limits.has_room_for(of(1)), Err(NoRoom::Full), "the common connection is taken");
        limits.leave(of(2));
        assert_eq!(limits.has_room_for(of(1)), Ok(()));
    }

    #[test]
    fn the_only_user_has_every_connection() {
        let mut limits = ConnectionLimits::new(1, ANY);
        let holder = |number: usize| Holder { uid: 7, pid: number as u32 };
        (0..CLIENTS_MAX).for_each(|number| {
            assert_eq!(limits.has_room_for(holder(number)), Ok(()));
            limits.take(holder(number));
        });
        assert_eq!(limits.has_room_for(holder(CLIENTS_MAX)), Err(NoRoom::User(CLIENTS_MAX)));
        (0..CLIENTS_MAX).for_each(|number| limits.leave(holder(number)));
        assert_eq!((limits.taken(7), limits.common_taken), (0, 0));
        assert!(limits.by_user.is_empty() && limits.by_process.is_empty());
    }

    /// One process could have every connection, and with each of them memory and descriptors.
    #[test]
    fn a_user_and_a_process_have_what_the_settings_say() {
        let mut limits = ConnectionLimits::new(1, ConnectionsMax { of_user: 5, of_process: 2 });
        let process = |pid| Holder { uid: 7, pid };
        for _ in 0..2 {
            assert_eq!(limits.has_room_for(process(1)), Ok(()));
            limits.take(process(1));
        }
        assert_eq!(limits.has_room_for(process(1)), Err(NoRoom::Process(2)));
        // It cannot be determined which processes these are.
        (0..3).for_each(|_| limits.take(process(0)));
        assert_eq!(limits.has_room_for(process(0)), Err(NoRoom::User(5)));
        assert_eq!(limits.has_room_for(process(2)), Err(NoRoom::User(5)));
        assert_eq!(limits.has_room_for(Holder { uid: 8, pid: 3 }), Ok(()));
        limits.leave(process(1));
        assert_eq!(limits.has_room_for(process(1)), Ok(()));
    }

    #[test]
    fn the_oldest_unidentified_connection_of_a_user_makes_room() {
        let mut limits = ConnectionLimits::new(2, ANY);
        let now = Instant::now();
        let connection = |number: u32, uid| UnidentifiedConnection {
            client: ClientNo(number),
            uid,
            until: now + HELLO_WITHIN,
        };
        let limit = UNIDENTIFIED_PER_USER_MAX as u32;
        (0..limit).for_each(|number| limits.expect_hello(connection(number, 1)));
        limits.expect_hello(connection(limit, 2));
        assert_eq!(limits.surplus_unidentified(2, |_| false), None);
        assert_eq!(limits.surplus_unidentified(1, |_| false), Some(connection(0, 1)));
        // The oldest has said hello.
        let is_over = |unidentified: &UnidentifiedConnection| unidentified.client == ClientNo(0);
        assert_eq!(limits.surplus_unidentified(1, is_over), None);
        assert_eq!(limits.oldest_unidentified(is_over), Some(connection(1, 1)));
        assert_eq!(limits.oldest_unidentified(|_| true), None);
    }
}
