//! A world of the simulator's, which a thread enters in place of the real one.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::points::{Attempt, Mutation, Point};
use crate::peer::Peer;

/// What answers for the kernel, to one simulated process at a time.
pub trait World {
    /// The monotonic clock.
    fn now(&self) -> Instant;
    /// The clock of the wall.
    fn unix_time(&self) -> Duration;
    /// Random bytes.
    fn random(&self, into: &mut [u8]);
    /// The process that runs.
    fn process_id(&self) -> u32;
    /// The processor that it runs on.
    fn processor(&self) -> usize;
    /// Its parent.
    fn parent_id(&self) -> Option<u32>;
    /// A descriptor that becomes readable when the process ends.
    fn open_process(&self, pid: u32) -> io::Result<OwnedFd>;
    /// The identity of a process.
    fn peer(&self, pid: u32) -> Peer;
    /// Whether the process that runs is being ended: nothing that it still does is seen by others.
    fn is_ending(&self) -> bool;
    /// A name for a socket of the process that runs, by which [`Self::owner_of`] finds it.
    fn name_socket(&self) -> Vec<u8>;
    /// The process that named its socket so.
    fn owner_of(&self, name: &[u8]) -> Option<u32>;
    /// Goes on when something has happened, or at this time.
    fn block(&self, until: Option<Instant>);
    /// Others may run now.
    fn pause(&self, at: Point);
    /// Whether this fails now, and how.
    fn refuses(&self, what: Attempt) -> Option<io::Error>;
    /// The rule that is broken in this world.
    fn mutation(&self) -> Option<Mutation>;
    /// Another thread of the process that runs.
    fn start_thread(&self, name: &str, work: Box<dyn FnOnce()>);
    /// A process of the daemon's program, with this as its standard input.
    fn start_process(&self, role: &str, input: OwnedFd) -> io::Result<u32>;
    /// Ends a process.
    fn kill_process(&self, pid: u32);
    /// Waits for the end of a process.
    fn wait_process(&self, pid: u32);
    /// A memfd was made or, by a client, taken over.
    fn has_memfd(&self, name: &str, fd: BorrowedFd<'_>);
}

thread_local! {
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// From here on this thread lives in another world, or in the real one again.
pub fn enter(world: Option<Rc<dyn World>>) {
    WORLD.with_borrow_mut(|entered| *entered = world);
}

/// Whether this thread is in a simulated world.
pub fn is_entered() -> bool {
    WORLD.with_borrow(Option::is_some)
}

/// Asks the simulated world, if this thread is in one.
pub fn within<T>(ask: impl FnOnce(&dyn World) -> T) -> Option<T> {
    // Not borrowed while it is asked: others may run in between, and ask as well.
    let world = WORLD.with_borrow(Option::clone)?;
    Some(ask(&*world))
}

pub(super) fn sleep(time: Duration) -> bool {
    let slept = within(|world| {
        let until = world.now() + time;
        while world.now() < until && !world.is_ending() {
            world.block(Some(until));
        }
    });
    slept.is_some()
}

pub(super) fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, timeout: Option<Duration>) -> bool {
    let waited = within(|world| {
        let until = timeout.and_then(|timeout| world.now().checked_add(timeout));
        world.pause(Point::Wait);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let ready = poll(&mut [PollFd::new(&fd, flags)], Some(&now));
            let is_over = until.is_some_and(|until| world.now() >= until) || world.is_ending();
            if is_over || !matches!(ready, Ok(0)) {
                return;
            }
            world.block(until);
        }
    });
    waited.is_some()
}

/// Waits until a condition holds or the time has passed; `None` in the real world.
pub(crate) fn wait_until(timeout: Option<Duration>, holds: impl Fn() -> bool) -> Option<bool> {
    within(|world| {
        let until = timeout.and_then(|timeout| world.now().checked_add(timeout));
        world.pause(Point::Wait);
        loop {
            if holds() {
                return true;
            }
            if until.is_some_and(|until| world.now() >= until) || world.is_ending() {
                return false;
            }
            world.block(until);
        }
    })
}

pub(super) fn receive<T>(receiver: &Receiver<T>) -> Option<Result<T, RecvError>> {
    receive_until(receiver, None).map(|received| received.map_err(|_| RecvError))
}

pub(super) fn receive_within<T>(
    receiver: &Receiver<T>,
    time: Duration,
) -> Option<Result<T, RecvTimeoutError>> {
    let until = within(|world| world.now() + time)?;
    receive_until(receiver, Some(until))
}

fn receive_until<T>(
    receiver: &Receiver<T>,
    until: Option<Instant>,
) -> Option<Result<T, RecvTimeoutError>> {
    within(|world| {
        world.pause(Point::Job);
        loop {
            match receiver.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if world.is_ending() => {
                    return Err(RecvTimeoutError::Disconnected);
                }
                Err(TryRecvError::Empty) => {}
            }
            if until.is_some_and(|until| world.now() >= until) {
                return Err(RecvTimeoutError::Timeout);
            }
            world.block(until);
        }
    })
}
