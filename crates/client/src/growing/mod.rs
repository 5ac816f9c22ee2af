//! Objects that grow while they are written.
//!
//! ```text
//! Client::grow ─► Growing ── ensure(bytes) ──► memory up to there, at the same address as before
//!                  │  ▲                        asked for ahead, while the last part is written
//!                  │  └─ StoreFull: what was written stays readable; ask again later
//!                  ├─ seal(bytes) ─► an object like any other; nothing was copied
//!                  └─ dropped ─────► its memory is idle: warm for this client's next one,
//!                                    and the daemon's to take back when room is needed
//! ```
//!
//! The daemon grants memory that it has allocated, so a full machine is an error of `ensure` and
//! never a signal in the middle of a write. What is not sealed outlives a broken connection and not
//! its daemon: one that was restarted knows nothing of it, and the bytes stay readable here and
//! nowhere else.

pub(crate) mod seal;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::{Grant, PendingObject, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::{Code, ObjectId, Policy};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::growing::GrowingMap;

use crate::client::Client;
use crate::connection::Connection;
use crate::created::abandon;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::lease::ask_with_room;
use crate::process::Process;
use crate::session::Session;

const BEGINNING: &str = "reserving memory for a growing object";
const GROWING: &str = "growing object";

/// The least memory that one request asks for, so that small objects do not ask for every page.
const STEP_BYTES_MIN: usize = 64 << 10;

/// What is asked for at most at a time beyond what is needed: enough to be written while the next
/// part is allocated, and little enough not to starve others near the end of the memory.
const STEP_BYTES_MAX: usize = 32 << 20;

/// But at most this part of the capacity.
const STEPS_PER_CAPACITY: u64 = 64;

/// Addresses are cheap, and a buffer can never be longer than its store; but capacities of small
/// test stores are not what a restarted daemon may have.
const WINDOW_BYTES_MIN: u64 = 1 << 30;

/// Windows start and end where huge pages can.
const WINDOW_ALIGN: u64 = 2 << 20;

/// How long a full store is left alone before it is asked again.
const RETRY_STEP: Duration = Duration::from_millis(5);

/// How an object grows and what it becomes.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrowOptions {
    /// How long it will be, as far as that is known; 0 when it is not.
    pub bytes_hint: u64,
    /// Whether it may become much longer than that.
    pub open_ended: bool,
    /// For how long to wait for room while the store is full, before that is an error.
    pub timeout: Duration,
    /// What the store may do with the sealed object when memory is short.
    pub policy: Policy,
    /// Whether it is deleted with the last composite object that holds it, or with this client if
    /// none ever does.
    pub owned: bool,
}

/// An object under construction whose size is not known yet. It reads and writes as the memory that
/// it was granted so far, whose address never changes.
pub struct GrowingObject {
    store: Client,
    connection: Arc<Connection>,
    session: Arc<Session>,
    id: ObjectId,
    extent: ExtentId,
    /// `None` once it is sealed, except for [`Self::seal_lent`].
    map: Option<GrowingMap>,
    sealed: AtomicBool,
    /// The request for the next part, whose reply was not read yet.
    asked: Option<u64>,
    timeout: Duration,
}

/// Tries until there is room or the deadline has passed. The store does not announce that it has
/// room again, so it is asked at intervals.
fn patiently<T>(deadline: Deadline, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(error) if error.code() == Code::StoreFull && !deadline.is_past() => {
                edge::sleep(RETRY_STEP);
                interrupt::check(GROWING)?;
            }
            outcome => return outcome,
        }
    }
}

impl Client {
    /// Begins an object whose size is not known yet, with memory for [`GrowOptions::bytes_hint`].
    pub fn grow(&self, options: &GrowOptions) -> Result<GrowingObject> {
        begin_growing(self.process()?, self, options)
    }
}

