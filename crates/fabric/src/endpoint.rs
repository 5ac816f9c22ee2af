//! An endpoint: it opens windows to peers, and writes into theirs.
//!
//! Its thread moves what is under way: most providers do nothing of their own accord, neither for
//! the side that writes nor for the one that is written to. It waits in two ways, first by looking
//! again for [`SPIN`], then on the provider's descriptor, or with naps where there is none. While
//! no window is open and nothing is to be written, it sleeps.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plasmon_proto::fabric::Provider;
use rustix::thread::set_current_timer_slack;

use crate::error::Error;
use crate::objects::Remote;
use crate::queue::Write;
use crate::shared::{Shared, Sink, Turn};
use crate::sources::{COPIED_BYTES_MAX, SourceCounts};
use crate::window::{Grant, Window};

/// How long the thread looks again and again before it waits: on a machine with fewer processors
/// than threads that want them, more than this makes transfers many times slower.
const SPIN: Duration = Duration::from_micros(50);

/// How long it waits on a descriptor before it looks again by itself.
const WAIT_MS: i32 = 10;

/// The first nap where there is no descriptor; each next one is twice as long.
const NAP_MIN: Duration = Duration::from_micros(20);

/// By how much the kernel may prolong a nap.
const NAP_SLACK_NS: Option<NonZeroU64> = NonZeroU64::new(1_000);

/// The longest nap. A peer that writes waits for its end, and nothing tells of what it has begun.
/// There are naps only while a window is open or something is being written.
const NAP_MAX: Duration = Duration::from_micros(100);

/// Another endpoint, as one knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(u64);

/// Where in a window something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The endpoint that has the window.
    pub peer: Peer,
    /// The window.
    pub window: Grant,
    /// Where in it.
    pub offset: u64,
}

