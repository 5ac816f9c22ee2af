//! The operations on a store.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Access, ClientInfo, Filter, Request};
use plasmon_proto::object::{Level, ObjectInfo, ObjectState};
use plasmon_proto::participation::Participation;
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_admin::{ObjectPlace, Verification};
use plasmon_proto::pool_status::{PoolNode, PoolStatus};
use plasmon_proto::ring::Submission;
use plasmon_proto::status::Status;
use plasmon_proto::{Code, Name, ObjectId};
use plasmon_shm::eventfd::Doorbell;

use super::Client;
use crate::acks::Verdict;
use crate::buffer::{Buffer, PinnedBuffer};
use crate::error::{Error, Result};
use crate::get::why_not;
use crate::ids::Ids;
use crate::listing::Listing;
use crate::options::{ConnectOptions, PutOptions, StartOptions};
use crate::pin::pin_unmapped;
use crate::pool;
use crate::pool_delete;
use crate::pool_subscription;
use crate::process::Process;
use crate::settle;
use crate::start::{default_socket, start};
use crate::submit::submit;
use crate::subscription::Subscription;
use crate::wait::poll::{PendingWait, WAITING};
use crate::wait::{Until, wait, wait_request};
use crate::writer::Writer;

/// How long a store that [`Client::connect_or_start`] started outlives its last client, so that the
/// next program in a shell finds what the first one put.
const LINGER: Duration = Duration::from_secs(600);

/// The variable with which a user says how long that is to be.
const LINGER_VARIABLE: &str = "PLASMON_LINGER_MS";

/// Digests that are remembered.
const DIGESTS_MAX: usize = 4096;

/// Connecting.
impl Client {
    /// Connects to a running store.
    pub fn connect(options: &ConnectOptions) -> Result<Self> {
        Self::connect_within(options, options.connect_timeout)
    }

    /// Connects to the running store of this user, or starts one that ends ten minutes after its
    /// last client, unless the settings say otherwise.
    ///
    /// Several processes may do this at once: one of their daemons wins, and all use that one.
    pub fn connect_or_start(
        options: &ConnectOptions,
        start_options: &StartOptions,
    ) -> Result<Self> {
        match Self::connect_within(options, Duration::ZERO) {
            Err(error) if error.code() == Code::Disconnected => {}
            outcome => return outcome,
        }
        let socket = match &options.socket {
            Some(socket) => socket.clone(),
            None => default_socket()?,
        };
        let mut embedded = start_options.clone();
        let mut set = |key: &str, value: String| embedded.settings.push((key.to_owned(), value));
        set("socket", socket.display().to_string());
        let is_set = |wanted: &str| start_options.settings.iter().any(|(key, _)| key == wanted);
        if !is_set("end_with_last_client") {
            set("end_with_last_client", "true".to_owned());
            let is_set_outside = std::env::var_os(LINGER_VARIABLE).is_some();
            if !is_set("linger_ms") && !is_set_outside {
                set("linger_ms", LINGER.as_millis().to_string());
            }
        }
        match start(&embedded) {
            Ok(_) => {}
            Err(error) if error.code() == Code::AlreadyRunning => {}
            Err(error) => return Err(error),
        }
        Self::connect_within(options, start_options.timeout)
    }

    fn connect_within(options: &ConnectOptions, timeout: Duration) -> Result<Self> {
        let socket = match &options.socket {
            Some(socket) => socket.clone(),
            None => default_socket()?,
        };
        let process = Process::connect(&socket, options, timeout)?;
        Ok(Self::of(process, socket, options))
    }

    /// The socket of the store.
    pub fn socket(&self) -> &Path {
        &self.0.socket
    }

