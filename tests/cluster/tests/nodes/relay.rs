//! A relay between two nodes: all that one connects to the other goes through the test, which can
//! delay it, end it in the middle of a frame, or keep it back without ending it.
//!
//! ```text
//!   node A ──► the address of B on A's own machine ── relay ── B
//! ```
//!
//! The machine of A has B's address as one of its own, so that the connections of A end here. The
//! relay goes on from the test's own machine, where that address is B's.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::machines::Machines;

/// Bytes that are read at once, and that wait in one direction at most so many times.
const CHUNK_BYTES: usize = 16 << 10;
const CHUNKS_MAX: usize = 64;

/// What the relay does with bytes and connections.
#[derive(Debug, Default)]
struct Rules {
    /// Bytes wait for so long.
    delay_us: AtomicU64,
    /// Nothing goes through; connections stay.
    holds: AtomicBool,
    /// All connections end at this many bytes from now on.
    bytes_left: Mutex<Option<u64>>,
    /// Bytes that went through.
    bytes: AtomicU64,
    is_over: AtomicBool,
}

/// A relay. It ends with the value.
#[derive(Debug)]
pub(crate) struct Relay {
    rules: Arc<Rules>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Relay {
    /// Takes what the node `from` connects to the node `to` from now on. What it has connected
    /// before ends. The node with the lower slot connects.
    pub(crate) fn start(machines: &Machines, from: usize, to: SocketAddr) -> Self {
        let (network, machine) = (&machines.network, machines.machine(from));
        let std::net::IpAddr::V4(address) = to.ip() else {
            panic!("machines have addresses of IPv4")
        };
        network.add_local_address(machine, address);
        let listener = network.run_inside(machine, || TcpListener::bind(to).unwrap());
        listener.set_nonblocking(true).unwrap();
        let (rules, connections) = (Arc::new(Rules::default()), Arc::default());
        let accepting = {
            let (rules, connections) = (Arc::clone(&rules), Arc::clone(&connections));
            thread::spawn(move || accept(&listener, to, &rules, &connections))
        };
        Self { rules, connections, accepting: Some(accepting) }
    }

    /// All bytes arrive so much later.
    pub(crate) fn delay(&self, time: Duration) {
        self.rules.delay_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Keeps back all bytes, and ends nothing, or lets them go.
    pub(crate) fn hold(&self, holds: bool) {
        self.rules.holds.store(holds, Ordering::Relaxed);
    }

    /// The bytes that went through so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.rules.bytes.load(Ordering::Relaxed)
    }

    /// Resets every connection after so many bytes more.
    pub(crate) fn reset_after(&self, bytes: u64) {
        *self.rules.bytes_left.lock().unwrap() = Some(bytes);
    }

    /// Whether the reset that was asked for has happened.
    pub(crate) fn has_reset(&self) -> bool {
        self.rules.bytes_left.lock().unwrap().is_none()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.rules.is_over.store(true, Ordering::Relaxed);
        end_all(&self.connections);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

type Connections = Mutex<Vec<TcpStream>>;

fn accept(listener: &TcpListener, to: SocketAddr, rules: &Arc<Rules>, all: &Arc<Connections>) {
    while !rules.is_over.load(Ordering::Relaxed) {
        let near = match listener.accept() {
            Ok((near, _)) => near,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(2));
                continue;
            }
            Err(error) => panic!("the relay: {error}"),
        };
        // Else its node tries again.
        let Ok(far) = TcpStream::connect(to) else { continue };
        near.set_nonblocking(false).unwrap();
        for stream in [&near, &far] {
            stream.set_nodelay(true).unwrap();
            all.lock().unwrap().push(stream.try_clone().unwrap());
        }
        let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
        for (from, to) in ways {
            let way = Arc::new(Way { rules: Arc::clone(rules), ..Way::default() });
            let (reading, all) = (Arc::clone(&way), Arc::clone(all));
            thread::spawn(move || reading.read(from, &all));
            thread::spawn(move || way.write(to));
        }
    }
}

/// Resets all connections: what they still had to send is thrown away.
fn end_all(connections: &Connections) {
    for stream in connections.lock().unwrap().drain(..) {
        let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    rules: Arc<Rules>,
    /// What was read and when; an empty string of bytes is the end.
    waiting: Mutex<VecDeque<(Instant, Vec<u8>)>>,
    changed: Condvar,
    /// Nothing is written any more.
    is_over: AtomicBool,
}

impl Way {
    fn read(&self, mut from: TcpStream, all: &Connections) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let mut waiting = self.waiting.lock().unwrap();
            let is_full = |all: &mut VecDeque<_>| {
                all.len() >= CHUNKS_MAX && !self.is_over.load(Ordering::Relaxed)
            };
            waiting = self.changed.wait_while(waiting, is_full).unwrap();
            waiting.push_back((Instant::now(), self.allowed(&buffer[..count], all).to_vec()));
            self.changed.notify_all();
            if count == 0 || self.is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// What of these bytes may go through; all connections end if that is not all.
    fn allowed<'a>(&self, bytes: &'a [u8], all: &Connections) -> &'a [u8] {
        let mut bytes_left = self.rules.bytes_left.lock().unwrap();
        let Some(left) = *bytes_left else { return bytes };
        if left > bytes.len() as u64 {
            *bytes_left = Some(left - bytes.len() as u64);
            return bytes;
        }
        *bytes_left = None;
        end_all(all);
        &bytes[..left as usize]
    }

    fn write(&self, to: TcpStream) {
        self.write_until_end(to);
        let _waiting = self.waiting.lock().unwrap();
        self.is_over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn write_until_end(&self, mut to: TcpStream) {
        loop {
            let waiting = self.waiting.lock().unwrap();
            let mut waiting = self.changed.wait_while(waiting, |all| all.is_empty()).unwrap();
            let Some((read, bytes)) = waiting.pop_front() else { continue };
            self.changed.notify_all();
            drop(waiting);
            let delay = Duration::from_micros(self.rules.delay_us.load(Ordering::Relaxed));
            thread::sleep((read + delay).saturating_duration_since(Instant::now()));
            while self.rules.holds.load(Ordering::Relaxed) {
                if self.rules.is_over.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_millis(2));
            }
            if bytes.is_empty() || to.write_all(&bytes).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            self.rules.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }
}
