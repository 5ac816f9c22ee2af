//! Pinned objects: bytes that stay where they are for as long as they are in use.
//!
//! A [`PinnedBuffer`] borrows the store and is the cheapest way to read; a [`Buffer`] owns what it
//! needs and can be kept anywhere. Neither releases anything in a process that was forked from the
//! one that made it: the pin belongs to the parent, and so does the memory, which such a process
//! does not see.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use plasmon_proto::object::Policy;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::counted_view::CountedView;
use plasmon_shm::fork;
use plasmon_shm::reader::{OwnedView, Reader, View};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};

/// An object pinned for as long as the store is borrowed.
pub struct PinnedBuffer<'a> {
    /// `None` only while it is dropped.
    view: Option<View<'a>>,
    fork: u64,
}

impl<'a> PinnedBuffer<'a> {
    #[inline]
    pub(crate) fn new(view: View<'a>, fork: u64) -> Self {
        Self { view: Some(view), fork }
    }

    #[inline]
    fn view(&self) -> &View<'a> {
        match &self.view {
            Some(view) => view,
            None => unreachable!("the view is taken only by drop"),
        }
    }

    /// The object's data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.view().data()
    }

    /// The object's metadata.
    #[inline]
    pub fn metadata(&self) -> &[u8] {
        self.view().metadata()
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        self.view().image().id
    }

    /// What kind of value the bytes hold: see [`crate::tag`].
    pub fn tag(&self) -> u8 {
        self.view().image().meta.traits.tag
    }

    /// The number of this incarnation of the object, never used again.
    pub fn serial(&self) -> u64 {
        self.view().image().serial
    }

    /// When it was created, in milliseconds since 1970.
    pub fn created_ms(&self) -> u64 {
        self.view().image().meta.created_ms
    }

    /// What the store may do with it when memory is short.
    pub fn policy(&self) -> Policy {
        self.view().image().meta.traits.policy
    }
}

impl Deref for PinnedBuffer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl fmt::Debug for PinnedBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "PinnedBuffer", self.id(), self.data(), self.metadata())
    }
}

impl Drop for PinnedBuffer<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.fork != fork::generation() {
            mem::forget(self.view.take());
        }
    }
}

/// An object pinned by its own handle. Clones share one pin, and the last one releases it.
///
/// It keeps its connection, so that a store that ends with its last client outlives its buffers.
#[derive(Clone)]
pub struct Buffer(Arc<BufferInner>);

struct BufferInner {
    /// `None` only while it is dropped.
    body: Option<Body>,
    fork: u64,
    /// Whether the release counts as use.
    touches: bool,
    store: Client,
}

enum Body {
    /// Pinned in the ledger.
    Ledger(OwnedView<Arc<Reader>>),
    /// Pinned by the daemon's own count.
    Counted(CountedView<CountedPin>),
}

/// A pin that the daemon counts. Dropped, it tells the daemon.
#[derive(Debug)]
pub(crate) struct CountedPin {
    pub(crate) connection: Arc<Connection>,
    pub(crate) session: u64,
    pub(crate) serial: u64,
    pub(crate) id: ObjectId,
}

impl Drop for CountedPin {
    fn drop(&mut self) {
        // A later connection has later pins; those of this one ended with it.
        if self.connection.is_ours() && self.connection.session().number == self.session {
            self.connection.take_back(|requests| requests.release(self.serial));
        }
    }
}

impl Buffer {
    pub(crate) fn in_ledger(
        view: OwnedView<Arc<Reader>>,
        connection: &Connection,
        store: Client,
    ) -> Self {
        let (fork, touches) = (connection.fork(), connection.is_exact());
        Self(Arc::new(BufferInner { body: Some(Body::Ledger(view)), fork, touches, store }))
    }

    pub(crate) fn counted(
        view: CountedView<CountedPin>,
        connection: &Connection,
        store: Client,
    ) -> Self {
        let body = Some(Body::Counted(view));
        // The daemon notices these releases by itself.
        Self(Arc::new(BufferInner { body, fork: connection.fork(), touches: false, store }))
    }

    /// An error in a process that was forked from the one that got this: the pin stayed there, and
    /// the memory is not mapped here. To touch it would end the process.
    pub fn check_ours(&self) -> Result<()> {
        if self.0.fork == fork::generation() {
            return Ok(());
        }
        let error = Error::new(Code::Forked, "reading an inherited buffer");
        Err(error.with_id(self.id()))
    }

    #[inline]
    fn body(&self) -> &Body {
        match &self.0.body {
            Some(body) => body,
            None => unreachable!("the body is taken only by drop"),
        }
    }

    /// The object's data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        match self.body() {
            Body::Ledger(view) => view.data(),
            Body::Counted(view) => view.data(),
        }
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &[u8] {
        match self.body() {
            Body::Ledger(view) => view.metadata(),
            Body::Counted(view) => view.metadata(),
        }
    }

    /// The object's id.
    pub fn id(&self) -> ObjectId {
        match self.body() {
            Body::Ledger(view) => view.image().id,
            Body::Counted(view) => view.guard().id,
        }
    }

    /// What kind of value the bytes hold: see [`crate::tag`].
    pub fn tag(&self) -> u8 {
        match self.body() {
            Body::Ledger(view) => view.image().meta.traits.tag,
            Body::Counted(view) => view.location().traits.tag,
        }
    }

    /// The number of this incarnation of the object, never used again.
    pub fn serial(&self) -> u64 {
        match self.body() {
            Body::Ledger(view) => view.image().serial,
            Body::Counted(view) => view.location().serial,
        }
    }

    /// What the store may do with it when memory is short.
    pub fn policy(&self) -> Policy {
        match self.body() {
            Body::Ledger(view) => view.image().meta.traits.policy,
            Body::Counted(view) => view.location().traits.policy,
        }
    }

    /// The store that the object is in.
    pub fn store(&self) -> &Client {
        &self.0.store
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.data()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "Buffer", self.id(), self.data(), self.metadata())
    }
}

impl Drop for BufferInner {
    fn drop(&mut self) {
        if self.fork != fork::generation() {
            mem::forget(self.body.take());
        } else if let Some(Body::Ledger(view)) = self.body.as_ref().filter(|_| self.touches) {
            view.reader().touch(view.record());
        }
    }
}

fn describe(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    id: ObjectId,
    data: &[u8],
    metadata: &[u8],
) -> fmt::Result {
    f.debug_struct(what)
        .field("id", &id)
        .field("data_bytes", &data.len())
        .field("metadata_bytes", &metadata.len())
        .finish()
}