    /// How many bytes of objects the store holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.newest().session().welcome.capacity_bytes
    }

    /// How sealed objects are protected.
    pub fn level(&self) -> Level {
        self.newest().session().welcome.level
    }

    /// The user (uid) whose daemon serves the store, as the kernel names it.
    pub fn owner(&self) -> u32 {
        self.newest().owner()
    }

    /// Whether the store is this user's own, or root's. Another user's daemon can claim anything
    /// about itself and about the objects in it.
    pub fn is_own(&self) -> bool {
        let owner = self.owner();
        owner == rustix::process::geteuid().as_raw() || owner == 0
    }

    /// What this client may do.
    pub fn access(&self) -> Access {
        self.newest().session().welcome.access
    }

    /// Stops the daemon if it would end after its last client anyway, holds no object and has no
    /// other client; [`Code::InUse`] says what it is needed for.
    pub fn shutdown_unused(&self) -> Result<()> {
        self.here()?.shutdown_unused()
    }

    /// Ends the connection now: leases go back, waits end, later calls fail. Buffers stay readable.
    /// Memory that a builder, a writer or a region could still write to stays lent to this client
    /// until the last handle of the store is dropped. Memory of the pool that it allocated, and
    /// that is not sealed, ends.
    pub fn disconnect(&self) {
        let newest = self.0.processes.newest();
        if newest.connection.is_ours() {
            newest.regions.close();
        }
        newest.connection.close();
    }
}

/// Writing.
impl Client {
    /// A new unique id.
    pub fn new_id(&self) -> ObjectId {
        let process = self.0.processes.newest();
        // A forked child that has not connected must not count on where its parent does.
        if process.connection.is_ours() { process.new_id() } else { Ids::new().next() }
    }

    /// Copies `data` into a new object.
    ///
    /// Without an id or a name of the caller's it returns as soon as the object is on its way, and
    /// should the store refuse it after all, [`Self::flush`] and the next call that writes report
    /// that. With one it returns when the store has accepted the object.
    #[inline]
    pub fn put(&self, data: &[u8], options: &PutOptions) -> Result<ObjectId> {
        self.put_parts(&[data], options)
    }

    /// Like [`Self::put`], with the data gathered from several parts: one copy, no intermediate.
    pub fn put_parts(&self, data: &[&[u8]], options: &PutOptions) -> Result<ObjectId> {
        self.process()?.put(data, options)
    }

    /// Many puts with one acknowledgement for those that need it. `options` give what they share;
    /// its id and name must be absent.
    ///
    /// The first refusal ends it with an error that names the object; those before it are put.
    pub fn put_many(
        &self,
        objects: &[(Option<ObjectId>, &[u8])],
        options: &PutOptions,
    ) -> Result<Vec<ObjectId>> {
        self.process()?.put_many(objects, options)
    }

    /// Reserves an object for writing in place. The metadata is `options.metadata`, and may be
    /// overwritten with the same length.
    pub fn create(&self, data_bytes: u64, options: &PutOptions) -> Result<Writer> {
        self.process()?.create(self, data_bytes, options)
    }

    /// Returns when everything submitted so far is applied; reports what was refused meanwhile.
    pub fn flush(&self) -> Result<()> {
        self.process()?.flush()
    }

    /// Deletes objects; one code for each, `None` for success. An object that is being read is
    /// hidden now, and its memory is free after its last pin.
    pub fn delete(&self, ids: &[ObjectId]) -> Result<Vec<Option<Code>>> {
        self.here()?.delete(ids)
    }

    /// Deletes objects of the pool, and waits until no node has a copy of any; each has its own
    /// result. One that a node may have a copy of when the time has passed is deleted all the same:
    /// its error is [`Code::InUse`] and names the node. A node that is away counts until it has
    /// shown no copy for certain, a little more than a minute.
    pub fn delete_and_wait(&self, ids: &[ObjectId], timeout: Duration) -> Result<Vec<Result<()>>> {
        pool_delete::delete_and_wait(self, ids, timeout)
    }

    /// Deletes objects as soon as no client reads them, and leaves them as they are until then; one
    /// code for each, `None` for those that are or will be deleted. Objects that are being created
    /// stay.
    pub fn delete_unused(&self, ids: &[ObjectId]) -> Result<Vec<Option<Code>>> {
        self.here()?.delete_unused(ids)
    }

    /// Deletes an object without waiting for the answer; a refusal is reported by a later call.
    pub fn delete_soon(&self, id: &ObjectId) -> Result<()> {
        const DELETING: &str = "deleting object";
        let connection = self.here()?;
        let session = connection.session();
        if session.channel().is_none() {
            return match connection.delete(&[*id])?.first() {
                Some(Some(code)) => Err(Error::new(*code, DELETING).with_id(*id)),
                _ => Ok(()),
            };
        }
        session.drain();
        let mut writing = session.writing();
        writing.verdicts.take_refusals(DELETING)?;
        submit(connection, session, writing, &[Submission::Delete { id: *id }], Verdict::Kept)
            .map(drop)
    }

