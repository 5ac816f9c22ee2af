//! The control page: what every client looks at and only the daemon writes.
//!
//! One page with the number of the current index table and the doorbell's flag, followed by a
//! sparse registry of extents, and notes about files of the spill tier. A restarted daemon reads
//! it, and a client that missed what the daemon told it.

mod void_files;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::limits::EXTENTS_MAX;
use plasmon_proto::pool::Slot;
use rustix::fs::SeekFrom;

pub use self::void_files::VoidFiles;
use crate::map::{Populate, ReadMap, WriteMap};
use crate::memfd::Memfd;
use crate::sleep_flag;
use crate::table;

const MAGIC: u64 = u64::from_le_bytes(*b"PLSMCTL1");
const PAGE_BYTES: u64 = 4096;
const REGISTRY_ENTRY_BYTES: u64 = 32;

/// Where the notes about files of the spill tier begin.
const VOID_AT: u64 = PAGE_BYTES + REGISTRY_ENTRY_BYTES * EXTENTS_MAX as u64;

/// Bytes of a control memfd.
pub const CONTROL_BYTES: u64 = VOID_AT + 8 * VoidFiles::WORDS as u64;

const MAGIC_AT: usize = 0;
const EPOCH_AT: usize = 8;
const SERIALS_AT: usize = 16;
const BIRTHS_AT: usize = 24;
const RESERVING_AT: usize = 32;
const KILLS_AT: usize = 40;
const LEAVING_AT: usize = 48;
const HOME_AT: usize = 56;
const TABLE_AT: usize = 64;
const SLEEPING_AT: usize = 128;

/// The slot of this node in its pool, as the page has it: one more, and 0 for none.
fn home_of(word: u64) -> Option<Slot> {
    word.checked_sub(1).and_then(|slot| u16::try_from(slot).ok()).map(Slot)
}

fn not_control() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the descriptor is not the control memfd of a store")
}

/// The daemon's side.
#[derive(Debug)]
pub struct ControlDaemon {
    memfd: Memfd,
    map: WriteMap,
    /// The number of the next sleep.
    sleep: AtomicU32,
}

impl ControlDaemon {
    /// The control memfd of a new store, in its first epoch.
    pub fn create() -> io::Result<Self> {
        let memfd = Memfd::create("plasmon-control", CONTROL_BYTES)?;
        memfd.reserve(0, PAGE_BYTES)?;
        memfd.reserve(VOID_AT, PAGE_BYTES)?;
        let control = Self::map(memfd)?;
        control.word(SERIALS_AT).store(1, Ordering::Relaxed);
        control.word(BIRTHS_AT).store(1, Ordering::Relaxed);
        control.word(EPOCH_AT).store(1, Ordering::Relaxed);
        control.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(control)
    }

    /// Takes over the control memfd of a daemon that died, in the next epoch.
    pub fn adopt(memfd: Memfd) -> io::Result<Self> {
        let control = Self::map(memfd)?;
        if control.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC {
            return Err(not_control());
        }
        control.word(EPOCH_AT).fetch_add(1, Ordering::AcqRel);
        control.set_sleeping(false);
        Ok(control)
    }

    fn map(memfd: Memfd) -> io::Result<Self> {
        if memfd.bytes() != CONTROL_BYTES {
            return Err(not_control());
        }
        let map = WriteMap::new(&memfd, CONTROL_BYTES, Populate::No)?;
        Ok(Self { memfd, map, sleep: AtomicU32::new(1) })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.map.shared(offset, 1)[0]
    }

    fn half_word(&self, offset: usize) -> &AtomicU32 {
        &self.map.shared(offset, 1)[0]
    }

    /// The memfd.
    pub fn memfd(&self) -> &Memfd {
        &self.memfd
    }

    /// How often a daemon was started on this store.
    pub fn epoch(&self) -> u64 {
        self.word(EPOCH_AT).load(Ordering::Acquire)
    }

    /// Takes `count` serials that no daemon of this store has used or will use; returns the first.
    pub fn take_serials(&self, count: u64) -> u64 {
        self.word(SERIALS_AT).fetch_add(count, Ordering::AcqRel)
    }

    /// The first birth number of an extent that no daemon of this store has used.
    pub fn births(&self) -> u64 {
        self.word(BIRTHS_AT).load(Ordering::Acquire)
    }

    /// Writes down that the extent is being made, before any other process learns of it: no later
    /// daemon gives its birth number again.
    pub fn note_birth(&self, extent: ExtentId) {
        self.word(BIRTHS_AT).fetch_max(extent.birth() + 1, Ordering::AcqRel);
    }

    /// Writes down how many bytes of fresh memory the daemon is about to ask the kernel for.
    pub fn set_reserving(&self, bytes: u64) {
        self.word(RESERVING_AT).store(bytes, Ordering::Release);
    }