/// An endpoint of one provider.
pub struct Endpoint {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("traits", &self.shared.traits).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Opens an endpoint at an address of this machine, where that means anything to the provider.
    /// The sink takes what becomes of writes.
    ///
    /// This may take as long as the provider likes; [`open`](crate::open) has a limit.
    pub fn open(provider: Provider, address: Option<IpAddr>, sink: Sink) -> Result<Self, Error> {
        let shared = Arc::new(Shared::open(provider, address, sink)?);
        let of_thread = shared.clone();
        let name = format!("pool-{provider}");
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&of_thread));
        match thread {
            Ok(thread) => Ok(Self { shared, thread: Some(thread) }),
            Err(error) => {
                let code = error.raw_os_error().unwrap_or_default();
                let closed = shared.close();
                closed.and(Err(Error::Call { call: "thread", code, message: error.to_string() }))
            }
        }
    }

    /// The provider.
    pub fn provider(&self) -> Provider {
        self.shared.provider
    }

    /// What libfabric calls the provider.
    pub fn provider_name(&self) -> &str {
        &self.shared.traits.provider
    }

    /// The name by which peers reach the endpoint.
    pub fn name(&self) -> &[u8] {
        &self.shared.name
    }

    /// Whether its windows have addresses of this process; else they begin at 0.
    pub fn has_virtual_addresses(&self) -> bool {
        self.shared.traits.has(crate::abi::FI_MR_VIRT_ADDR)
    }

    /// Whether its thread waits on a descriptor; else it takes naps.
    pub fn waits_on_descriptor(&self) -> bool {
        self.shared.can_wait
    }

    /// Whether it takes writes and windows.
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }

    /// The peer of this name. It is not connected before something is written.
    pub fn peer(&self, name: &[u8]) -> Result<Peer, Error> {
        self.shared.peer(name).map(Peer)
    }

    /// Opens memory to be written by a peer; `bytes` says where it lies in `M`. Where it cannot be
    /// opened, it comes back with the reason.
    pub fn open_window<M: ?Sized + Send + 'static>(
        &self,
        memory: Box<M>,
        bytes: fn(&mut M) -> &mut [u8],
    ) -> Result<Window<M>, (Box<M>, Error)> {
        Window::open(self.shared.clone(), memory, bytes)
    }

    /// Writes the part of a source that `part` gives. The sink is told the token once all of it is
    /// in the window, or has failed; the source is kept until then.
    pub fn write<S: ?Sized + Send + Sync + 'static>(
        &self,
        to: Place,
        source: Arc<S>,
        part: impl for<'a> FnOnce(&'a S) -> &'a [u8],
        token: u64,
    ) -> Result<(), Error> {
        let bytes = part(source.as_ref());
        let (start, length) = (bytes.as_ptr(), bytes.len());
        let Place { peer, window, offset } = to;
        let end = offset.checked_add(length as u64);
        if length == 0 || end.is_none_or(|end| end > window.bytes) {
            return Err(Error::Bounds { offset, bytes: length, window_bytes: window.bytes });
        }
        let address = window.base.wrapping_add(offset);
        let to = Remote { peer: peer.0, address, key: window.key };
        // The source is not touched while it is kept, so the bytes stay where they are.
        let keep = Box::new(source);
        self.shared.write(Write { token, start, bytes: length, to, keep, lent: None })
    }

    /// Has writes from the memory that `memory` gives go without a copy, where the provider sends
    /// from registered memory alone; `None` where that makes no difference, or cannot be.
    ///
    /// The memory is registered when it is first written from, and stays so while the value lives
    /// and writes from it are under way, unless too much else is written from: then, and where it
    /// cannot be registered, writes are as they would be without. The source is kept as long.
    pub fn hold_source<S: ?Sized + Send + Sync + 'static>(
        &self,
        source: &Arc<S>,
        memory: impl for<'a> FnOnce(&'a S) -> &'a [u8],
    ) -> Option<SourceMemory> {
        // `efa` opens all that it registers to reads and writes from elsewhere.
        let is_for_reads = self.shared.provider == Provider::Verbs;
        if !is_for_reads || !self.shared.traits.has(crate::abi::FI_MR_LOCAL) {
            return None;
        }
        let bytes = memory(source.as_ref());
        if bytes.len() <= COPIED_BYTES_MAX {
            return None;
        }
        let memory = (bytes.as_ptr(), bytes.len());
        let number = self.shared.hold(memory, Arc::new(source.clone()));
        Some(SourceMemory { shared: self.shared.clone(), number })
    }

    /// How much of the memory of sources was registered.
    pub fn source_counts(&self) -> SourceCounts {
        self.shared.source_counts()
    }

    /// Closes the endpoint: writes fail, and after that nothing is written into its windows, which
    /// then give their memory back whatever their peers do. After an error they never do, and the
    /// process has to end to be rid of them.
    pub fn close(&self) -> Result<(), Error> {
        self.shared.close()
    }
}

/// Memory of a source that is registered while it is written from; see
/// [`hold_source`](Endpoint::hold_source).
pub struct SourceMemory {
    shared: Arc<Shared>,
    number: u64,
}

impl std::fmt::Debug for SourceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceMemory").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for SourceMemory {
    fn drop(&mut self) {
        self.shared.release(self.number);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What could not be closed is kept, and so is its thread, which waits in the provider.
        if self.shared.close() != Err(Error::Stuck) {
            // A thread that panicked has said so itself.
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

/// The thread.
fn run(shared: &Shared) {
    // Else the kernel makes the shortest naps four times as long. That is all an error means.
    let _ = set_current_timer_slack(NAP_SLACK_NS);
    let (mut moved, mut nap) = (Instant::now(), NAP_MIN);
    let mut wait = None;
    loop {
        match shared.turn(wait.take()) {
            Turn::Over => {
                // Where its completions cannot be read, nothing else would end its writes.
                let _ = shared.close();
                return;
            }
            Turn::Moved => (moved, nap) = (Instant::now(), NAP_MIN),
            Turn::Idle => {
                if !shared.wait_for_work() {
                    return;
                }
                (moved, nap) = (Instant::now(), NAP_MIN);
            }
            // A thread that has something to do, such as the peer's, goes first.
            Turn::Nothing if moved.elapsed() < SPIN => std::thread::yield_now(),
            Turn::Nothing if shared.can_wait => wait = Some(WAIT_MS),
            // What was asked for meanwhile is waited for as what is new.
            Turn::Nothing if shared.nap(nap) => (moved, nap) = (Instant::now(), NAP_MIN),
            Turn::Nothing => nap = (nap * 2).min(NAP_MAX),
        }
    }
}
