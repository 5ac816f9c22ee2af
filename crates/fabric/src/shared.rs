//! What an endpoint, its windows and its thread share.
//!
//! The objects of libfabric stand behind a lock that only closing takes for writing: all other
//! calls may run at the same time, which the provider promises (`FI_THREAD_SAFE`). The lock of the
//! queue is not held in any of them, and neither is while the sink is called.
//!
//! A provider that shares memory with its peers has locks there, which a peer that was killed or
//! stopped may hold for ever. Only the endpoint's own thread takes them. What is wanted of an
//! endpoint whose thread waits so is not done, and closing it fails after [`CLOSE_WITHIN`]: then
//! the process has to end.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::net::IpAddr;
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::{Duration, Instant};

use plasmon_proto::fabric::Provider;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::abi::{FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR, FI_REMOTE_WRITE, FI_WRITE, FidMr};
use crate::environment;
use crate::error::{Error, PEERS_MAX};
use crate::found::{Found, Traits};
use crate::library::library;
use crate::object::Object;
use crate::objects::{Objects, Read};
use crate::queue::{BOUNCE_BYTES, Bounce, Completion, Ended, Posting, Queue, Write};
use crate::signals::keeping_signals;
use crate::sources::{Gone, Keep, Lending, Lent, Place, Region, SourceCounts, Sources};

/// Bounces of an endpoint whose provider sends from registered memory alone.
const BOUNCES: usize = 16;

/// How long closing an endpoint waits for calls that are under way.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Keys that are tried: another window may have the first one.
const KEYS_TRIED: usize = 8;

/// Takes what has ended. It must not wait.
pub type Sink = Arc<dyn Fn(Completion) + Send + Sync>;

/// How much of an endpoint there is.
enum State {
    Open(Objects),
    /// Nothing is written into memory of its windows any more.
    Closed,
    /// It could not be closed: the memory of its windows is never given back.
    Broken,
}

#[derive(Default)]
struct Registrations {
    next: u64,
    by_number: BTreeMap<u64, Object<FidMr>>,
}

/// Memory that was registered.
pub(crate) struct Registered {
    pub(crate) number: u64,
    pub(crate) base: u64,
    pub(crate) key: u64,
    description: *mut c_void,
}

/// What one look at the completions came to.
pub(crate) enum Turn {
    /// Something ended.
    Moved,
    /// Nothing ended.
    Nothing,
    /// There is nothing to be done.
    Idle,
    /// The endpoint is closed, or its completions cannot be read.
    Over,
}

pub(crate) struct Shared {
    pub(crate) provider: Provider,
    pub(crate) traits: Traits,
    pub(crate) name: Vec<u8>,
    pub(crate) can_wait: bool,
    state: RwLock<State>,
    registrations: Mutex<Registrations>,
    peers: Mutex<BTreeMap<Vec<u8>, u64>>,
    queue: Mutex<Queue>,
    sources: Mutex<Sources>,
    /// Something is to be done, or the endpoint is over.
    work: Condvar,
    sink: Sink,
}