    /// Writes down how many processes the kernel has killed for lack of memory so far. Returns what
    /// the daemon before this one wrote down, and how many bytes it was asking for when it ended.
    pub fn take_stock(&self, kills: u64) -> (u64, u64) {
        let before = self.word(KILLS_AT).swap(kills, Ordering::AcqRel);
        (before, self.word(RESERVING_AT).swap(0, Ordering::AcqRel))
    }

    /// Writes down which incarnation is about to be hidden without being deleted, or that none is.
    /// The hiding comes after it, and what follows it before.
    pub fn set_leaving(&self, serial: Option<u64>) {
        self.word(LEAVING_AT).store(serial.unwrap_or(0), Ordering::SeqCst);
    }

    /// Which incarnation was written down last.
    pub fn leaving(&self) -> Option<u64> {
        Some(self.word(LEAVING_AT).load(Ordering::Acquire)).filter(|serial| *serial != 0)
    }

    /// Writes down which node of its pool the store is, for clients that make ids with this home;
    /// `None` until its pool daemon has said so. Outlives the daemon.
    pub fn set_home(&self, slot: Option<Slot>) {
        let word = slot.map_or(0, |slot| u64::from(slot.0) + 1);
        self.word(HOME_AT).store(word, Ordering::Release);
    }

    /// Which node was written down last.
    pub fn home(&self) -> Option<Slot> {
        home_of(self.word(HOME_AT).load(Ordering::Acquire))
    }

    /// The incarnations whose files count for nothing.
    pub fn void_files(&self) -> VoidFiles<'_> {
        VoidFiles::new(self.map.shared(VOID_AT as usize, VoidFiles::WORDS))
    }

    /// The number of the current index table.
    pub fn table(&self) -> u64 {
        self.word(TABLE_AT).load(Ordering::Acquire)
    }

    /// Makes index table `number` the current one. It is complete, and the one before it is never
    /// written again.
    pub fn set_table(&self, number: u64) {
        table::announce(self.word(TABLE_AT), number);
    }

    /// Before sleeping: says so. Look at every ring once more after `set_sleeping(true)`.
    pub fn set_sleeping(&self, sleeping: bool) {
        let flag = self.half_word(SLEEPING_AT);
        if sleeping {
            // Odd, and so never 0, whenever it wraps.
            sleep_flag::prepare_to_sleep(flag, self.sleep.fetch_add(2, Ordering::Relaxed));
        } else {
            sleep_flag::stay_awake(flag);
        }
    }

    fn entry(&self, extent: ExtentId) -> &[AtomicU64] {
        let offset = PAGE_BYTES + REGISTRY_ENTRY_BYTES * extent.index() as u64;
        self.map.shared(offset as usize, 4)
    }

    fn registry(&self, extent: ExtentId) -> (&AtomicU64, &AtomicU64) {
        let words = self.entry(extent);
        (&words[0], &words[1])
    }

    /// Writes down what of an extent is in its writer's hands. A daemon that dies in between leaves
    /// more than that, never less.
    pub fn set_lent(&self, lent: &Range) {
        let [_, _, from, until] = self.entry(lent.extent) else { return };
        let (start, end) = (lent.offset, lent.offset.saturating_add(lent.bytes));
        from.fetch_min(start, Ordering::AcqRel);
        until.fetch_max(end, Ordering::AcqRel);
        from.store(start, Ordering::Release);
        until.store(end, Ordering::Release);
    }

    /// What of an extent is in its writer's hands.
    pub fn lent(&self, extent: ExtentId) -> Range {
        let words = self.entry(extent);
        let [from, until] = [2, 3].map(|word: usize| words[word].load(Ordering::Acquire));
        Range { extent, offset: from, bytes: until.saturating_sub(from) }
    }

    /// Writes down that `extent` exists and the token of the client that may write to it, 0 for
    /// none.
    pub fn set_writer(&self, extent: ExtentId, token: u64) {
        let (present, writer) = self.registry(extent);
        writer.store(token, Ordering::Relaxed);
        present.store(extent.0, Ordering::Release);
    }

    /// The token of the extent's writer, 0 for none; `None` when the extent does not exist.
    pub fn writer(&self, extent: ExtentId) -> Option<u64> {
        let (present, writer) = self.registry(extent);
        let found = present.load(Ordering::Acquire) == extent.0;
        found.then(|| writer.load(Ordering::Relaxed))
    }

    /// Writes down that the extent is gone.
    pub fn forget_extent(&self, extent: ExtentId) {
        let (present, writer) = self.registry(extent);
        present.store(0, Ordering::Release);
        writer.store(0, Ordering::Relaxed);
        self.set_lent(&Range { extent, offset: 0, bytes: 0 });
    }

    /// Every registered extent with its writer's token. Looks only at pages that exist.
    pub fn extents(&self) -> io::Result<Vec<(ExtentId, u64)>> {
        let mut extents = Vec::new();
        let mut at = PAGE_BYTES;
        loop {
            let start = match rustix::fs::seek(&self.memfd, SeekFrom::Data(at)) {
                // No data after this offset.
                Err(rustix::io::Errno::NXIO) => return Ok(extents),
                other => other?,
            };
            if start >= VOID_AT {
                return Ok(extents);
            }
            at = rustix::fs::seek(&self.memfd, SeekFrom::Hole(start))?.min(VOID_AT);
            let index = |offset: u64| ((offset - PAGE_BYTES) / REGISTRY_ENTRY_BYTES) as u32;
            for index in index(start)..index(at) {
                let present = self.registry(ExtentId::new(index, 0)).0.load(Ordering::Acquire);
                let extent = ExtentId(present);
                if let Some(token) = self.writer(extent).filter(|_| present != 0) {
                    extents.push((extent, token));
                }
            }
        }
    }
}

