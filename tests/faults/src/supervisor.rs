//! Decides about each call of the processes under test: carried out, or failed.

use std::fmt;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use libc::c_int;
use rustix::fs::{CWD, OFlags, readlinkat_raw};

use crate::filter::{self, Call, Listener};
use crate::kinds::{self, Kind};

/// What is to fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The calls.
    pub kind: &'static Kind,
    /// The error.
    pub error: c_int,
    /// How many of them are carried out before.
    pub after: u32,
    /// How many fail then.
    pub count: u32,
    /// The process whose calls are meant; `None`: all.
    pub process: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// How many calls of the fault's kind were seen, and how many of them failed.
    seen: u32,
    failed: u32,
}

/// The verdicts for one group of processes.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(Arc<Mutex<State>>);

impl Supervisor {
    /// Does something in a thread whose calls, and those of all that it starts, are under
    /// supervision. They are as long as any of it lives.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<T>> {
        let (sender, receiver) = mpsc::channel();
        let filtered = thread::Builder::new().name("filtered".to_owned()).spawn(move || {
            let listener = filter::install(&kinds::calls());
            let is_filtered = listener.is_ok();
            sender.send(listener).expect("the caller waits");
            // The caller reports the error instead.
            assert!(is_filtered, "there is no filter");
            work()
        })?;
        let listener = receiver.recv().expect("the thread says how it went")?;
        let state = Arc::clone(&self.0);
        thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(move || supervise(&listener, &state).expect("the supervisor goes on"))?;
        Ok(filtered)
    }

    /// From now on calls fail.
    pub fn inject(&self, fault: Fault) {
        *self.state() = State { fault: Some(fault), ..State::default() };
    }

    /// From now on everything works again. How many calls there were of the kind, and failed.
    pub fn heal(&self) -> (u32, u32) {
        let mut state = self.state();
        state.fault = None;
        (state.seen, state.failed)
    }

    /// How many calls have failed.
    pub fn failed(&self) -> u32 {
        self.state().failed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn supervise(listener: &Listener, state: &Mutex<State>) -> io::Result<()> {
    while let Some(call) = listener.next()? {
        let verdict = verdict(&mut state.lock().unwrap_or_else(PoisonError::into_inner), &call);
        listener.answer(&call, verdict)?;
    }
    Ok(())
}

fn verdict(state: &mut State, call: &Call) -> Option<c_int> {
    let fault = state.fault?;
    if !fault.kind.calls.contains(&call.number) || !(fault.kind.is_meant)(&call.arguments) {
        return None;
    }
    if fault.process.is_some_and(|process| process_of(call.thread) != Some(process)) {
        return None;
    }
    if fault.kind.files_only && !is_file(call) {
        return None;
    }
    state.seen += 1;
    if state.seen <= fault.after || state.failed >= fault.count {
        return None;
    }
    state.failed += 1;
    Some(fault.error)
}

// What follows allocates nothing: the call that waits for the verdict may come from this process's
// own allocator, with its lock held.

/// Whether the call's descriptor is a file with a path.
fn is_file(call: &Call) -> bool {
    let mut target = [MaybeUninit::uninit(); 1];
    let found = Path::of(format_args!("/proc/{}/fd/{}", call.thread, call.arguments[0]))
        .and_then(|path| readlinkat_raw(CWD, path.bytes(), &mut target[..]).ok().map(|it| it.0[0]));
    found == Some(b'/')
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let path = Path::of(format_args!("/proc/{thread}/status"))?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let status = rustix::fs::open(path.bytes(), flags, rustix::fs::Mode::empty()).ok()?;
    let mut text = [0; 512];
    let count = rustix::io::read(&status, &mut text).ok()?;
    let text = str::from_utf8(&text[..count]).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A short path.
struct Path {
    text: [u8; 48],
    bytes: usize,
}

impl Path {
    fn of(text: fmt::Arguments<'_>) -> Option<Self> {
        let mut path = Self { text: [0; 48], bytes: 0 };
        let mut rest = &mut path.text[..];
        rest.write_fmt(text).ok()?;
        let left = rest.len();
        path.bytes = path.text.len() - left;
        Some(path)
    }

    fn bytes(&self) -> &[u8] {
        &self.text[..self.bytes]
    }
}
