//! Keeping within the capacity, and giving warm memory back.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::object::Level;

use super::place::Need;
use super::{Extent, IDLE_EXTENTS_MAX, Memory};
use crate::effect::Effect;

/// How far warm memory may exceed its limit before it is trimmed, so that freeing many small
/// objects does not give their pages back one by one.
const TRIM_BYTES: u64 = 1 << 20;

impl Memory {
    /// Whether the capacity holds this much more.
    pub(super) fn fits(&self, need: Need) -> bool {
        self.left_bytes() >= need.charge
    }

    /// How many bytes must be freed before `bytes` more fit, at least 1 when something else than
    /// the sum of charges is in the way. What is leaving already need not be freed.
    pub(crate) fn shortage(&self, bytes: u64) -> u64 {
        let staying = self.taken_bytes().saturating_sub(self.retained.leaving_bytes());
        staying.saturating_add(bytes).saturating_sub(self.limits.capacity_bytes).max(1)
    }

    /// Whether `bytes` more will fit once what is leaving is gone.
    pub(crate) fn will_fit(&self, bytes: u64) -> bool {
        let left = self.left_bytes().saturating_add(self.retained.leaving_bytes());
        self.retained.leaving_bytes() > 0 && left >= bytes
    }

    /// Whether `need` fits, after giving warm memory back if `give_back` allows it and it is
    /// enough.
    pub(super) fn make_room(&mut self, need: Need, give_back: bool, out: &mut Vec<Effect>) -> bool {
        if !self.fits(need) {
            return false;
        }
        let excess = self.excess(need);
        if excess == 0 {
            return true;
        }
        give_back && {
            self.give_back(excess, out);
            self.excess(need) == 0
        }
    }

    /// How much warm memory must go before `need` is met.
    fn excess(&self, need: Need) -> u64 {
        let limits = &self.limits;
        let counted = self.taken_bytes().saturating_add(need.charge) + self.warm_bytes();
        let resident = self.resident_bytes().saturating_add(need.fresh_bytes);
        let over_capacity = counted.saturating_sub(limits.capacity_bytes);
        // Without this the partly used pages of a badly fragmented store could grow forever.
        let over_pages = resident.saturating_sub(limits.capacity_bytes + limits.slop_bytes_max);
        over_capacity.max(over_pages)
    }

    /// Gives at least `bytes` of warm memory back, as far as there is so much that may be given.
    pub(crate) fn give_back(&mut self, bytes: u64, out: &mut Vec<Effect>) {
        let target = self.warm_bytes().saturating_sub(bytes);
        while self.warm_bytes() > target {
            if let Some(id) = self.extents.longest_idle() {
                self.drop_extent(id, out);
            } else if let Some(id) = self.empty_arena() {
                self.drop_extent(id, out);
            } else if !self.punch(self.warm_bytes() - target, out) {
                break;
            }
        }
    }

    /// A warm arena in which nothing is in use. Where holes can be punched it is enough to look at
    /// the largest hole; elsewhere dropping is the only way, and all are looked at.
    fn empty_arena(&self) -> Option<ExtentId> {
        if self.limits.level == Level::Shared {
            let (extent, _) = self.holes.warmest()?;
            return self.extents.get(extent).filter(|extent| extent.is_empty()).map(|it| it.id);
        }
        let warm = |extent: &&Extent| extent.holes.values().any(|hole| hole.warm);
        self.extents.iter().filter(|extent| extent.is_empty()).find(warm).map(|extent| extent.id)
    }

    /// Makes up to `bytes` of the largest warm hole cold; false when nothing can be.
    fn punch(&mut self, bytes: u64, out: &mut Vec<Effect>) -> bool {
        // The kernel refuses to punch an extent that is sealed against writes.
        if self.limits.level != Level::Shared {
            return false;
        }
        let Some((extent, offset)) = self.holes.warmest() else { return false };
        let hole = self.extents.get(extent).and_then(|found| found.holes.get(&offset));
        let Some(hole) = hole else { return false };
        let (start, whole) = self.whole_pages(offset, hole.bytes);
        let bytes = whole.min(self.pages(bytes));
        let range = Range { extent, offset: start, bytes };
        let _warm = self.take(range);
        self.open_hole(range, false);
        out.push(Effect::Punch(range));
        true
    }

    /// A range was not given back: what of it is a cold hole still is a warm one.
    pub(crate) fn unpunched(&mut self, range: Range) {
        let Some(extent) = self.extents.get(range.extent) else { return };
        let end = range.offset.saturating_add(range.bytes);
        let parts: Vec<Range> = extent
            .holes
            .iter()
            .filter(|(_, hole)| !hole.warm)
            .map(|(at, hole)| (range.offset.max(*at), end.min(at + hole.bytes)))
            .filter(|(from, until)| from < until)
            .map(|(from, until)| Range { offset: from, bytes: until - from, ..range })
            .collect();
        for part in parts {
            if self.take(part) == Some(false) {
                self.open_hole(part, true);
            }
        }
    }

    /// Keeps warm memory within its limit.
    pub(super) fn trim(&mut self, out: &mut Vec<Effect>) {
        let limit = self.limits.warm_bytes_max;
        if self.warm_bytes() > limit.saturating_add(TRIM_BYTES.min(limit)) {
            self.give_back(self.warm_bytes() - limit, out);
        }
        while self.extents.idle_count() > IDLE_EXTENTS_MAX {
            let Some(id) = self.extents.longest_idle() else { break };
            self.drop_extent(id, out);
        }
    }
}
