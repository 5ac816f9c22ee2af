//! The store as a caller sees it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plasmon_proto::message::{Access, ClientInfo, Filter, Status};
use plasmon_proto::object::{Level, ObjectInfo, ObjectState};
use plasmon_proto::{Code, Name, ObjectId};

use crate::buffer::{Buffer, Pinned};
use crate::error::{Error, Result};
use crate::options::{ConnectOptions, PutOptions, StartOptions};
use crate::pending::PendingWait;
use crate::subscription::Subscription;
use crate::writer::Writer;

pub use plasmon_proto::message::PROTOCOL_VERSION;

/// A connection to a store, shared by all threads of a process; clones are the same connection.
#[derive(Clone, Debug)]
pub struct Store(Arc<()>);

impl Store {
    /// Connects to a running store.
    pub fn connect(options: &ConnectOptions) -> Result<Self> {
        let _ = (options,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Connects to the running store of this user, or starts one that ends with its last client.
    pub fn connect_or_start(options: &ConnectOptions, start: &StartOptions) -> Result<Self> {
        let _ = (options, start);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// The socket of the store.
    pub fn socket(&self) -> &Path {
        Path::new("")
    }

    /// How many bytes of objects the store holds.
    pub fn capacity_bytes(&self) -> u64 {
        0
    }

    /// How sealed objects are protected.
    pub fn level(&self) -> Level {
        Level::Shared
    }

    /// What this client may do.
    pub fn access(&self) -> Access {
        Access::ReadOnly
    }

    /// How often the store's daemon was started, as of the present connection.
    pub fn epoch(&self) -> u64 {
        0
    }

    /// A new id that nobody else makes.
    pub fn new_id(&self) -> ObjectId {
        ObjectId::new([0; 20])
    }

    /// Copies `data` into a new object. Without an id or a name of the caller's it returns as soon as
    /// the object is on its way and cannot clash; with one it returns when the store has accepted it.
    pub fn put(&self, data: &[u8], options: &PutOptions) -> Result<ObjectId> {
        let _ = (data, options);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Like [`Self::put`], with the data gathered from several parts: one copy, no intermediate.
    pub fn put_parts(&self, data: &[&[u8]], options: &PutOptions) -> Result<ObjectId> {
        let _ = (data, options);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Many puts with one acknowledgement for those that need it. `options` give what they share; its
    /// id and name must be absent.
    pub fn put_many(
        &self,
        objects: &[(Option<ObjectId>, &[u8])],
        options: &PutOptions,
    ) -> Result<Vec<ObjectId>> {
        let _ = (objects, options);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Reserves an object for writing in place. The metadata is `options.metadata`, and may be
    /// overwritten with the same length.
    pub fn create(&self, data_bytes: u64, options: &PutOptions) -> Result<Writer> {
        let _ = (data_bytes, options);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Returns when everything submitted so far is applied; reports what was refused meanwhile.
    pub fn flush(&self) -> Result<()> {
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// The object, if it is sealed and in memory and this client has met its memory before or can map
    /// it at once. The hot path: no system call, no allocation, no reference count.
    pub fn get_now<'a>(&'a self, id: &ObjectId) -> Option<Pinned<'a>> {
        let _ = (id,);
        None
    }

    /// The object, waiting for it to be sealed; no timeout waits for ever, zero does not wait.
    pub fn get(&self, id: &ObjectId, timeout: Option<Duration>) -> Result<Buffer> {
        let _ = (id, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// The object of this name.
    pub fn get_named(&self, name: &Name, timeout: Option<Duration>) -> Result<Buffer> {
        let _ = (name, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Many objects with one timeout for all of them; each has a result of its own.
    pub fn get_many(
        &self,
        ids: &[ObjectId],
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<Buffer>>> {
        let _ = (ids, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Whether the object is sealed, in memory or spilled.
    pub fn contains(&self, id: &ObjectId) -> Result<bool> {
        let _ = (id,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Where objects are in their lives.
    pub fn states(&self, ids: &[ObjectId]) -> Result<Vec<ObjectState>> {
        let _ = (ids,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Waits until `count` of the objects (0: all) are readable or their fate is known; the states at
    /// the end of the wait, also when the time has passed.
    pub fn wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<ObjectState>> {
        let _ = (ids, count, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Like [`Self::wait`], but goes on waiting for objects that were deleted or evicted or whose
    /// creator died, because somebody may create them again.
    pub fn wait_beyond_end(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<ObjectState>> {
        let _ = (ids, count, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Starts a wait and returns at once; an event loop watches its descriptor.
    pub fn start_wait(
        &self,
        ids: &[ObjectId],
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<PendingWait> {
        let _ = (ids, count, timeout);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Deletes objects; one code for each, `None` for success. What somebody reads disappears from
    /// sight now and from memory with its last pin.
    pub fn delete(&self, ids: &[ObjectId]) -> Result<Vec<Option<Code>>> {
        let _ = (ids,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Deletes an object without waiting for the answer; a refusal is reported by a later call.
    pub fn delete_soon(&self, id: &ObjectId) -> Result<()> {
        let _ = (id,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Evicts objects with policy cache until so many bytes are free; bytes and objects evicted.
    pub fn evict(&self, bytes: u64) -> Result<(u64, u64)> {
        let _ = (bytes,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Marks objects as recently used.
    pub fn touch(&self, ids: &[ObjectId]) -> Result<()> {
        let _ = (ids,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// A description of an object, `None` when nothing is known under the id.
    pub fn stat(&self, id: &ObjectId) -> Result<Option<ObjectInfo>> {
        let _ = (id,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Descriptions of the objects that the filter lets through.
    pub fn list(&self, filter: &Filter) -> Result<Vec<ObjectInfo>> {
        let _ = (filter,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// The figures of the store.
    pub fn status(&self) -> Result<Status> {
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// The connected clients.
    pub fn clients(&self) -> Result<Vec<ClientInfo>> {
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Notifications about the objects that the filter lets through.
    pub fn subscribe(&self, filter: &Filter) -> Result<Subscription> {
        let _ = (filter,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// BLAKE3 of the object's data and metadata, computed once for each incarnation.
    pub fn digest(&self, id: &ObjectId) -> Result<[u8; 32]> {
        let _ = (id,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Limits the bytes that this client may own; 0 for no limit.
    pub fn set_quota(&self, bytes: u64) -> Result<()> {
        let _ = (bytes,);
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Stops the daemon; for the owner of the store.
    pub fn shutdown(&self) -> Result<()> {
        Err(Error::new(Code::Unsupported, "coming in minutes"))
    }

    /// Ends the connection now: leases go back, waits end, later calls fail. Buffers stay readable.
    pub fn disconnect(&self) {
        let _ = &self.0;
    }
}
