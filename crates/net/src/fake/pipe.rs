//! One direction of a connection of the fake network.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// When something arrives that waits for a path to be mended.
const NEVER: Duration = Duration::MAX;

const NANOSECONDS: u128 = 1_000_000_000;

/// How bytes travel from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// How long a byte is under way.
    pub delay: Duration,
    /// How many bytes pass in a second; `None` is no limit.
    pub bytes_per_second: Option<u64>,
    /// Whether nothing passes.
    pub is_cut: bool,
}

/// Bytes under way and unread, in order.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Until when the line is busy with what was sent before.
    busy_until: Duration,
    /// When the end of the connection arrives, after all bytes.
    ends_at: Option<Duration>,
}

#[derive(Debug)]
struct Piece {
    arrives_at: Duration,
    bytes: Vec<u8>,
    /// How many of the bytes are read.
    read: usize,
}

impl Pipe {
    /// Bytes that are under way or unread.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether its sender has ended it.
    pub(super) fn is_finished(&self) -> bool {
        self.ends_at.is_some()
    }

    /// Sends bytes.
    pub(super) fn send(&mut self, bytes: Vec<u8>, now: Duration, path: &Path) {
        self.bytes += bytes.len();
        let arrives_at = self.arrival(bytes.len(), now, path);
        self.pieces.push_back(Piece { arrives_at, bytes, read: 0 });
    }

    /// Ends it, after what was sent.
    pub(super) fn finish(&mut self, now: Duration, path: &Path) {
        if self.ends_at.is_none() {
            self.ends_at = Some(self.arrival(0, now, path));
        }
    }

    /// When bytes arrive that are sent now: never before what was sent earlier.
    fn arrival(&mut self, bytes: usize, now: Duration, path: &Path) -> Duration {
        let last = self.pieces.back().map_or(Duration::ZERO, |piece| piece.arrives_at);
        if path.is_cut || last == NEVER {
            return NEVER;
        }
        let rate = u128::from(path.bytes_per_second.unwrap_or(u64::MAX).max(1));
        let nanoseconds = bytes as u128 * NANOSECONDS / rate;
        let passing = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.busy_until = self.busy_until.max(now).saturating_add(passing);
        self.busy_until.saturating_add(path.delay).max(last)
    }

    /// What waits begins to travel: the path was mended.
    pub(super) fn resume(&mut self, now: Duration, path: &Path) {
        let travelling = self.pieces.partition_point(|piece| piece.arrives_at < NEVER);
        let waiting = self.pieces.split_off(travelling);
        for mut piece in waiting {
            piece.arrives_at = self.arrival(piece.bytes.len(), now, path);
            self.pieces.push_back(piece);
        }
        if self.ends_at == Some(NEVER) {
            self.ends_at = Some(self.arrival(0, now, path));
        }
    }

    /// When the next thing arrives that has not arrived yet.
    pub(super) fn next_arrival(&self, now: Duration) -> Option<Duration> {
        let arrivals = self.pieces.iter().map(|piece| piece.arrives_at).chain(self.ends_at);
        arrivals.filter(|at| (now..NEVER).contains(at) && *at > now).min()
    }

    /// Receives what has arrived; 0 is the end.
    pub(super) fn recv(&mut self, into: &mut [u8], now: Duration) -> io::Result<usize> {
        let Some(piece) = self.pieces.front_mut().filter(|piece| piece.arrives_at <= now) else {
            let is_over = self.pieces.is_empty() && self.ends_at.is_some_and(|at| at <= now);
            return if is_over { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        };
        let unread = &piece.bytes[piece.read..];
        let count = unread.len().min(into.len());
        into[..count].copy_from_slice(&unread[..count]);
        piece.read += count;
        if piece.read == piece.bytes.len() {
            self.pieces.pop_front();
        }
        self.bytes -= count;
        Ok(count)
    }
}
