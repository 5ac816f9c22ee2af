//! The mappings of a client, and objects read in place.
//!
//! [`Reader`] joins the control page, the index, the client's channel and its extents, and is the
//! safe interface to them: a [`View`] or [`OwnedView`] keeps a pin for as long as the bytes can be
//! looked at, and releases it when dropped.
//!
//! Why a view may hand out `&[u8]` of memory that another process wrote: the object is sealed, so
//! its writer does not touch it any more; it is pinned, so the daemon does not reuse its memory;
//! and its pages belong to a memfd that cannot be shrunk. A store of level `shared` trusts
//! its writers for the first of these (they are the same user), the other levels have the kernel
//! for it.

use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::Arc;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::SlotPlace;
use plasmon_proto::ring::Completion;

use crate::channel::ChannelClient;
use crate::control::ControlReader;
use crate::extents::ExtentTable;
use crate::index::IndexReader;
use crate::ledger::TooManyPins;
use crate::lookup::{Lookup, Pin};
use crate::map::ReadMap;
use crate::slot::SlotImage;

/// What a client has mapped of a store.
#[derive(Debug)]
pub struct Reader {
    control: ControlReader,
    index: IndexReader,
    channel: ChannelClient,
    extents: ExtentTable,
}

/// What a look for an object ended in.
#[derive(Debug)]
pub enum ReadOutcome<'a> {
    /// The object, pinned and readable.
    Object(View<'a>),
    /// The object is pinned, but its extent is not mapped here yet: fetch it over the socket, give
    /// it to [`Reader::map_extent`], then call [`UnmappedPin::view`].
    Unmapped(UnmappedPin<'a>),
    /// The index does not have it now; ask the daemon.
    Missing,
    /// The daemon moved to another index table: fetch it, give it to [`IndexReader::switch`], and
    /// look again.
    TableChanged,
    /// The daemon closed this connection, and may not know any more what is pinned through it:
    /// ask it anything, which brings the client back, and look again.
    Parted,
}

impl Reader {
    /// Joins what the daemon passed.
    pub fn new(
        control: ControlReader,
        index: IndexReader,
        channel: ChannelClient,
    ) -> io::Result<Self> {
        Ok(Self { control, index, channel, extents: ExtentTable::new()? })
    }

    /// The control page.
    pub fn control(&self) -> &ControlReader {
        &self.control
    }

    /// The index.
    pub fn index(&self) -> &IndexReader {
        &self.index
    }

    /// The channel.
    pub fn channel(&self) -> &ChannelClient {
        &self.channel
    }

    /// Finds and pins an object. The hot path: no system call, no lock, no allocation.
    #[inline]
    pub fn get(&self, id: &ObjectId) -> Result<ReadOutcome<'_>, TooManyPins> {
        let lookup = self.index.get(id, &self.control, &self.channel.ledger())?;
        Ok(self.found(lookup))
    }

    /// Pins an object in a slot that the daemon named: one that lies too far from where ids like
    /// its own belong for [`Self::get`] to find it.
    pub fn get_at(&self, place: SlotPlace, id: &ObjectId) -> Result<ReadOutcome<'_>, TooManyPins> {
        let lookup = self.index.get_at(place, id, &self.control, &self.channel.ledger())?;
        Ok(self.found(lookup))
    }

    #[inline]
    fn found(&self, lookup: Lookup) -> ReadOutcome<'_> {
        match lookup {
            Lookup::Pinned(pin) if self.channel.is_parted() => {
                self.channel.ledger().release(pin.entry());
                ReadOutcome::Parted
            }
            Lookup::Pinned(pin) => match self.start_of(&pin) {
                Some(start) => ReadOutcome::Object(View::new(self, pin, start)),
                None => ReadOutcome::Unmapped(UnmappedPin { reader: self, pin }),
            },
            Lookup::Missing => ReadOutcome::Missing,
            Lookup::TableChanged => ReadOutcome::TableChanged,
        }
    }

    /// Starts to load what [`Self::get`] of this object will want. Called for many ids first, it
    /// lets all of them wait for memory once.
    #[inline]
    pub fn prefetch(&self, id: &ObjectId) {
        self.index.prefetch(id);
    }

    /// [`Self::get`] for when it finds the object and its extent is mapped, and `None` otherwise:
    /// with one outcome to carry it takes half the time.
    #[inline]
    pub fn get_mapped(&self, id: &ObjectId) -> Option<View<'_>> {
        let found = self.index.get(id, &self.control, &self.channel.ledger());
        let Ok(Lookup::Pinned(pin)) = found else {
            return None;
        };
        match self.start_of(&pin) {
            Some(start) if !self.channel.is_parted() => Some(View::new(self, pin, start)),
            _ => {
                self.channel.ledger().release(pin.entry());
                None
            }
        }
    }

    /// The first byte of a pinned object; `None` when its extent is not mapped, or the object does
    /// not lie within the mapping.
    #[inline]
    fn start_of(&self, pin: &Pin) -> Option<*const u8> {
        let words = &pin.words;
        let mapped = self.extents.lookup(words.extent())?;
        let within = mapped.contains(words.offset(), words.data() + words.metadata());
        let start = mapped.base.wrapping_add(words.offset()) as usize;
        within.then(|| ptr::with_exposed_provenance(start))
    }

    /// Whether the index lists the object now, without pinning it; `None` when the daemon moved to
    /// another index table.
    pub fn contains(&self, id: &ObjectId) -> Option<bool> {
        self.index.contains(id, &self.control)
    }

    /// Tells the daemon's eviction clock that the object with this record number was read.
    #[inline]
    pub fn touch(&self, record: u32) {
        self.channel.touch(record);
    }

    /// Keeps a read-only mapping of an extent, which the daemon passed. An error when it is not
    /// what was mapped of this extent before.
    pub fn map_extent(&self, extent: ExtentId, map: ReadMap) -> io::Result<()> {
        self.extents.insert(extent, map)
    }

    /// Whether the extent is mapped.
    pub fn has_extent(&self, extent: ExtentId) -> bool {
        self.extents.lookup(extent).is_some()
    }

    /// How many extents are mapped.
    pub fn extents(&self) -> usize {
        self.extents.count()
    }

    /// Unmaps every extent that the daemon does not have any more: for a client that may have
    /// missed an [`Completion::ExtentGone`].
    pub fn forget_gone(&self) {
        self.extents.retain(|extent| self.control.has_extent(extent));
    }

    /// The daemon's next completion. An extent that it dropped is unmapped here already.
    pub fn next_completion(&self) -> Option<Completion> {
        let completion = self.channel.next_completion()?;
        if let Completion::ExtentGone(extent) = completion {
            self.extents.remove(extent);
        }
        Some(completion)
    }
}

