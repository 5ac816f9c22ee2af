//! An object under construction.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;
use plasmon_proto::ring::Put;
use plasmon_shm::writer::{Span, WriteExtent};

use crate::acks::Verdict;
use crate::client::Client;
use crate::connection::Connection;
use crate::created::{abandon, abandon_carved, seal};
use crate::error::{Error, Result};
use crate::few_nodes;
use crate::mapping::keep_writers_out;
use crate::process::Process;
use crate::session::Session;
use crate::settle::settle_put;
use crate::submit::{acknowledge, submit_put};

const SEALING: &str = "sealing object";
const ABORTING: &str = "aborting object";

/// Keeps the writable mapping of an object: see [`Writer::mapping`].
#[derive(Clone, Debug)]
pub struct Mapping {
    _extent: Arc<WriteExtent>,
}

/// How the object gets sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Carved from a lease, where it has this range, announced, sealed through the ring; `awaited`
    /// if the caller chose the id and wants the verdict.
    Carved { awaited: bool, range: Range },
    /// Created and sealed through the socket, as `target`; `warm` if its pages were touched before.
    Created { warm: bool, target: ObjectId },
}

/// An object under construction: write its bytes, then seal it. Dropped unsealed, it is aborted.
///
/// It reads and writes as the object's data; the metadata follows it and is filled already.
pub struct Writer {
    store: Client,
    connection: Arc<Connection>,
    session: Arc<Session>,
    put: Put,
    origin: Origin,
    copy_threads: usize,
    /// Whether a pool is to accept the object before it counts as sealed.
    settles: bool,
    /// How many nodes of a pool are to keep it at least.
    needs: Option<u8>,
    /// `None` once it is sealed or aborted.
    span: Option<Span>,
}

impl Writer {
    pub(crate) fn new(
        store: Client,
        process: &Process,
        session: Arc<Session>,
        put: Put,
        origin: Origin,
        span: Span,
    ) -> Self {
        let (connection, copy_threads) = (Arc::clone(&process.connection), process.copy_threads());
        let (settles, needs, span) = (false, None, Some(span));
        Self { store, connection, session, put, origin, copy_threads, settles, needs, span }
    }

    /// Whether its seal waits until the pool has accepted the object.
    pub(crate) fn settling(mut self, settles: bool) -> Self {
        self.settles = settles;
        self
    }

    /// The id that the object will have.
    pub fn id(&self) -> ObjectId {
        match self.origin {
            Origin::Created { target, .. } => target,
            Origin::Carved { .. } => self.put.id,
        }
    }

