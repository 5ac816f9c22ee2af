//! The edge of a process: what it asks of the world outside besides memory and sockets.
//!
//! Time, chance, sleep, threads and other processes: daemon, keeper and client ask for them here
//! and nowhere else. A production build calls the kernel, inlined, and everything that is about
//! simulation is a constant. With the feature `sim` a thread may enter a simulated world (see
//! [`simulated`]), in which the very same code runs in virtual time, in an order that follows from
//! a seed.

mod points;
#[cfg(feature = "sim")]
pub mod simulated;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(feature = "sim")]
use std::sync::TryLockError;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

pub use points::{Attempt, Mutation, Point};

/// The time of the monotonic clock.
#[inline]
pub fn now() -> Instant {
    #[cfg(feature = "sim")]
    if let Some(now) = simulated::within(|world| world.now()) {
        return now;
    }
    Instant::now()
}

/// How much time has passed.
#[inline]
pub fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

/// The time since 1970. A machine whose clock is before that gets none; nothing depends on more.
pub fn unix_time() -> Duration {
    #[cfg(feature = "sim")]
    if let Some(time) = simulated::within(|world| world.unix_time()) {
        return time;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Lets time pass.
pub fn sleep(time: Duration) {
    #[cfg(feature = "sim")]
    if simulated::sleep(time) {
        return;
    }
    thread::sleep(time);
}

/// Random bytes.
pub fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    #[cfg(feature = "sim")]
    if simulated::within(|world| world.random(&mut bytes)).is_some() {
        return Ok(bytes);
    }
    const { assert!(BYTES <= 256, "the kernel gives this many at once and whole") };
    // A signal comes in between only before the kernel has gathered enough to begin with.
    let count = rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
    })?;
    assert_eq!(count, BYTES, "the kernel gives up to 256 bytes whole");
    Ok(bytes)
}

/// This process.
pub fn process_id() -> u32 {
    #[cfg(feature = "sim")]
    if let Some(pid) = simulated::within(|world| world.process_id()) {
        return pid;
    }
    std::process::id()
}

/// The number of the processor that this thread runs on; it may be another one a moment later.
pub fn processor() -> usize {
    #[cfg(feature = "sim")]
    if let Some(processor) = simulated::within(|world| world.processor()) {
        return processor;
    }
    rustix::thread::sched_getcpu()
}

/// The parent of this process, if it has one that it can see.
pub fn parent_id() -> Option<u32> {
    #[cfg(feature = "sim")]
    if let Some(pid) = simulated::within(|world| world.parent_id()) {
        return pid;
    }
    rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32)
}

/// Ends a process at once.
pub fn kill_process(pid: u32) -> io::Result<()> {
    send_signal(pid, Signal::KILL)
}

/// Asks a process to end.
pub fn terminate_process(pid: u32) -> io::Result<()> {
    send_signal(pid, Signal::TERM)
}

fn send_signal(pid: u32, signal: Signal) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if simulated::within(|world| world.kill_process(pid)).is_some() {
        return Ok(());
    }
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(rustix::process::kill_process(pid.ok_or(io::ErrorKind::InvalidInput)?, signal)?)
}

/// A descriptor of the process with this number, which becomes readable when it ends.
pub fn open_process(pid: u32) -> io::Result<OwnedFd> {
    #[cfg(feature = "sim")]
    if let Some(opened) = simulated::within(|world| world.open_process(pid)) {
        return opened;
    }
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until a descriptor is ready, or for at most `timeout`, and says whether it is.
pub fn ready_within(
    fd: impl AsFd,
    flags: PollFlags,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let timeout =
        if waited_elsewhere(&fd, flags, timeout) { Some(Duration::ZERO) } else { timeout };
    // A time beyond what the kernel can count is forever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    Ok(poll(&mut [PollFd::new(&fd, flags)], timeout.as_ref())? > 0)
}

/// In a simulated world, waits there until the descriptor is ready or the time has passed, and says
/// so: the caller's own call must not wait then. Otherwise it does nothing and says `false`.
#[cfg_attr(not(feature = "sim"), expect(unused_variables, reason = "the world is the real one"))]
#[inline(always)]
pub fn waited_elsewhere(fd: impl AsFd, flags: PollFlags, timeout: Option<Duration>) -> bool {
    #[cfg(feature = "sim")]
    return simulated::wait_for(fd.as_fd(), flags, timeout);
    #[cfg(not(feature = "sim"))]
    false
}

/// The next message of another thread.
pub fn receive<T>(receiver: &Receiver<T>) -> Result<T, RecvError> {
    #[cfg(feature = "sim")]
    if let Some(received) = simulated::receive(receiver) {
        return received;
    }
    receiver.recv()
}

/// The next message of another thread, if it comes in time.
pub fn receive_within<T>(receiver: &Receiver<T>, time: Duration) -> Result<T, RecvTimeoutError> {
    #[cfg(feature = "sim")]
    if let Some(received) = simulated::receive_within(receiver, time) {
        return received;
    }
    receiver.recv_timeout(time)
}

/// Starts a thread that ends by itself.
pub fn start_thread(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if simulated::is_entered() {
        simulated::within(|world| world.start_thread(name, Box::new(work)));
        return Ok(());
    }
    thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(work).map(drop)
}

/// Locks something that threads of one process share. A simulated one waits in its world, where the
/// owner can go on.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "sim")]
    while simulated::is_entered() && matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)) {
        sleep(Duration::from_micros(100));
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a client may start a thread that reads its messages. A simulated one reads them with its
/// next request.
#[inline]
pub fn may_serve_in_background() -> bool {
    #[cfg(feature = "sim")]
    return !simulated::is_entered();
    #[cfg(not(feature = "sim"))]
    true
}

/// Lets other processes come in between, where they are simulated.
#[cfg_attr(not(feature = "sim"), expect(unused_variables, reason = "the world is the real one"))]
#[inline(always)]
pub fn pause(at: Point) {
    #[cfg(feature = "sim")]
    simulated::within(|world| world.pause(at));
}

/// An error where a simulated kernel refuses this.
#[cfg_attr(not(feature = "sim"), expect(unused_variables, reason = "the world is the real one"))]
#[inline(always)]
pub fn attempt(what: Attempt) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if let Some(Some(error)) = simulated::within(|world| world.refuses(what)) {
        return Err(error);
    }
    Ok(())
}

/// Whether a rule is broken on purpose. Never, but in the simulator.
#[cfg_attr(not(feature = "sim"), expect(unused_variables, reason = "the world is the real one"))]
#[inline(always)]
pub fn is_broken(rule: Mutation) -> bool {
    #[cfg(feature = "sim")]
    return simulated::within(|world| world.mutation() == Some(rule)).unwrap_or(false);
    #[cfg(not(feature = "sim"))]
    false
}