/// A pinned object whose extent may not be mapped yet.
#[derive(Debug)]
pub struct UnmappedPin<'a> {
    reader: &'a Reader,
    pin: Pin,
}

impl<'a> UnmappedPin<'a> {
    /// What the index says about the object.
    pub fn image(&self) -> SlotImage {
        self.pin.words.image()
    }

    /// The object, or itself again while the extent is not mapped or the object not within it.
    #[inline]
    pub fn view(self) -> Result<View<'a>, Self> {
        match self.reader.start_of(&self.pin) {
            Some(start) => {
                let held = ManuallyDrop::new(self);
                Ok(View::new(held.reader, held.pin, start))
            }
            None => Err(self),
        }
    }
}

impl Drop for UnmappedPin<'_> {
    fn drop(&mut self) {
        self.reader.channel.ledger().release(self.pin.entry());
    }
}

/// A pinned object, which keeps its reader through a handle.
#[derive(Debug)]
pub struct ViewWithReader<R: Deref<Target = Reader>> {
    reader: R,
    pin: Pin,
    start: *const u8,
}

/// A pinned object, for as long as the reader is borrowed.
pub type View<'a> = ViewWithReader<&'a Reader>;

/// A pinned object that keeps its reader itself.
pub type OwnedView<R = Arc<Reader>> = ViewWithReader<R>;

