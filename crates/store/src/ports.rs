//! The interfaces that the store calls and that answer at once: the shared index and the ledgers.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;
use plasmon_proto::object::ObjectMeta;

/// What a slot of the index says about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The incarnation: unique forever, at least 1, below 2^62.
    pub serial: u64,
    /// The id.
    pub id: ObjectId,
    /// Where its parts are; `bytes` is the footprint.
    pub range: Range,
    /// Sizes, traits and times.
    pub meta: ObjectMeta,
    /// The store's record number.
    pub record: u32,
}

/// The position of an entry; it changes when the index grows.
pub type SlotNo = u32;

/// What a look through all ledgers found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The pins on each incarnation that was asked for.
    pub pins: Vec<u32>,
    /// A number that stays the same while the ledgers hold the same pins, and hardly when not.
    pub digest: u64,
}

/// The index that clients read, and the ledgers in which they pin.
///
/// An entry is *visible* (a get finds it) or *hidden* (it is there only for the daemon).
pub trait Directory {
    /// The visible entry of this id.
    fn find(&self, id: &ObjectId) -> Option<(SlotNo, Entry)>;
    /// The entry, visible or hidden, at a slot that the store was told.
    fn entry(&self, slot: SlotNo) -> Entry;
    /// Makes an entry visible. The index may grow by this: then every slot number changes and
    /// `moved` is called with each record and its new slot.
    fn insert(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo;
    /// The same for an entry that is hidden until it is shown.
    fn insert_hidden(&mut self, entry: &Entry, moved: &mut dyn FnMut(u32, SlotNo)) -> SlotNo;
    /// Hides visible entries. Afterwards no client can start to use them, and [`Self::pins`] sees
    /// every client that did before.
    fn hide(&mut self, slots: &[SlotNo]);
    /// Makes a hidden entry visible again.
    fn show(&mut self, slot: SlotNo);
    /// Forgets a hidden entry.
    fn remove(&mut self, slot: SlotNo);
    /// Notes the incarnation that is hidden only until its pins are counted, because its bytes are
    /// in the spill tier as well, or until the object that replaces it is there. Outlives the
    /// daemon, and comes before the entry is hidden.
    fn set_leaving(&mut self, serial: Option<u64>);
    /// The incarnation that was noted last, by this daemon or an earlier one.
    fn leaving(&self) -> Option<u64>;
    /// Notes whether the file of this incarnation counts for nothing, because it is to be removed.
    /// Outlives the daemon, until the file is gone.
    fn set_void(&mut self, serial: u64, is_void: bool);
    /// The incarnations whose files count for nothing.
    fn void(&self) -> BTreeSet<u64>;
    /// Looks through the ledgers of all clients once: how many pins they hold on each of these
    /// incarnations. Exact for entries that were hidden before, in the sense that 0 stays 0; for
    /// visible ones it may change at once.
    fn look(&self, serials: &[u64]) -> Look;
    /// How many slots there are.
    fn slots(&self) -> u64;
}
