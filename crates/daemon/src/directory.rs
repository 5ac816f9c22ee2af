//! The shared index and the ledgers, as the store asks for them.
//!
//! The index grows here, in the middle of a question. The new table is with the keeper before
//! clients are sent to it, so that there is no moment at which a dying daemon takes the only copy
//! along.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use plasmon_proto::ObjectId;
use plasmon_shm::edge::{self, Point};
use plasmon_shm::index::resize::{Index, Step};
use plasmon_shm::scan::PinCounts;
use plasmon_shm::slot::CREATED_MS_MAX;
use plasmon_shm::{ControlDaemon, Memfd, SlotImage};
use plasmon_store::ports::{Directory, Entry, Look, SlotNo};

use crate::sessions::Sessions;
use crate::workers;
use plasmon_keeper::KeeperHandle;
use plasmon_keeper::Label;

/// Slots of a new store's table.
pub(crate) const SLOTS_FIRST: usize = 4096;

/// Everything that is shared with clients and that the store asks questions about.
#[derive(Debug)]
pub(crate) struct SharedTables {
    /// The index.
    pub(crate) index: Index,
    /// The page that names the current table.
    pub(crate) control: ControlDaemon,
    /// Where clients that trust each other wake each other. Only held and passed on.
    pub(crate) wakes: Memfd,
    /// The ledgers of all clients.
    pub(crate) sessions: Sessions,
    /// The clients that get a copy of a new table.
    pub(crate) keeper: KeeperHandle,
    /// Whether the index grew since this was last looked at.
    pub(crate) grown: bool,
}

/// What a slot says, as the store understands it. `None` when a slot of an adopted table is no
/// object: the table was written by a daemon like this one, but it costs nothing to check.
pub(crate) fn entry_of(image: &SlotImage) -> Option<Entry> {
    let SlotImage { serial, id, placement, meta, record } = *image;
    Some(Entry { serial, id, range: placement.range(&meta.sizes)?, meta, record })
}

fn image_of(entry: &Entry) -> SlotImage {
    let Entry { serial, id, range, mut meta, record } = *entry;
    meta.created_ms = meta.created_ms.min(CREATED_MS_MAX);
    SlotImage { serial, id, placement: range.placement(), meta, record }
}

impl SharedTables {
    /// Counts pins before their objects are hidden: what a broken rule of the simulator does.
    #[cfg(feature = "sim")]
    fn count_too_early(&mut self, slots: &[SlotNo]) {
        let serials: Vec<u64> = slots.iter().map(|slot| self.entry_at(*slot).serial).collect();
        let mut counts = PinCounts::new(&serials);
        self.sessions.scan_pins(&mut counts);
        self.sessions.count_too_early(serials.iter().copied().zip(counts.of(&serials)));
        // Long enough for a reader to find the object.
        (0..16).for_each(|_| edge::pause(Point::Index));
    }

    /// The next table is complete: the keeper has it before clients are sent to it.
    fn move_to_next_table(&mut self) {
        let Some(next) = self.index.next() else { return };
        let number = next.number();
        self.keeper.hold(&Label::Index { number }, &[next.memfd().as_fd()]);
        self.control.set_table(number);
        self.keeper.forget(&Label::Index { number: self.index.table.number() });
        let before = self.index.switch();
        tracing::debug!(number, slots = self.index.table.slots(), "the index has a new table");
        self.grown = true;
        // Giving back the memory of a large one takes milliseconds.
        let given = workers::spawn("plasmon-table", move || drop(before));
        if let Err(error) = given {
            tracing::info!(%error, "an old index table is given back here");
        }
    }

    fn entry_at(&self, at: u32) -> Entry {
        let image = self.index.table.image(at);
        entry_of(&image).expect("the table holds only what the store put there")
    }
}

impl SharedTables {
    /// Before an entry is inserted: takes a step towards a larger table, if one is wanted.
    fn make_room(&mut self, moved: &mut dyn FnMut(u32, SlotNo)) {
        let number = self.index.table.number() + 1;
        match self.index.step((number, &crate::random_key), moved) {
            // The keeper is told of a new table before clients are.
            Step::Complete if !self.keeper.is_behind(edge::now()) => self.move_to_next_table(),
            Step::Complete | Step::Quiet => {}
            Step::Refused(error) => tracing::warn!(%error, "no memory for another index table"),
        }
        edge::pause(Point::Index);
    }
}

impl Directory for SharedTables {
    fn find(&self, id: &ObjectId) -> Option<(SlotNo, Entry)> {
        let slot = self.index.find(id)?;
        Some((slot, self.entry(slot)))
    }

    fn entry(&self, slot: SlotNo) -> Entry {
        self.entry_at(self.index.at(slot))
    }

    fn insert(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        self.make_room(moved);
        let slot = self.index.insert(&image_of(entry));
        edge::pause(Point::Index);
        slot
    }

    fn insert_hidden(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        self.make_room(moved);
        let slot = self.index.insert_hidden(&image_of(entry));
        edge::pause(Point::Index);
        slot
    }

    fn hide(&mut self, slots: &[SlotNo]) {
        edge::pause(Point::Index);
        #[cfg(feature = "sim")]
        if edge::is_broken(edge::Mutation::SkipFence) {
            self.count_too_early(slots);
        }
        self.index.hide(slots);
        edge::pause(Point::Index);
    }

    fn show(&mut self, slot: SlotNo) {
        self.index.show(slot);
        edge::pause(Point::Index);
    }

    fn remove(&mut self, slot: SlotNo) {
        self.index.remove(slot);
        edge::pause(Point::Index);
    }

    fn set_leaving(&mut self, serial: Option<u64>) {
        self.control.set_leaving(serial);
    }

    fn leaving(&self) -> Option<u64> {
        self.control.leaving()
    }

    fn set_void(&mut self, serial: u64, is_void: bool) {
        let files = self.control.void_files();
        if is_void { files.note(serial) } else { files.forget(serial) }
    }

    fn void(&self) -> BTreeSet<u64> {
        self.control.void_files().serials()
    }

    fn look(&self, serials: &[u64]) -> Look {
        edge::pause(Point::Pins);
        let mut counts = PinCounts::new(serials);
        self.sessions.scan_pins(&mut counts);
        let pins = counts.of(serials);
        #[cfg(feature = "sim")]
        let pins = self.sessions.counted_too_early(serials, pins);
        Look { pins, digest: counts.digest() }
    }

    fn slots(&self) -> u64 {
        self.index.table.slots() as u64
    }
}