fn begin_growing(
    process: &Process,
    store: &Client,
    options: &GrowOptions,
) -> Result<GrowingObject> {
    let connection = &process.connection;
    let session = Arc::clone(connection.session());
    session.drain();
    let id = process.new_id();
    let traits = Traits { policy: options.policy, owned: options.owned, ..Traits::default() };
    let bytes = options.bytes_hint.max(STEP_BYTES_MIN as u64);
    let deadline = Deadline::after(options.timeout);
    let (granted, map) = loop {
        let open_ended = options.open_ended || options.bytes_hint == 0;
        let request = Request::CreateGrowing { id, traits, bytes, open_ended };
        let mut answer = patiently(deadline, || {
            ask_with_room(connection, &session, BEGINNING, request.clone())
        })?;
        let (Reply::Created(granted), Some(fd)) = (&answer.reply, answer.fds.pop()) else {
            return Err(Error::unexpected(BEGINNING));
        };
        let mut writing = session.writing();
        // A creation that the daemon was not told of when the connection was resumed has ended.
        if !writing.is_void(answer.link) {
            let (sizes, range, strict) = (Sizes::default(), granted.range, false);
            writing.set_creating(PendingObject { id, sizes, traits, range, strict });
            drop(writing);
            break (*granted, map_growing(&session, granted, fd));
        }
    };
    let extent = granted.range.extent;
    let (asked, timeout) = (None, options.timeout);
    let mut growing = GrowingObject {
        store: store.clone(),
        connection: Arc::clone(connection),
        session,
        id,
        extent,
        map: None,
        sealed: AtomicBool::new(false),
        asked,
        timeout,
    };
    // From here on, dropping it gives the memory back.
    growing.map = Some(map?);
    Ok(growing)
}

/// The mapping of a growing extent: the one that this client had when it last had the extent,
/// whose pages are mapped already, or a new one.
fn map_growing(session: &Session, granted: &Grant, fd: std::os::fd::OwnedFd) -> Result<GrowingMap> {
    let failed = |error| Error::io("mapping memory to write to", error);
    let known = session.writing().take_growing_map(granted.range.extent);
    let mut map = match known {
        Some(map) => map,
        None => {
            let capacity = session.welcome.capacity_bytes.max(WINDOW_BYTES_MIN);
            let window = capacity.max(granted.range.bytes).next_multiple_of(WINDOW_ALIGN);
            GrowingMap::new(fd, window).map_err(failed)?
        }
    };
    map.grant(granted.range.bytes).map_err(failed)?;
    Ok(map)
}

impl GrowingObject {
    /// The id that the object will have.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The store that the object goes to.
    pub fn store(&self) -> &Client {
        &self.store
    }

    /// Whether the daemon that gave the memory is gone: then it cannot be sealed any more, only
    /// read.
    pub fn is_lost(&self) -> bool {
        !self.connection.is_ours()
            || !self.connection.is_current(&self.session)
            || !self.is_sealed() && !self.session.writing().is_creating(&self.id)
    }

    /// How many bytes may be used.
    pub fn granted(&self) -> usize {
        self.map.as_ref().map_or(0, GrowingMap::granted)
    }

    /// The first byte, for callers that lend the memory to foreign code: up to [`Self::granted`]
    /// bytes from there may be used for as long as this exists.
    pub fn base(&self) -> *mut u8 {
        self.map.as_ref().map_or(std::ptr::null_mut(), GrowingMap::base)
    }

    /// Makes sure that the first `bytes` bytes may be used. An error leaves everything as it is.
    pub fn ensure(&mut self, bytes: usize) -> Result<()> {
        // A forked child shares the memory and must not write to it.
        self.connection.check_ours(GROWING, self.id)?;
        if bytes > self.granted() {
            self.grow_to(bytes)?;
        }
        let granted = self.granted();
        if self.asked.is_none() && granted - bytes < self.step() / 2 && bytes >= STEP_BYTES_MIN / 2
        {
            self.ask_ahead(granted + self.step());
        }
        if let Some(map) = &mut self.map {
            map.populate(bytes);
        }
        Ok(())
    }

    /// Like [`Self::ensure`], but asks for no more than this, now and ahead: for sizes that are
    /// known.
    pub fn ensure_exactly(&mut self, bytes: usize) -> Result<()> {
        let deadline = Deadline::after(self.timeout);
        while bytes > self.granted() {
            self.connection.check_ours(GROWING, self.id)?;
            self.take_asked()?;
            patiently(deadline, || self.ask_for(bytes))?;
        }
        if let Some(map) = &mut self.map {
            map.populate(bytes);
        }
        Ok(())
    }