    /// Evicts objects with policy cache until this many bytes are free; bytes and objects evicted.
    pub fn evict(&self, bytes: u64) -> Result<(u64, u64)> {
        self.here()?.evict(bytes)
    }

    /// Limits the bytes that this client may own; 0 for no limit.
    pub fn set_quota(&self, bytes: u64) -> Result<()> {
        self.here()?.command("setting the quota", Request::Quota { bytes })
    }

    /// Adopts a namespace: when this process's connection ends, however it ends, the daemon deletes
    /// all objects named in it, of any client, and refuses later ones with [`Code::Cancelled`]. All
    /// of them together may have at most `bytes_max` bytes of data and metadata, in memory and
    /// spilled; 0 for no limit. A second call changes the limit.
    ///
    /// The connection repeats this to a daemon that was restarted. If this process dies while no
    /// daemon runs, the objects stay.
    ///
    /// A namespace of a pool, such as `@app-1`, is adopted on all nodes: its objects are deleted
    /// everywhere, also when this machine dies. This waits until all live nodes know it, and its
    /// limit, for some seconds at most, and fails with [`Code::Unreachable`] otherwise. The limit
    /// is of all nodes together: each copy that is kept counts, and caches do not. A node knows
    /// what the others have with a delay of about a second, so together they may exceed the limit
    /// by what they put in that time.
    pub fn adopt(&self, namespace: &str, bytes_max: u64) -> Result<()> {
        self.here()?.adopt(namespace, bytes_max)
    }

    /// Ends what [`Self::adopt`] began, as the end of this process does: everything named in the
    /// namespace is deleted, and refused until a program adopts it again.
    pub fn end_adoption(&self, namespace: &str) -> Result<()> {
        self.here()?.end_adoption(namespace)
    }

    /// Gives this client a share of the memory, once: its objects with policy cache take at most
    /// this many bytes, and are evicted only for its own new objects, until it disconnects. For
    /// exact connections; leases are not held to it.
    pub fn set_share(&self, bytes: u64) -> Result<()> {
        self.here()?.command("setting the share", Request::Share { bytes })
    }
}