/// A client's side.
#[derive(Debug)]
pub struct ControlReader {
    map: ReadMap,
    /// The whole, of which only what the daemon wrote is ever looked at.
    registry: ReadMap,
}

impl ControlReader {
    /// Maps the control page read-only.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let memfd = Memfd::adopt(fd)?;
        if memfd.bytes() != CONTROL_BYTES {
            return Err(not_control());
        }
        let control = Self {
            map: ReadMap::new(&memfd, PAGE_BYTES, Populate::Yes)?,
            registry: ReadMap::new(&memfd, CONTROL_BYTES, Populate::No)?,
        };
        if control.word(MAGIC_AT).load(Ordering::Acquire) != MAGIC {
            return Err(not_control());
        }
        Ok(control)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.map.shared(offset, 1)[0]
    }

    #[inline]
    fn half_word(&self, offset: usize) -> &AtomicU32 {
        &self.map.shared(offset, 1)[0]
    }

    /// How often a daemon was started on this store.
    pub fn epoch(&self) -> u64 {
        self.word(EPOCH_AT).load(Ordering::Acquire)
    }

    /// The number of the current index table.
    pub fn table(&self) -> u64 {
        self.table_word().load(Ordering::Acquire)
    }

    /// Which node of its pool the store is; `None` without a pool, and until its pool daemon has
    /// said so for the first time.
    #[inline]
    pub fn home(&self) -> Option<Slot> {
        home_of(self.word(HOME_AT).load(Ordering::Acquire))
    }

    /// Whether the daemon still has this extent, of which it told this client once. What it says
    /// "gone" of is gone for good.
    pub fn has_extent(&self, extent: ExtentId) -> bool {
        let offset = PAGE_BYTES + REGISTRY_ENTRY_BYTES * extent.index() as u64;
        let present: &AtomicU64 = &self.registry.shared(offset as usize, 1)[0];
        // Pairs with the releases in `set_writer` and `forget_extent`.
        present.load(Ordering::Acquire) == extent.0
    }

    #[inline]
    pub(crate) fn table_word(&self) -> &AtomicU64 {
        self.word(TABLE_AT)
    }

    /// Whether the daemon sleeps and must be told of what was just submitted; once for each sleep,
    /// which `rung` remembers.
    #[inline]
    pub(crate) fn must_ring(&self, rung: &AtomicU32) -> bool {
        sleep_flag::must_ring_once(self.half_word(SLEEPING_AT), rung)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_the_daemon_says() {
        let daemon = ControlDaemon::create().unwrap();
        let reader = ControlReader::new(daemon.memfd().read_only().unwrap()).unwrap();
        assert_eq!((reader.epoch(), reader.table()), (1, 0));
        daemon.set_table(7);
        assert_eq!(reader.table(), 7);
        let (rung, others) = (AtomicU32::new(0), AtomicU32::new(0));
        assert!(!reader.must_ring(&rung));
        daemon.set_sleeping(true);
        assert!(reader.must_ring(&rung) && !reader.must_ring(&rung));
        assert!(reader.must_ring(&others), "every client rings for itself");
        daemon.set_sleeping(false);
        assert!(!reader.must_ring(&rung));
        daemon.set_sleeping(true);
        assert!(reader.must_ring(&rung), "the next sleep is another one");

        let next = ControlDaemon::adopt(Memfd::adopt(daemon.memfd().duplicate().unwrap()).unwrap());
        assert_eq!((next.unwrap().epoch(), reader.epoch(), reader.table()), (2, 2, 7));
        assert!(!reader.must_ring(&AtomicU32::new(0)));
    }

    #[test]
    fn serials_are_given_out_once_over_restarts() {
        let first = ControlDaemon::create().unwrap();
        assert_eq!(first.take_serials(100), 1);
        let memfd = Memfd::adopt(first.memfd().duplicate().unwrap()).unwrap();
        drop(first);
        assert_eq!(ControlDaemon::adopt(memfd).unwrap().take_serials(5), 101);
    }

    /// A restarted daemon does not know which extents the one before it dropped, and made new ones
    /// with their numbers.
    #[test]
    fn births_are_noted_over_restarts() {
        let first = ControlDaemon::create().unwrap();
        assert_eq!(first.births(), 1);
        first.note_birth(ExtentId::new(5, 17));
        first.note_birth(ExtentId::new(9, 3));
        let memfd = Memfd::adopt(first.memfd().duplicate().unwrap()).unwrap();
        drop(first);
        assert_eq!(ControlDaemon::adopt(memfd).unwrap().births(), 18);
    }

    #[test]
    fn what_is_hidden_without_being_deleted_is_noted_over_restarts() {
        let first = ControlDaemon::create().unwrap();
        assert_eq!(first.leaving(), None);
        first.set_leaving(Some(17));
        let memfd = Memfd::adopt(first.memfd().duplicate().unwrap()).unwrap();
        drop(first);
        let second = ControlDaemon::adopt(memfd).unwrap();
        assert_eq!(second.leaving(), Some(17));
        second.set_leaving(None);
        assert_eq!(second.leaving(), None);
    }

    #[test]
    fn the_home_of_ids_is_told_to_clients_and_over_restarts() {
        let first = ControlDaemon::create().unwrap();
        let reader = ControlReader::new(first.memfd().read_only().unwrap()).unwrap();
        assert_eq!((first.home(), reader.home()), (None, None));
        for slot in [Slot(0), Slot(7), Slot(u16::MAX)] {
            first.set_home(Some(slot));
            assert_eq!(reader.home(), Some(slot));
        }
        let memfd = Memfd::adopt(first.memfd().duplicate().unwrap()).unwrap();
        drop(first);
        let second = ControlDaemon::adopt(memfd).unwrap();
        assert_eq!(second.home(), Some(Slot(u16::MAX)));
        second.set_home(None);
        assert_eq!(reader.home(), None);
    }

    #[test]
    fn files_that_count_for_nothing_are_noted_over_restarts() {
        let first = ControlDaemon::create().unwrap();
        (1..=2).for_each(|serial| first.void_files().note(serial));
        let memfd = Memfd::adopt(first.memfd().duplicate().unwrap()).unwrap();
        drop(first);
        let second = ControlDaemon::adopt(memfd).unwrap();
        assert_eq!(second.void_files().serials(), [1, 2].into());
        assert_eq!(second.extents().unwrap(), [], "they are no extents");
    }

    #[test]
    fn the_registry_lists_what_was_registered() {
        let control = ControlDaemon::create().unwrap();
        let extents = [
            ExtentId::new(0, 1),
            ExtentId::new(1, 5),
            ExtentId::new(300_000, ExtentId::BIRTH_MAX),
            ExtentId::new(EXTENTS_MAX as u32 - 1, 1),
        ];
        assert_eq!(control.extents().unwrap(), []);
        for (token, extent) in (10..).zip(extents) {
            control.set_writer(extent, token);
        }
        control.set_writer(extents[1], 0);
        control.forget_extent(extents[2]);
        assert_eq!(
            control.extents().unwrap(),
            [(extents[0], 10), (extents[1], 0), (extents[3], 13)]
        );
        assert_eq!(control.writer(extents[0]), Some(10));
        assert_eq!(control.writer(extents[2]), None);
        let lent = |offset, bytes| Range { extent: extents[0], offset, bytes };
        for lent in [lent(4096, 8192), lent(64, 128), lent(1 << 30, 64), lent(0, 0)] {
            control.set_lent(&lent);
            assert_eq!(control.lent(extents[0]), lent);
        }
        let reader = ControlReader::new(control.memfd().read_only().unwrap()).unwrap();
        let there = extents.map(|extent| reader.has_extent(extent));
        assert_eq!(there, [true, true, false, true]);
        assert!(!reader.has_extent(ExtentId::new(1, 6)), "another extent");
        assert_eq!(control.writer(ExtentId::new(1, 6)), None, "another extent");
        assert!(control.memfd().resident_bytes().unwrap() <= 5 * 4096, "the rest stays sparse");
    }

    #[test]
    fn other_memfds_are_refused() {
        let small = Memfd::create("plasmon-test", 4096).unwrap();
        assert!(ControlReader::new(small.read_only().unwrap()).is_err());
        assert!(ControlDaemon::adopt(small).is_err());
        let blank = Memfd::create("plasmon-test", CONTROL_BYTES).unwrap();
        assert!(ControlReader::new(blank.read_only().unwrap()).is_err());
        assert!(ControlDaemon::adopt(blank).is_err());
    }
}