    /// Copies bytes to `at`, within what is granted; faster than a copy into the slice when they
    /// are many.
    ///
    /// # Panics
    ///
    /// If they are not within what is granted, or it is sealed.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let sealed = self.is_sealed();
        let map = self.map.as_mut().filter(|_| !sealed);
        map.expect("memory that is not sealed").write(at, bytes);
    }

    /// By how much it grows at a time. Memory granted ahead is lost to other objects: in a small
    /// store that must be little, or the first column of a table takes the room of the last one.
    fn step(&self) -> usize {
        let share = (self.session.welcome.capacity_bytes / STEPS_PER_CAPACITY) as usize;
        self.granted().min(share).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX)
    }

    fn ask_ahead(&mut self, bytes: usize) {
        let within = self.map.as_ref().is_some_and(|map| bytes as u64 <= map.window());
        if within && !self.is_lost() {
            let request = Request::Grow { id: self.id, bytes: bytes as u64 };
            // A caller that really needs it asks again and is told why there is none.
            self.asked = self.connection.rpc().begin(GROWING, request, None).ok();
        }
    }

    #[cold]
    fn grow_to(&mut self, bytes: usize) -> Result<()> {
        self.connection.check_ours(GROWING, self.id)?;
        self.take_asked()?;
        let deadline = Deadline::after(self.timeout);
        while bytes > self.granted() {
            let generous = self.granted() + self.step();
            patiently(deadline, || match self.ask_for(bytes.max(generous)) {
                Err(error) if bytes < generous && is_too_much(&error) => self.ask_for(bytes),
                outcome => outcome,
            })?;
        }
        Ok(())
    }

    /// Takes what was asked for ahead. The daemon looks for memory for one request at a time.
    fn take_asked(&mut self) -> Result<()> {
        let Some(number) = self.asked.take() else { return Ok(()) };
        match self.connection.answer(GROWING, number, true)?.reply {
            Reply::Grown { bytes } => self.grant(bytes),
            _ => Ok(()),
        }
    }

    fn ask_for(&mut self, bytes: usize) -> Result<()> {
        if self.is_lost() {
            return Err(Error::forgotten(GROWING, self.id));
        }
        let request = Request::Grow { id: self.id, bytes: bytes as u64 };
        match ask_with_room(&self.connection, &self.session, GROWING, request) {
            Ok(answer) => match answer.reply {
                Reply::Grown { bytes } => self.grant(bytes),
                _ => Err(Error::unexpected(GROWING)),
            },
            Err(error) if error.code() == Code::Absent => Err(Error::forgotten(GROWING, self.id)),
            Err(error) => Err(error.about(self.id)),
        }
    }

    fn grant(&mut self, bytes: u64) -> Result<()> {
        let Some(map) = &mut self.map else { return Ok(()) };
        // An answer that comes late tells of less.
        let bytes = bytes.max(map.granted() as u64);
        map.grant(bytes).map_err(|error| Error::io(GROWING, error).with_id(self.id))
    }

    /// Discards the reply to a request made ahead.
    fn discard_ahead(&mut self) {
        if let Some(number) = self.asked.take() {
            self.connection.abandon_request(number);
        }
    }

    fn is_sealed(&self) -> bool {
        // Pairs with the Release in `end_seal`; set once, by the thread that sealed.
        self.sealed.load(Ordering::Acquire)
    }

    /// Gives the object up; its memory is free again, and warm for the next one.
    pub fn abort(self) {
        drop(self);
    }

    fn give_up(&mut self) {
        self.discard_ahead();
        if self.is_lost() {
            return;
        }
        if let Some(map) = self.map.take() {
            // Before the daemon knows, so that the next one who is given the extent finds it.
            self.session.keep_growing_map(self.extent, map);
        }
        abandon(&self.connection, &self.session, self.id);
    }
}

/// Whether less may be had.
fn is_too_much(error: &Error) -> bool {
    matches!(error.code(), Code::StoreFull | Code::TooLarge | Code::QuotaExceeded)
}

impl Deref for GrowingObject {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}

impl DerefMut for GrowingObject {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.map {
            Some(map) if !self.sealed.load(Ordering::Relaxed) => map,
            _ => &mut [],
        }
    }
}

impl fmt::Debug for GrowingObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrowingObject")
            .field("id", &self.id)
            .field("granted", &self.granted())
            .field("sealed", &self.is_sealed())
            .finish_non_exhaustive()
    }
}

impl Drop for GrowingObject {
    fn drop(&mut self) {
        if !self.is_sealed() && self.connection.is_ours() {
            self.give_up();
        }
    }
}