/// Reading.
impl Client {
    /// The object, if it is sealed and in memory. The hot path: no system call, no allocation, no
    /// reference count, except when this process meets an extent or a new index for the first time.
    ///
    /// `None` also when this client has no channel, holds too many pins, or would have to ask a
    /// daemon that is away: then [`Self::get`] says more.
    #[inline]
    pub fn get_now<'a>(&'a self, id: &ObjectId) -> Option<PinnedBuffer<'a>> {
        let connection = self.here().ok()?;
        let session = connection.session();
        let channel = session.channel()?;
        session.drain();
        let Some(view) = channel.reader.get_mapped(id) else {
            return pin_unmapped(connection, session, channel, id);
        };
        channel.reader.touch(view.record());
        Some(PinnedBuffer::new(view, connection.fork()))
    }

    /// Like [`Self::get_now`], as a buffer that can be kept.
    pub fn take_now(&self, id: &ObjectId) -> Option<Buffer> {
        self.try_get(id).ok().flatten()
    }

    /// The object, if it can be had without asking the daemon anything: never waits. `None` also
    /// for one whose memory is not mapped here yet, and for a client without a channel.
    pub fn take_mapped(&self, id: &ObjectId) -> Option<Buffer> {
        let connection = self.newest();
        if !connection.is_ours() || connection.check_open().is_err() {
            return None;
        }
        let session = connection.session();
        let channel = session.channel()?;
        session.drain();
        let view = channel.reader.get_mapped(id)?;
        channel.reader.touch(view.record());
        let view = view.into_owned(Arc::clone(&channel.reader));
        Some(Buffer::in_ledger(view, connection, self.clone()))
    }

    /// Those of the objects that are sealed and in memory. Waits only for the daemon's answers.
    pub fn take_in_memory(&self, ids: &[ObjectId]) -> Result<Vec<Option<Buffer>>> {
        self.try_get_all(ids)
    }

    /// An error if the daemon refused the object after its put had returned: it will not come.
    pub fn check_refused(&self, id: &ObjectId) -> Result<()> {
        let connection = self.newest();
        match connection.session().writing().verdicts.refusal_of(id) {
            Some(code) => Err(Error::new(code, "putting object").with_id(*id)),
            None => Ok(()),
        }
    }

    /// Why a wait for an object ended without it, in this state; `late` when its time has passed.
    pub fn reason(id: ObjectId, state: ObjectState, late: bool) -> Error {
        why_not(id, state, late)
    }

    /// The object, waiting for it to be sealed: without a limit for `None`, not at all for zero.
    pub fn get(&self, id: &ObjectId, timeout: Option<Duration>) -> Result<Buffer> {
        self.get_one(id, Until::timeout(timeout))
    }

    /// The object as it is now: [`Code::Absent`] at once when it is not there, and
    /// [`Code::NotSealed`] when it is being created. One that was spilled comes back. Waits for
    /// the daemon alone, as long as it may leave any question unanswered.
    pub fn get_existing(&self, id: &ObjectId) -> Result<Buffer> {
        self.get_one(id, self.question())
    }

    /// The object of this name.
    pub fn get_named(&self, name: &Name, timeout: Option<Duration>) -> Result<Buffer> {
        self.get(&name.id(), timeout).map_err(|error| error.with_name(name.to_string()))
    }

    /// Many objects with one timeout for all of them; each has its own result.
    pub fn get_many(
        &self,
        ids: &[ObjectId],
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<Buffer>>> {
        self.get_all(ids, Until::timeout(timeout))
    }

    /// Like [`Self::get_existing`], for many objects; each has its own result.
    pub fn get_many_existing(&self, ids: &[ObjectId]) -> Result<Vec<Result<Buffer>>> {
        self.get_all(ids, self.question())
    }

    fn question(&self) -> Until {
        Until::question(self.request_timeout())
    }

    /// For how long the daemon may leave a question unanswered.
    pub fn request_timeout(&self) -> Duration {
        self.0.options.request_timeout
    }

    /// Whether the object is sealed, in memory or spilled.
    pub fn contains(&self, id: &ObjectId) -> Result<bool> {
        let connection = self.here()?;
        let listed = connection.session().channel().and_then(|it| it.reader.contains(id));
        if listed == Some(true) {
            return Ok(true);
        }
        Ok(connection.states(&[*id])?.iter().any(|state| state.is_readable()))
    }

    /// Where objects are in their lives.
    pub fn states(&self, ids: &[ObjectId]) -> Result<Vec<ObjectState>> {
        self.here()?.states(ids)
    }

    /// Waits until `count` of the objects (0: all) are readable or their fate is known; the states
    /// at the end of the wait, also when the time has passed.
    pub fn wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<ObjectState>> {
        wait(self.here()?, ids, count, Until::timeout(timeout), false)
    }

    /// Like [`Self::wait`], but goes on waiting for objects that were deleted or evicted or whose
    /// creator died, because they may be created again.
    pub fn wait_beyond_end(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<ObjectState>> {
        wait(self.here()?, ids, count, Until::timeout(timeout), true)
    }

    /// Starts a wait for at most [`REQUEST_IDS_MAX`] objects and returns at once; an event loop
    /// watches its descriptor.
    pub fn start_wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<PendingWait> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(Error::new(Code::LimitReached, WAITING)
                .with_amounts(ids.len() as u64, REQUEST_IDS_MAX as u64)
                .with_detail("objects of one wait"));
        }
        if count > ids.len() {
            return Err(
                Error::new(Code::BadRequest, WAITING).with_amounts(count as u64, ids.len() as u64)
            );
        }
        let connection = self.here()?;
        let signal = Arc::new(Doorbell::new().map_err(|error| Error::io(WAITING, error))?);
        let request = wait_request(ids, count, Until::timeout(timeout), false);
        let number = connection.ask_later(request, Arc::clone(&signal))?;
        Ok(PendingWait::new(self.clone(), Arc::clone(connection), signal, number))
    }

    /// BLAKE3 of the object's data and metadata, computed once for each incarnation.
    pub fn digest(&self, id: &ObjectId) -> Result<[u8; 32]> {
        let buffer = self.get(id, Some(Duration::ZERO))?;
        let digests = || self.0.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let known = digests().get(&buffer.serial()).copied();
        if let Some(digest) = known {
            return Ok(digest);
        }
        let mut hasher = blake3::Hasher::new();
        // The length of the data first, so that bytes moved between the two parts change the
        // digest.
        hasher.update(&(buffer.data().len() as u64).to_le_bytes());
        hasher.update(buffer.data()).update(buffer.metadata());
        let digest = *hasher.finalize().as_bytes();
        let mut digests = digests();
        if digests.len() >= DIGESTS_MAX {
            digests.clear();
        }
        digests.insert(buffer.serial(), digest);
        Ok(digest)
    }

    /// Marks objects as recently used.
    pub fn touch(&self, ids: &[ObjectId]) -> Result<()> {
        self.here()?.touch(ids)
    }

    /// Marks objects as least recently used: where memory is short, these are evicted or spilled
    /// before all others, the first one first, unless they are used again before. Those of the pool
    /// are so on every node that has a copy; a node that is not reached is not waited for.
    pub fn demote(&self, ids: &[ObjectId]) -> Result<()> {
        let (pooled, local): (Vec<ObjectId>, Vec<ObjectId>) =
            ids.iter().copied().partition(ObjectId::is_pooled);
        self.here()?.demote(&local)?;
        pool::demote(self.socket(), &pooled)
    }
}

