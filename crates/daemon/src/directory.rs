//! The shared index and the ledgers, as the store asks for them.
//!
//! The index grows here, in the middle of a question. The new table is with the keeper before
//! clients are sent to it, so that there is no moment at which a dying daemon takes the only copy
//! along.

use std::os::fd::AsFd;

use plasmon_proto::ObjectId;
use plasmon_proto::message::Range;
use plasmon_proto::object::{Policy, Sizes, Traits};
use plasmon_shm::edge;
use plasmon_shm::scan::PinCounts;
use plasmon_shm::slot::CREATED_MS_MAX;
use plasmon_shm::{ControlDaemon, IndexWriter, Memfd, SlotImage};
use plasmon_store::ports::{Directory, Entry, Look, SlotNo};

use crate::keeper::seat::KeeperSeat;
use crate::keeper::wire::Label;
use crate::sessions::Sessions;

/// Slots of a new store's table.
pub(crate) const SLOTS_FIRST: usize = 4096;

/// How many inserts are tried on a crowded table before growing it is tried again.
const GROWTH_RETRY_INSERTS: u32 = 1024;

/// The index with what it needs to grow.
#[derive(Debug)]
pub(crate) struct Index {
    /// The current table.
    pub(crate) table: IndexWriter,
    retry_in: u32,
}

impl Index {
    /// An index over this table.
    pub(crate) fn new(table: IndexWriter) -> Self {
        Self { table, retry_in: 0 }
    }

    /// Has the processor fetch the slot where this id belongs, for a look that follows soon.
    pub(crate) fn prefetch(&self, id: &ObjectId) {
        self.table.prefetch(id);
    }

    /// Whether one more object can be published, in a larger table if need be. False only on a
    /// machine that has no memory for a larger one.
    pub(crate) fn has_room(&self) -> bool {
        let counts = self.table.counts();
        counts.live + counts.hidden + 2 < self.table.slots()
    }
}

/// Everything that is shared with clients and that the store asks questions about.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The index.
    pub(crate) index: Index,
    /// The page that names the current table.
    pub(crate) control: ControlDaemon,
    /// Where clients that trust each other wake each other. Only held and passed on.
    pub(crate) wakes: Memfd,
    /// Everybody's ledgers.
    pub(crate) sessions: Sessions,
    /// Who gets a copy of a new table.
    pub(crate) keeper: KeeperSeat,
    /// Whether the index grew since this was last looked at.
    pub(crate) grown: bool,
}

/// What a slot says, as the store understands it. `None` when a slot of an adopted table is no
/// object: the table was written by a daemon like this one, but it costs nothing to check.
pub(crate) fn entry_of(image: &SlotImage) -> Option<Entry> {
    let sizes = Sizes { data: image.data, metadata: image.metadata, attributes: image.attributes };
    let range = Range { extent: image.extent, offset: image.offset, bytes: sizes.footprint()? };
    let policy = if image.cache { Policy::Cache } else { Policy::Keep };
    Some(Entry {
        serial: image.serial,
        id: image.id,
        range,
        sizes,
        traits: Traits { policy, tag: image.tag, owned: image.owned },
        created_ms: image.created_ms,
        record: image.record,
    })
}

fn image_of(entry: &Entry) -> SlotImage {
    SlotImage {
        serial: entry.serial,
        id: entry.id,
        extent: entry.range.extent,
        offset: entry.range.offset,
        data: entry.sizes.data,
        metadata: entry.sizes.metadata,
        attributes: entry.sizes.attributes,
        created_ms: entry.created_ms.min(CREATED_MS_MAX),
        record: entry.record,
        tag: entry.traits.tag,
        cache: entry.traits.policy == Policy::Cache,
        owned: entry.traits.owned,
    }
}

impl Shared {
    fn grow(&mut self, moved: &mut dyn FnMut(u32, SlotNo)) {
        let number = self.control.table() + 1;
        let grown = self.index.table.grow(number, moved);
        let grown = match grown {
            Ok(grown) => grown,
            Err(error) => {
                tracing::warn!(%error, "no memory for a larger index");
                self.index.retry_in = GROWTH_RETRY_INSERTS;
                return;
            }
        };
        self.keeper.hold(&Label::Index { number }, &[grown.memfd().as_fd()]);
        self.control.set_table(number);
        self.keeper.forget(&Label::Index { number: self.index.table.number() });
        tracing::debug!(number, slots = grown.slots(), "the index has a new table");
        self.index.table = grown;
        self.grown = true;
    }

    fn entry_at(&self, at: u32) -> Entry {
        let image = self.index.table.image(at);
        entry_of(&image).expect("the table holds only what the store put there")
    }
}

impl Directory for Shared {
    fn find(&self, id: &ObjectId) -> Option<(SlotNo, Entry)> {
        let at = self.index.table.find(id)?;
        Some((at, self.entry_at(at)))
    }

    fn entry(&self, at: SlotNo) -> Entry {
        self.entry_at(at)
    }

    fn insert(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo {
        if self.index.table.wants_growth() {
            match self.index.retry_in.checked_sub(1) {
                Some(left) => self.index.retry_in = left,
                // The keeper hears of a new table before clients do.
                None if self.keeper.is_behind(edge::now()) => {}
                None => self.grow(moved),
            }
        }
        self.index.table.insert(&image_of(entry))
    }

    fn hide(&mut self, slots: &[SlotNo]) {
        self.index.table.hide(slots);
    }

    fn show(&mut self, at: SlotNo) {
        self.index.table.show(at);
    }

    fn remove(&mut self, at: SlotNo) {
        self.index.table.remove(at);
    }

    fn look(&self, serials: &[u64]) -> Look {
        let mut counts = PinCounts::new(serials);
        self.sessions.scan_pins(&mut counts);
        Look { pins: counts.of(serials), digest: counts.digest() }
    }

    fn slots(&self) -> u64 {
        self.index.table.slots() as u64
    }
}
