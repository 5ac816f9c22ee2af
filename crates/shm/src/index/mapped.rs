//! A client's view of the index, which follows the daemon from table to table.
//!
//! Readers take no lock and announce nothing, so it is not known when the last one has left an old
//! table. Its address range is therefore never given up while the index lives: a new table is
//! mapped *over* the old one, which the kernel does in one step, or, when it is too large for the
//! range, the old range is mapped over with zeroes. In either case a reader who is still there
//! finds slots that do not belong to the table whose number it read, sees this when it compares
//! that number with the control page after claiming its pin, and starts again. Old tables cost
//! address space, but no memory, and as each range has room for several times its first table,
//! there are few of them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_proto::ObjectId;
use plasmon_proto::message::SlotPlace;

use super::header::{HEADER_BYTES, Header, not_a_table, slot_count};
use crate::control::ControlReader;
use crate::ledger::{Ledger, TooManyPins};
use crate::lookup::Lookup;
use crate::map::{Populate, ReadMap, Region, Shared};
use crate::memfd::Memfd;
use crate::slot::{HashKey, SLOT_BYTES, Slot};
use crate::table::{self, CurrentTable};

/// How many times its first table fits a range: seven growths by a quarter.
const ROOM: u64 = 5;

/// One table as readers see it, in one cache line. Never changed after it was published.
#[derive(Debug)]
#[repr(align(64))]
struct Table {
    base: *const Slot,
    slots: usize,
    number: u64,
    key: HashKey,
}

/// The ranges and tables so far; the last of each is the current one.
#[derive(Debug, Default)]
struct Tables {
    regions: Vec<Region>,
    /// Boxed one by one, because readers hold their addresses. A cache line for each growth.
    #[expect(clippy::vec_box, reason = "readers hold the addresses while the vector moves")]
    tables: Vec<Box<Table>>,
}

/// A client's view of the index.
#[derive(Debug)]
pub struct IndexReader {
    current: AtomicPtr<Table>,
    kept: Mutex<Tables>,
}

// SAFETY: the raw pointers in `Table` point into the regions of the same struct, which belong to no
// thread and are only read as atomics.
unsafe impl Send for IndexReader {}
// SAFETY: as above; `kept` is behind a lock.
unsafe impl Sync for IndexReader {}

impl IndexReader {
    /// Maps table `number`, which has `slots` slots, read-only and with its pages present.
    pub fn new(fd: OwnedFd, number: u64, slots: u64) -> io::Result<Self> {
        let index = Self { current: AtomicPtr::new(std::ptr::null_mut()), kept: Mutex::default() };
        index.switch(fd, number, slots)?;
        Ok(index)
    }

    /// Moves to another table, which the control page already names, while other threads read.
    pub fn switch(&self, fd: OwnedFd, number: u64, slots: u64) -> io::Result<()> {
        let memfd = Memfd::adopt(fd)?;
        let slots = slot_count(memfd.bytes(), slots)?;
        let key = read_key(&memfd, slots as u64)?;
        let mut kept = self.lock();
        // A smaller table must not be mapped over a larger one: a reader who still counts the slots
        // of the larger would run beyond it.
        let previous = kept.tables.last().map_or(0, |table| table.slots);
        let bytes = HEADER_BYTES + slots as u64 * SLOT_BYTES;
        let in_place =
            slots >= previous && kept.regions.last().is_some_and(|region| bytes <= region.bytes());
        if !in_place {
            let fresh = Region::reserve(bytes.saturating_mul(ROOM))?;
            kept.regions.push(fresh);
        }
        let Tables { regions, tables } = &mut *kept;
        let Some((region, old)) = regions.split_last_mut() else {
            unreachable!("a region was pushed if there was none")
        };
        region.map_over(&memfd, bytes)?;
        let base = region.base().wrapping_add(HEADER_BYTES as usize).cast::<Slot>();
        tables.push(Box::new(Table { base, slots, number, key }));
        if let Some(table) = tables.last() {
            // Pairs with the acquire in `table`: a thread that sees the table sees its memory
            // mapped.
            self.current.store(std::ptr::from_ref::<Table>(table).cast_mut(), Ordering::Release);
        }
        if !in_place && let Some(region) = old.last_mut() {
            region.empty()?;
        }
        Ok(())
    }

    /// The number of the table.
    pub fn number(&self) -> u64 {
        self.table().number
    }

    /// Finds and pins an object: no system call, no lock, no message.
    #[inline]
    pub(crate) fn get(
        &self,
        id: &ObjectId,
        control: &ControlReader,
        ledger: &Ledger<'_>,
    ) -> Result<Lookup, TooManyPins> {
        let table = self.table();
        let current = CurrentTable { word: control.table_word(), number: table.number };
        table.view().get(id, current, ledger)
    }

    /// Pins an object in the slot that the daemon named, of the table that it named.
    pub(crate) fn get_at(
        &self,
        place: SlotPlace,
        id: &ObjectId,
        control: &ControlReader,
        ledger: &Ledger<'_>,
    ) -> Result<Lookup, TooManyPins> {
        let table = self.table();
        if place.table != table.number {
            return Ok(Lookup::TableChanged);
        }
        let current = CurrentTable { word: control.table_word(), number: table.number };
        table.view().get_at(place.slot as usize, id, current, ledger)
    }

    /// Whether the table lists the object now, without pinning it; `None` when the daemon moved to
    /// another table.
    pub(crate) fn contains(&self, id: &ObjectId, control: &ControlReader) -> Option<bool> {
        let table = self.table();
        let found = table.view().contains(id);
        (control.table() == table.number).then_some(found)
    }

    #[inline]
    pub(crate) fn prefetch(&self, id: &ObjectId) {
        self.table().view().prefetch(id);
    }

    #[inline]
    fn table(&self) -> &Table {
        // SAFETY: `new` published a table before any thread could call this, and the boxes that the
        // pointer ever pointed to are kept as long as `self`.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    #[inline]
    fn view(&self) -> table::Table<'_> {
        table::Table { slots: self.slots(), key: &self.key }
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        const { assert_shared::<Slot>() };
        // SAFETY: at `base`, after the header, a region has at least this many slots, which stay
        // readable (of this table, a later one, or zeroes) as long as the `IndexReader` that hands
        // out `&self`.
        unsafe { std::slice::from_raw_parts(self.base, self.slots) }
    }
}

/// Only what is made of atomics may be looked at in a region.
const fn assert_shared<T: Shared>() {}

/// The key in the header of a table with this many slots.
fn read_key(memfd: &Memfd, slots: u64) -> io::Result<HashKey> {
    let map = ReadMap::new(memfd, HEADER_BYTES, Populate::No)?;
    let header = Header(map.shared(0, Header::WORDS)).read();
    let key = header.and_then(|(count, key)| (count == slots).then_some(key));
    key.ok_or_else(|| not_a_table(memfd.bytes(), slots))
}