/// Looking around.
impl Client {
    /// A description of an object, `None` when nothing is known under the id.
    pub fn stat(&self, id: &ObjectId) -> Result<Option<ObjectInfo>> {
        self.here()?.stat(id)
    }

    /// Descriptions of the objects that the filter lets through: those of this store, or, for a
    /// namespace of the pool, those of all its nodes. Such a listing fails with
    /// [`Code::Unreachable`] when a node did not answer, and names it; [`Self::listing`] gives what
    /// the others have before that.
    pub fn list(&self, filter: &Filter) -> Result<Vec<ObjectInfo>> {
        self.listing(filter).collect()
    }

    /// The same, page by page.
    pub fn listing(&self, filter: &Filter) -> Listing {
        Listing::new(self.clone(), filter.clone())
    }

    pub(crate) fn page(
        &self,
        filter: &Filter,
        cursor: u64,
    ) -> Result<(Vec<ObjectInfo>, Option<u64>)> {
        self.here()?.page(filter, cursor)
    }

    /// The figures of the store.
    pub fn status(&self) -> Result<Status> {
        self.here()?.status()
    }

    /// Where the copies of an object of the pool are, as the directory of the pool knows it. It
    /// asks the pool daemon of this machine.
    pub fn pool_place(&self, id: &ObjectId) -> Result<ObjectPlace> {
        pool::place(self.socket(), *id)
    }

    /// The slot of this node in its pool: the home of what is put here without a name, and of names
    /// that are put [at home](plasmon_proto::Name::id_at). Waits for a store that has just started.
    /// [`Code::Unsupported`] for a store that belongs to no pool.
    pub fn pool_slot(&self) -> Result<Slot> {
        settle::home(self.here()?, "asking for this node's slot in the pool")
    }

    /// The pool that this store belongs to, as its pool daemon has seen it last.
    pub fn pool_status(&self) -> Result<PoolStatus> {
        pool::status(self.socket())
    }

    /// How far the node of this store is with taking part in its pool: whether it has joined, and
    /// which of the other nodes it is connected with.
    pub fn pool_participation(&self) -> Result<Participation> {
        pool::participation(self.socket())
    }

    /// The nodes of the pool, as the pool daemon has seen them last, in the order of their slots.
    pub fn pool_nodes(&self) -> Result<Vec<PoolNode>> {
        pool::nodes(self.socket())
    }

    /// Has all nodes of the pool compare their records with the copies that there are, which may
    /// take so long. What differs is repaired.
    pub fn pool_verify(&self, within: Duration) -> Result<Verification> {
        pool::verify(self.socket(), within)
    }

    /// The connected clients.
    pub fn clients(&self) -> Result<Vec<ClientInfo>> {
        self.here()?.clients()
    }

    /// Notifications about the objects that the filter lets through: those of this store, or, for a
    /// namespace of the pool, those of all its nodes.
    pub fn subscribe(&self, filter: &Filter) -> Result<Subscription> {
        if pool_subscription::pooled(filter).is_some() {
            // A store of no pool refuses it.
            self.page(filter, 0)?;
        }
        Subscription::open(self.0.socket.clone(), self.0.options.clone(), filter.clone())
    }

    /// Stops the daemon; for the owner of the store.
    pub fn shutdown(&self) -> Result<()> {
        self.here()?.shutdown()
    }
}
