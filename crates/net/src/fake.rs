//! A network in memory, on virtual time, for tests and the simulator.
//!
//! What happens follows from the calls and the seed alone: bytes arrive after the delay of their
//! path, at its rate, in order. A path leads one way from one node to another; while it is cut,
//! what is sent on it waits, as TCP would send it again. Time stands still until it is advanced.
//!
//! ```text
//! send ─► room in the buffer? ─► rate of the path ─► delay of the path ─► recv, in pieces
//!                                    └── while it is cut: waits for the mending
//! ```
//!
//! The fake is at the level of [`Stream`], so that frames, handshakes and segments of a simulated
//! pool are those of the real one.

mod pipe;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::stream::{FileRange, Stream};
pub use pipe::Path;
use pipe::Pipe;

/// How a fake network behaves.
#[derive(Clone, Copy, Debug)]
pub struct FakeOptions {
    /// What its pieces follow from.
    pub seed: u64,
    /// Bytes that may be under way or unread in one direction of a connection.
    pub buffer_bytes: usize,
    /// Bytes that one call moves at most; each call moves a random number of them.
    pub piece_bytes_max: usize,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self { seed: 0, buffer_bytes: 256 << 10, piece_bytes_max: 64 << 10 }
    }
}

/// A node of a fake network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FakeNode(pub u32);

/// A network in memory; clones are the same network.
#[derive(Clone, Debug)]
pub struct FakeNet(Rc<RefCell<World>>);

#[derive(Debug)]
struct World {
    now: Duration,
    options: FakeOptions,
    random: u64,
    listeners: BTreeMap<FakeNode, VecDeque<u64>>,
    connections: BTreeMap<u64, Connection>,
    connected: u64,
    paths: BTreeMap<(FakeNode, FakeNode), Path>,
}

#[derive(Debug)]
struct Connection {
    /// The connecting and the accepting side.
    nodes: [FakeNode; 2],
    /// What each of the two sends.
    pipes: [Pipe; 2],
    /// Whether each of the two still has its stream.
    open: [bool; 2],
    is_reset: bool,
}

impl FakeNet {
    /// A network without nodes.
    pub fn new(options: FakeOptions) -> Self {
        let world = World {
            now: Duration::ZERO,
            options,
            random: options.seed,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            connected: 0,
            paths: BTreeMap::new(),
        };
        Self(Rc::new(RefCell::new(world)))
    }

    /// The time since the network was made.
    pub fn now(&self) -> Duration {
        self.0.borrow().now
    }

    /// Has a node accept connections.
    pub fn listen(&self, node: FakeNode) {
        self.0.borrow_mut().listeners.entry(node).or_default();
    }

    /// Has a node accept no more connections; those that wait are reset.
    pub fn stop_listening(&self, node: FakeNode) {
        let mut world = self.0.borrow_mut();
        for number in world.listeners.remove(&node).unwrap_or_default() {
            if let Some(connection) = world.connections.get_mut(&number) {
                connection.is_reset = true;
                connection.open[1] = false;
            }
        }
    }

    /// Connects two nodes. It is refused where the other one does not listen; as with TCP, the
    /// connection is of use only once the other side has answered.
    pub fn connect(&self, from: FakeNode, to: FakeNode) -> io::Result<FakeStream> {
        let mut world = self.0.borrow_mut();
        let number = world.connected;
        let waiting = world.listeners.get_mut(&to);
        waiting.ok_or(io::ErrorKind::ConnectionRefused)?.push_back(number);
        world.connected += 1;
        let pipes = [Pipe::default(), Pipe::default()];
        let connection = Connection { nodes: [from, to], pipes, open: [true; 2], is_reset: false };
        world.connections.insert(number, connection);
        Ok(FakeStream { net: self.clone(), number, side: 0 })
    }

    /// The next connection to a node, and the node that it is from.
    pub fn accept(&self, node: FakeNode) -> Option<(FakeStream, FakeNode)> {
        let mut world = self.0.borrow_mut();
        loop {
            let number = world.listeners.get_mut(&node)?.pop_front()?;
            // It may have ended before it was accepted.
            if let Some(connection) = world.connections.get(&number) {
                let from = connection.nodes[0];
                return Some((FakeStream { net: self.clone(), number, side: 1 }, from));
            }
        }
    }

