//! The clock of a node's lease: until when the node may act as a member of the pool.
//!
//! etcd ends the lease one TTL after it last handled a keep-alive. The node cannot see when that
//! was; it was certainly not before the keep-alive was *sent*. So a node acts until the send time
//! of an answered keep-alive plus the TTL, less a margin for the rates of two clocks, and then
//! stops by itself: the leader promotes another primary only after etcd shows that the lease is
//! gone.
//!
//! ```text
//! node   sent ----------------------------> held_until      (here it stops)
//!           \                                        .
//! etcd       handled --------------------------------.--> expires: TTL after it was handled
//!                   \                                       (from here on others lead)
//! node               answered: now `sent` counts
//! ```

use std::collections::BTreeMap;

/// What a node leaves unused of its lease. Rates of clocks that differ by 5 % take 150 ms of a TTL
/// of 3 s.
pub const MARGIN_MS: u64 = 500;

/// Keep-alives whose answers are still possible. With more, the oldest one is given up.
pub const PENDING_MAX: usize = 64;

/// The number of a keep-alive, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeepAlive(u64);

/// What a node knows of its lease. Times are milliseconds of a clock that never runs backwards,
/// and that goes on while the machine is suspended.
#[derive(Clone, Debug)]
pub struct LeaseClock {
    ttl_ms: u64,
    /// When each keep-alive was sent that is not answered.
    pending: BTreeMap<KeepAlive, u64>,
    next: KeepAlive,
    held_until_ms: u64,
    lost: bool,
}

impl LeaseClock {
    /// The clock of a lease that etcd granted for `ttl_ms`, asked for at `asked_ms`.
    pub fn new(asked_ms: u64, ttl_ms: u64) -> Self {
        Self {
            ttl_ms,
            pending: BTreeMap::new(),
            next: KeepAlive(0),
            held_until_ms: asked_ms + ttl_ms.saturating_sub(MARGIN_MS),
            lost: false,
        }
    }

    /// A keep-alive is about to be sent; its answer names the number. The time is taken before
    /// the keep-alive leaves, or the lease would be held for too long.
    pub fn send(&mut self, now_ms: u64) -> KeepAlive {
        let number = self.next;
        self.next = KeepAlive(number.0 + 1);
        self.pending.insert(number, now_ms);
        if self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
        }
        number
    }

    /// etcd answered this keep-alive, with the TTL that the lease has from then on; 0 says that the
    /// lease is gone.
    ///
    /// An answer that comes after that of a later keep-alive changes nothing, nor does a second
    /// answer. When the lease is gone it stays so: a new lease has a clock of its own.
    pub fn answer(&mut self, number: KeepAlive, ttl_ms: u64) {
        let Some(sent_ms) = self.pending.remove(&number) else { return };
        if ttl_ms == 0 {
            self.lose();
            return;
        }
        let ttl_ms = ttl_ms.min(self.ttl_ms);
        self.held_until_ms = self.held_until_ms.max(sent_ms + ttl_ms.saturating_sub(MARGIN_MS));
    }

    /// The lease is gone: etcd said so, or the node revoked it.
    pub fn lose(&mut self) {
        self.lost = true;
        self.pending.clear();
    }

    /// Whether the node may answer for its groups and record commits.
    pub fn is_held(&self, now_ms: u64) -> bool {
        self.held_until_ms().is_some_and(|until| now_ms < until)
    }

    /// When the node stops unless another answer comes; `None` when the lease is gone.
    pub fn held_until_ms(&self) -> Option<u64> {
        (!self.lost).then_some(self.held_until_ms)
    }
}

#[cfg(test)]
mod tests;