    /// Where the data goes, for callers that fill it through a pointer. It stays valid until the
    /// writer is sealed, aborted or dropped.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.span.as_mut().map_or(std::ptr::null_mut(), Span::as_mut_ptr)
    }

    /// Copies bytes to a place in the data, the way a put does: large pieces with several threads,
    /// and, through the file, into pages that were never touched, which spares the faults.
    ///
    /// # Panics
    ///
    /// If they do not fit.
    pub fn copy_at(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let (data, _) = self.lengths();
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= data);
        assert!(fits, "{} bytes at {at} fit an object of {data}", bytes.len());
        self.check_held("writing an object")?;
        let Some(span) = &mut self.span else { return Ok(()) };
        if matches!(self.origin, Origin::Created { warm: false, .. }) {
            match span.write(at, &[bytes]) {
                Ok(()) => return Ok(()),
                // The memory is closed to new writers already; the mapping was made before.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(Error::io("writing an object", error)),
            }
        }
        span.fill(at, &[bytes], self.copy_threads);
        Ok(())
    }

    /// Keeps the memory mapped as it is, also after the object was sealed: for callers that have
    /// lent it out and cannot take it back. A later write through it changes the bytes that
    /// others read.
    pub fn mapping(&self) -> Option<Mapping> {
        self.span.as_ref().map(|span| Mapping { _extent: Arc::clone(span.extent()) })
    }

    /// The metadata, whose length was fixed by [`crate::PutOptions::metadata`].
    pub fn metadata_mut(&mut self) -> &mut [u8] {
        let (data, metadata) = self.lengths();
        match &mut self.span {
            Some(span) => &mut span[data..data + metadata],
            None => &mut [],
        }
    }

    /// How many nodes of a pool are to keep the object at least.
    pub(crate) fn needing(mut self, copies_min: Option<u8>) -> Self {
        self.needs = copies_min;
        self
    }

    /// Makes the object immutable and visible to all clients.
    pub fn seal(mut self) -> Result<ObjectId> {
        let (store, needs) = (self.store.clone(), self.needs);
        self.seal_whole().map_err(|error| few_nodes::explain(store.socket(), needs, error))
    }

    fn seal_whole(&mut self) -> Result<ObjectId> {
        self.connection.check_ours(SEALING, self.put.id)?;
        if let (Origin::Created { .. }, Some(span)) = (&self.origin, &self.span) {
            keep_writers_out(&self.session, span.extent())?;
        }
        // From here on there is no way to write these bytes; at level strict, no mapping either.
        drop(self.span.take());
        let Self { connection, session, put, .. } = &self;
        match self.origin {
            Origin::Created { target, .. } => {
                seal(connection, session, SEALING, put.id, target)?;
            }
            Origin::Carved { awaited, range } => {
                if !connection.is_current(session) {
                    return Err(Error::forgotten(SEALING, put.id));
                }
                let mut writing = session.writing();
                // A client that disconnects gives its leases back under this lock: what is put
                // after that, the daemon does not look at.
                connection.check_open()?;
                writing.clear_announced(&put.id);
                if !writing.leases.closed(&range) {
                    return Err(Error::forgotten(SEALING, put.id));
                }
                let position =
                    submit_put(connection, session, writing, put, Verdict::awaited_if(awaited))?;
                if awaited {
                    acknowledge(connection, session, SEALING, position, put.id)?;
                }
            }
        }
        if self.settles {
            settle_put(connection, SEALING, &[self.id()])?;
        }
        Ok(self.id())
    }

    /// Gives the object up; its memory is free again.
    pub fn abort(mut self) -> Result<()> {
        self.connection.check_ours(ABORTING, self.put.id)?;
        self.give_up();
        Ok(())
    }

    /// The store that the object goes to.
    pub fn store(&self) -> &Client {
        &self.store
    }

    /// An error if the memory is not this object's any more: the daemon that gave it is gone, and
    /// the next one does not know of it.
    fn check_held(&self, doing: &'static str) -> Result<()> {
        let Self { connection, session, put, .. } = self;
        let writing = session.writing();
        let is_held = match self.origin {
            Origin::Created { .. } => writing.is_creating(&put.id),
            Origin::Carved { range, .. } => writing.leases.is_open(&range),
        };
        drop(writing);
        if is_held && connection.is_current(session) {
            return Ok(());
        }
        Err(Error::forgotten(doing, put.id))
    }

    fn give_up(&mut self) {
        let Some(span) = self.span.take() else {
            return;
        };
        drop(span);
        let Self { connection, session, put, .. } = &*self;
        if !connection.is_current(session) {
            // The daemon that knew of it is gone, and the object with it.
            return;
        }
        match self.origin {
            Origin::Created { .. } => abandon(connection, session, put.id),
            Origin::Carved { range, .. } => abandon_carved(connection, session, put.id, range),
        }
    }

    fn lengths(&self) -> (usize, usize) {
        // Both fit the address space: the object is mapped.
        (self.put.sizes.data as usize, self.put.sizes.metadata as usize)
    }
}

impl Deref for Writer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (data, _) = self.lengths();
        self.span.as_ref().map_or(&[], |span| &span[..data])
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (data, _) = self.lengths();
        match &mut self.span {
            Some(span) => &mut span[..data],
            None => &mut [],
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("id", &self.put.id)
            .field("sizes", &self.put.sizes)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.span.is_some() && self.connection.is_ours() {
            self.give_up();
        }
    }
}