    /// Sets how bytes travel from one node to another from now on. What waits for a path that is
    /// mended begins to travel.
    pub fn set_path(&self, from: FakeNode, to: FakeNode, path: Path) {
        let mut world = self.0.borrow_mut();
        world.paths.insert((from, to), path);
        let now = world.now;
        for connection in world.connections.values_mut().filter(|_| !path.is_cut) {
            for (side, pipe) in connection.pipes.iter_mut().enumerate() {
                if (connection.nodes[side], connection.nodes[1 - side]) == (from, to) {
                    pipe.resume(now, &path);
                }
            }
        }
    }

    /// Resets every connection of a node: its process ended.
    pub fn reset_node(&self, node: FakeNode) {
        self.reset_where(|nodes| nodes.contains(&node));
    }

    /// Resets every connection between two nodes.
    pub fn reset_between(&self, one: FakeNode, other: FakeNode) {
        self.reset_where(|nodes| *nodes == [one, other] || *nodes == [other, one]);
    }

    fn reset_where(&self, is_meant: impl Fn(&[FakeNode; 2]) -> bool) {
        let mut world = self.0.borrow_mut();
        for connection in world.connections.values_mut() {
            connection.is_reset |= is_meant(&connection.nodes);
        }
    }

    /// When the next bytes arrive, or the next end of a connection; `None` when nothing is under
    /// way.
    pub fn next_event(&self) -> Option<Duration> {
        let world = self.0.borrow();
        let pipes = world.connections.values().flat_map(|connection| &connection.pipes);
        pipes.filter_map(|pipe| pipe.next_arrival(world.now)).min()
    }

    /// Lets time pass until then. A time that is over changes nothing.
    pub fn advance_to(&self, time: Duration) {
        let mut world = self.0.borrow_mut();
        world.now = world.now.max(time);
    }
}

impl World {
    /// How many of so many bytes the next call moves: at least one.
    fn piece(&mut self, bytes: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let most = bytes.min(self.options.piece_bytes_max).max(1) as u64;
        1 + ((word ^ (word >> 31)) % most) as usize
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct FakeStream {
    net: FakeNet,
    number: u64,
    side: usize,
}

impl FakeStream {
    /// Sends the beginning of so many bytes, which `read` puts into memory.
    fn send_from(
        &self,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut world = self.net.0.borrow_mut();
        let piece = world.piece(bytes);
        let World { now, options, connections, paths, .. } = &mut *world;
        let connection = connections.get_mut(&self.number).ok_or(io::ErrorKind::NotConnected)?;
        if connection.is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let (here, there) = (self.side, 1 - self.side);
        if !connection.open[there] || connection.pipes[here].is_finished() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let ends = (connection.nodes[here], connection.nodes[there]);
        let path = paths.get(&ends).copied().unwrap_or_default();
        let pipe = &mut connection.pipes[here];
        let room = options.buffer_bytes.saturating_sub(pipe.bytes());
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut sent = vec![0; piece.min(room).min(bytes)];
        let count = read(&mut sent)?;
        sent.truncate(count);
        if count > 0 {
            pipe.send(sent, *now, &path);
        }
        Ok(count)
    }
}

impl Stream for FakeStream {
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut world = self.net.0.borrow_mut();
        let piece = world.piece(into.len()).min(into.len());
        let now = world.now;
        let connection = world.connections.get_mut(&self.number);
        let connection = connection.ok_or(io::ErrorKind::NotConnected)?;
        if connection.is_reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        connection.pipes[1 - self.side].recv(&mut into[..piece], now)
    }

    fn send(&mut self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        self.send_from(bytes.len(), |into| {
            into.copy_from_slice(&bytes[..into.len()]);
            Ok(into.len())
        })
    }

    fn send_file(&mut self, range: FileRange<'_>) -> io::Result<usize> {
        let FileRange { file, offset, bytes } = range;
        self.send_from(bytes, |into| match rustix::io::pread(file, into, offset) {
            Err(rustix::io::Errno::SPIPE) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        })
    }

    fn close(&mut self) {
        let mut world = self.net.0.borrow_mut();
        let World { now, connections, paths, .. } = &mut *world;
        let Some(connection) = connections.get_mut(&self.number) else { return };
        let (here, there) = (self.side, 1 - self.side);
        let ends = (connection.nodes[here], connection.nodes[there]);
        let path = paths.get(&ends).copied().unwrap_or_default();
        connection.pipes[here].finish(*now, &path);
    }
}

impl Drop for FakeStream {
    fn drop(&mut self) {
        self.close();
        let mut world = self.net.0.borrow_mut();
        let Some(connection) = world.connections.get_mut(&self.number) else { return };
        connection.open[self.side] = false;
        if connection.open == [false; 2] {
            world.connections.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests;