// SAFETY: a view reads immutable bytes through its pointer, and the pin is released by an atomic
// store, from whichever thread; the handle itself must be fit for it.
unsafe impl<R: Deref<Target = Reader> + Send> Send for ViewWithReader<R> {}
// SAFETY: as above.
unsafe impl<R: Deref<Target = Reader> + Sync> Sync for ViewWithReader<R> {}

impl<'a> View<'a> {
    /// The object of a pin that no other thread releases, whose bytes begin at `start`.
    #[inline]
    fn new(reader: &'a Reader, pin: Pin, start: *const u8) -> Self {
        Self { reader, pin, start }
    }

    /// The same object, for as long as the handle lives: the pin moves to it.
    ///
    /// # Panics
    ///
    /// If `owner` does not hold the reader that the view came from.
    pub fn into_owned<R: Deref<Target = Reader>>(self, owner: R) -> OwnedView<R> {
        assert!(std::ptr::eq(self.reader, &*owner), "the handle keeps the view's own reader");
        let view = ManuallyDrop::new(self);
        ViewWithReader { reader: owner, pin: view.pin, start: view.start }
    }
}

impl<R: Deref<Target = Reader>> ViewWithReader<R> {
    /// The object's data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: see `bytes_of`: the view holds the pin.
        unsafe { bytes_of(self.start, 0, self.pin.words.data()) }
    }

    /// The object's metadata.
    #[inline]
    pub fn metadata(&self) -> &[u8] {
        // SAFETY: see `bytes_of`: the view holds the pin.
        unsafe { bytes_of(self.start, self.pin.words.data(), self.pin.words.metadata()) }
    }

    /// The object's data and metadata, which follow each other.
    pub fn content(&self) -> &[u8] {
        let words = &self.pin.words;
        // SAFETY: see `bytes_of`: the view holds the pin.
        unsafe { bytes_of(self.start, 0, words.data() + words.metadata()) }
    }

    /// The object's encoded attributes; `None` when they do not lie within its mapping.
    pub fn attributes(&self) -> Option<&[u8]> {
        let words = &self.pin.words;
        let (at, bytes) = (words.data() + words.metadata(), words.image().meta.sizes.attributes);
        let mapped = self.reader.extents.lookup(words.extent())?;
        if !mapped.contains(words.offset(), at + bytes) {
            return None;
        }
        // SAFETY: see `bytes_of`: the view holds the pin, and with it the extent that is mapped;
        // the attributes lie within it.
        Some(unsafe { bytes_of(self.start, at, bytes) })
    }

    /// What the index says about the object.
    #[inline]
    pub fn image(&self) -> SlotImage {
        self.pin.words.image()
    }

    /// The daemon's number for the object, for [`Reader::touch`].
    #[inline]
    pub fn record(&self) -> u32 {
        self.pin.words.record()
    }

    /// The handle.
    pub fn reader(&self) -> &R {
        &self.reader
    }
}

impl<R: Deref<Target = Reader>> Drop for ViewWithReader<R> {
    #[inline]
    fn drop(&mut self) {
        self.reader.channel.ledger().release(self.pin.entry());
    }
}

/// A part of a pinned object.
///
/// # Safety
///
/// The caller holds a pin on the object that starts at `start` and has these parts, for as long as
/// the slice lives. `Reader::start_of` has checked that the object lies within its mapping; the
/// module comment says why it does not change.
#[inline(always)]
unsafe fn bytes_of<'a>(start: *const u8, offset: u64, bytes: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start.add(offset as usize), bytes as usize) }
}

#[cfg(test)]
mod tests;