/// A lock whose data stays whole when a thread panics: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn open(
        provider: Provider,
        address: Option<IpAddr>,
        sink: Sink,
    ) -> Result<Self, Error> {
        let library = library()?;
        let found = Found::find(library, provider, address)?;
        environment::check(provider)?;
        let traits = found.traits();
        let objects = keeping_signals(|| Objects::open(library, found))?;
        let (name, can_wait) = (objects.name()?, objects.can_wait);
        let shared = Self {
            provider,
            traits,
            name,
            can_wait,
            state: RwLock::new(State::Open(objects)),
            registrations: Mutex::default(),
            peers: Mutex::default(),
            queue: Mutex::default(),
            sources: Mutex::default(),
            work: Condvar::new(),
            sink,
        };
        if shared.traits.has(FI_MR_LOCAL) {
            let bounces = (0..BOUNCES).map(|_| shared.bounce()).collect::<Result<Vec<_>, _>>()?;
            *lock(&shared.queue) = Queue::with_bounces(bounces);
        }
        Ok(shared)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, once no call is under way.
    fn state_mut(&self) -> Result<RwLockWriteGuard<'_, State>, Error> {
        let end = Instant::now() + CLOSE_WITHIN;
        loop {
            match self.state.try_write() {
                Ok(state) => return Ok(state),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(TryLockError::WouldBlock) => return Err(Error::Stuck),
            }
        }
    }

    /// Memory that is registered to be sent from. It lives as long as the process where the
    /// endpoint is not opened to its end.
    fn bounce(&self) -> Result<Bounce, Error> {
        let start = Box::into_raw(vec![0_u8; BOUNCE_BYTES].into_boxed_slice()).cast();
        // SAFETY: nothing else uses the memory, and the queue frees it after the endpoint.
        let registered = unsafe { self.register((start, BOUNCE_BYTES), FI_WRITE)? };
        Ok(Bounce { start, description: registered.description })
    }

    /// Registers memory under a key that cannot be guessed where the provider lets it be chosen.
    ///
    /// # Safety
    ///
    /// As for [`Objects::register`].
    pub(crate) unsafe fn register(
        &self,
        memory: (*mut u8, usize),
        access: u64,
    ) -> Result<Registered, Error> {
        let state = self.state();
        let State::Open(objects) = &*state else { return Err(Error::Closed) };
        let mut tries = 0;
        let region = loop {
            let key = self.draw_key()?;
            // SAFETY: as the caller says.
            let region = unsafe { objects.register(&self.traits, memory, access, key) };
            match region {
                Err(Error::Call { .. })
                    if tries < KEYS_TRIED && !self.traits.has(FI_MR_PROV_KEY) =>
                {
                    tries += 1;
                }
                other => break other?,
            }
        };
        // SAFETY: the region is open, and these fields do not change.
        let (key, description) = unsafe { ((*region.as_ptr()).key, (*region.as_ptr()).mem_desc) };
        let is_virtual = self.traits.has(FI_MR_VIRT_ADDR);
        let base = if is_virtual { memory.0.expose_provenance() as u64 } else { 0 };
        let mut registrations = lock(&self.registrations);
        let number = registrations.next;
        registrations.next += 1;
        registrations.by_number.insert(number, region);
        Ok(Registered { number, base, key, description })
    }

    fn draw_key(&self) -> Result<u64, Error> {
        if self.traits.has(FI_MR_PROV_KEY) {
            return Ok(0);
        }
        let mut bytes = [0; 8];
        let drawn = getrandom(&mut bytes, GetRandomFlags::empty());
        drawn.map_err(|errno| Error::Call {
            call: "getrandom",
            code: errno.raw_os_error(),
            message: errno.to_string(),
        })?;
        let bits = (self.traits.key_bytes.clamp(1, 8) * 8) as u32;
        Ok(u64::from_le_bytes(bytes) >> (64 - bits))
    }

    /// Registers the memory of a window.
    ///
    /// # Safety
    ///
    /// As for [`Objects::register`].
    pub(crate) unsafe fn begin_window(
        &self,
        memory: (*mut u8, usize),
    ) -> Result<Registered, Error> {
        // SAFETY: as the caller says.
        let registered = unsafe { self.register(memory, FI_REMOTE_WRITE)? };
        {
            let mut queue = lock(&self.queue);
            queue.windows += 1;
            queue.is_new = true;
        }
        self.work.notify_all();
        Ok(registered)
    }

    /// Ends a window. After an error its memory must not be used any more.
    pub(crate) fn end_window(&self, number: u64) -> Result<(), Error> {
        self.leave_window();
        if lock(&self.queue).is_over {
            // Another thread closes it, and may not be done.
            return self.close();
        }
        self.unregister(&[number])
    }

    /// Closes registrations. After an error memory of theirs may still be registered.
    fn unregister(&self, numbers: &[u64]) -> Result<(), Error> {
        let state = self.state();
        match &*state {
            State::Open(_) => {
                let mut closed = Ok(());
                for number in numbers {
                    let region = lock(&self.registrations).by_number.remove(number);
                    // Each of them is closed, also after an error.
                    closed = closed.and(region.map_or(Ok(()), Object::close));
                }
                closed
            }
            State::Closed => Ok(()),
            State::Broken => Err(Error::Closed),
        }
    }

    /// Memory from which will be written, to be registered when it is.
    pub(crate) fn hold(&self, memory: (*const u8, usize), keep: Arc<dyn Keep>) -> u64 {
        lock(&self.sources).hold(memory, keep)
    }

    /// Nothing more will be written from there by one of those that said so.
    pub(crate) fn release(&self, source: u64) {
        let gone = lock(&self.sources).release(source);
        self.let_go(gone);
    }

    /// What became of the memory from which is written.
    pub(crate) fn source_counts(&self) -> SourceCounts {
        lock(&self.sources).counts()
    }

    /// The registration of the memory of a write, which is made if there is none yet.
    fn lend(&self, write: &Write) -> Option<Lent> {
        if !self.traits.has(FI_MR_LOCAL) {
            return None;
        }
        let lending = lock(&self.sources).lend(write.start, write.bytes);
        match lending {
            Lending::Copied => None,
            Lending::Lent(lent) => Some(lent),
            Lending::Register(place, (start, bytes), gone) => {
                self.let_go(gone);
                // SAFETY: with this access the memory is only read. The sources keep it until they
                // say that the registration is to be closed; the end of the endpoint closes it too.
                let registered = unsafe { self.register((start.cast_mut(), bytes), FI_WRITE) };
                let region = registered.ok().map(|registered| Region {
                    number: registered.number,
                    description: registered.description,
                });
                let lent = lock(&self.sources).registered(place, region);
                if lent.is_none() {
                    self.end_lent(place);
                }
                lent
            }
        }
    }

    fn end_lent(&self, place: Place) {
        let gone = lock(&self.sources).end(place);
        self.let_go(gone);
    }

    /// Closes registrations of a source, then lets go of its memory. What cannot be closed is kept.
    fn let_go(&self, gone: Option<Gone>) {
        if let Some(Gone { regions, keep }) = gone
            && self.unregister(&regions).is_err()
        {
            std::mem::forget(keep);
        }
    }

    /// The thread need not look after a window any more.
    pub(crate) fn leave_window(&self) {
        let mut queue = lock(&self.queue);
        queue.windows = queue.windows.saturating_sub(1);
    }

    /// The number of another endpoint.
    pub(crate) fn peer(&self, name: &[u8]) -> Result<u64, Error> {
        if !self.traits.is_name(name, &self.name) {
            return Err(Error::BadName { bytes: name.len() });
        }
        let state = self.state();
        let State::Open(objects) = &*state else { return Err(Error::Closed) };
        let mut peers = lock(&self.peers);
        if let Some(number) = peers.get(name) {
            return Ok(*number);
        }
        if peers.len() >= PEERS_MAX {
            return Err(Error::Peers);
        }
        let number = objects.insert(name)?;
        peers.insert(name.to_vec(), number);
        Ok(number)
    }

    /// Begins a write, or puts it into the queue.
    pub(crate) fn write(&self, mut write: Write) -> Result<(), Error> {
        write.lent = self.lend(&write);
        let lent = write.lent;
        let mut done = Vec::new();
        let begun = self.begin(write, &mut done);
        match (&begun, lent) {
            (Ok(()), _) => self.work.notify_all(),
            (Err(_), Some(lent)) => self.end_lent(lent.place),
            (Err(_), None) => {}
        }
        self.tell(done);
        begun
    }

    fn begin(&self, write: Write, done: &mut Vec<Ended>) -> Result<(), Error> {
        let state = self.state();
        let State::Open(objects) = &*state else { return Err(Error::Closed) };
        lock(&self.queue).put(write)?;
        if self.provider != Provider::Shm {
            self.pump(objects, done);
        }
        Ok(())
    }

    /// Gives the provider what it takes now.
    fn pump(&self, objects: &Objects, done: &mut Vec<Ended>) {
        loop {
            let next = lock(&self.queue).next(&self.traits, done);
            let Some(posting) = next else { return };
            let Posting { from, description, to, context } = posting;
            let completion = self.traits.completion;
            // SAFETY: the queue keeps the memory and the context until the completion was read or
            // the endpoint is closed, or `posted` says that the provider has not taken them.
            let begun = unsafe { objects.write(completion, from, description, to, context) };
            if !lock(&self.queue).posted(&posting, begun) {
                return;
            }
        }
    }

    /// Lets go of what ended, and tells of it.
    fn tell(&self, done: Vec<Ended>) {
        for Ended { write: Write { token, keep, lent, .. }, result } in done {
            if let Some(lent) = lent {
                self.end_lent(lent.place);
            }
            drop(keep);
            (self.sink)(Completion { token, result });
        }
    }

    /// Looks at the completions once, waiting for one for so many milliseconds where that can be.
    pub(crate) fn turn(&self, wait_ms: Option<i32>) -> Turn {
        let mut done = Vec::new();
        let turn = self.look(wait_ms, &mut done);
        self.tell(done);
        turn
    }

    fn look(&self, wait_ms: Option<i32>, done: &mut Vec<Ended>) -> Turn {
        if lock(&self.queue).is_over {
            return Turn::Over;
        }
        let state = self.state();
        let State::Open(objects) = &*state else { return Turn::Over };
        let read = objects.read(wait_ms);
        let mut queue = lock(&self.queue);
        let turn = match read {
            Ok(Read::Nothing) => Turn::Nothing,
            Ok(Read::Done(contexts, count)) => {
                for context in &contexts[..count] {
                    queue.completed(*context, Ok(()), done);
                }
                Turn::Moved
            }
            Ok(Read::Failed(context, error)) => {
                queue.completed(context, Err(error), done);
                Turn::Moved
            }
            Err(error) => {
                queue.break_off(&error, done);
                return Turn::Over;
            }
        };
        drop(queue);
        self.pump(objects, done);
        if lock(&self.queue).is_idle() { Turn::Idle } else { turn }
    }

    /// Waits for so long, or until something is asked for; whether something was.
    pub(crate) fn nap(&self, time: Duration) -> bool {
        let queue = lock(&self.queue);
        let is_quiet = |queue: &mut Queue| !queue.is_new && !queue.is_over;
        let waited = self.work.wait_timeout_while(queue, time, is_quiet);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_new
    }

    /// Waits until there is something to be done; false when the endpoint is over.
    pub(crate) fn wait_for_work(&self) -> bool {
        let mut queue = lock(&self.queue);
        while queue.is_idle() && !queue.is_over {
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        !queue.is_over
    }

    /// Whether it takes writes and windows.
    pub(crate) fn is_open(&self) -> bool {
        let queue = lock(&self.queue);
        !queue.is_over && queue.broken.is_none()
    }

    /// Whether it is closed, so that nothing is written into its windows.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.state(), State::Closed)
    }

    /// Closes the endpoint. After that nothing is written into the memory of its windows any more,
    /// unless there is an error: then that memory stays where it is for ever.
    pub(crate) fn close(&self) -> Result<(), Error> {
        lock(&self.queue).is_over = true;
        self.work.notify_all();
        let mut done = Vec::new();
        let (closed, sources) = {
            let mut state = self.state_mut()?;
            let before = std::mem::replace(&mut *state, State::Closed);
            let closed = match before {
                State::Open(objects) => self.close_objects(objects),
                State::Closed => Ok(()),
                State::Broken => Err(Error::Closed),
            };
            if closed.is_err() {
                *state = State::Broken;
            }
            lock(&self.queue).end(closed.is_ok(), &mut done);
            (closed, lock(&self.sources).take_all())
        };
        match &closed {
            Ok(()) => drop(sources),
            Err(_) => std::mem::forget(sources),
        }
        self.tell(done);
        closed
    }

    fn close_objects(&self, mut objects: Objects) -> Result<(), Error> {
        let closed = objects.close_ep();
        let regions = std::mem::take(&mut lock(&self.registrations).by_number);
        let closed = closed.and_then(|()| regions.into_values().try_for_each(Object::close));
        if closed.is_err() {
            // What refers to the rest is open still.
            std::mem::forget(objects);
        }
        closed
    }
}
