//! Taking over extents of an earlier daemon.
//!
//! Which of their free pages are there is not known any more. Where it is allowed they are given
//! back, so that they are cold for certain; elsewhere they count as cold and are reserved again
//! before use, and what of the extent is there all the same is charged as its *surplus*.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::limits::OBJECT_ALIGN;
use plasmon_proto::object::{Level, Sizes};

use super::extents::Kind;
use super::{Domain, Extent, Memory};
use crate::effect::Effect;
use crate::event::RecoveredExtent;

impl Memory {
    /// Takes over an extent; nothing in it can be given out yet. False when it cannot be one.
    pub(crate) fn adopt(&mut self, found: &RecoveredExtent) -> bool {
        let sound = found.bytes > 0 && found.bytes == self.pages(found.bytes);
        let adopted =
            sound && self.extents.adopt(found.extent, found.bytes, Kind::Arena, Domain::Closed);
        if adopted && let Some(extent) = self.extents.get_mut(found.extent) {
            extent.strict = found.strict;
            extent.quarantined = found.quarantined;
            let stays = self.limits.level != Level::Shared;
            let present = if stays { found.resident_bytes } else { 0 };
            self.extents.change_surplus(found.extent, present, 0);
        }
        adopted
    }

    /// Whether an object can be at this place of an extent that was taken over.
    pub(crate) fn could_hold(&self, range: &Range, sizes: &Sizes) -> bool {
        let end = range.offset.checked_add(range.bytes);
        let inside = |extent: &Extent| end.is_some_and(|end| end <= extent.bytes);
        range.offset.is_multiple_of(OBJECT_ALIGN)
            && sizes.footprint() == Some(range.bytes)
            && self.extents.get(range.extent).is_some_and(inside)
    }

    /// Charges an object that was taken over. One that fills its extent makes it an exact one,
    /// unless another lies in the few bytes that are left or the extent's writer may hold a lease
    /// on them.
    pub(crate) fn adopt_object(&mut self, range: &Range, sizes: &Sizes, alone: bool) {
        let (whole, own) = (self.pages(range.bytes), self.exact_charge(sizes));
        let charge = match self.extents.get_mut(range.extent) {
            Some(extent)
                if range.offset == 0 && whole == extent.bytes && alone && !extent.quarantined =>
            {
                extent.kind = Kind::Exact;
                own
            }
            _ => range.bytes,
        };
        self.charged_bytes = self.charged_bytes.saturating_add(charge);
        self.extents.change_surplus(range.extent, 0, range.bytes);
        self.publish_first(range);
    }

    /// Whether the extent holds one object and nothing else.
    pub(crate) fn is_exact_extent(&self, id: ExtentId) -> bool {
        self.extents.get(id).is_some_and(|extent| extent.kind == Kind::Exact)
    }

    /// Whether small objects are carved from the extent.
    pub(super) fn is_arena(&self, id: ExtentId) -> bool {
        self.extents.get(id).is_some_and(|extent| extent.kind == Kind::Arena)
    }

    /// Whether no client is given memory of the extent.
    pub(crate) fn is_closed(&self, id: ExtentId) -> bool {
        self.extents.get(id).is_some_and(|extent| extent.domain == Domain::Closed)
    }

    /// Charges a part of an extent whose writer may come back.
    pub(crate) fn adopt_in_doubt(&mut self, range: &Range) {
        self.charged_bytes = self.charged_bytes.saturating_add(range.bytes);
        self.extents.change_surplus(range.extent, 0, range.bytes);
    }

    /// Frees a part of an extent that is charged, without knowing whether its pages are there.
    pub(crate) fn release_in_doubt(&mut self, range: Range, out: &mut Vec<Effect>) {
        self.charged_bytes = self.charged_bytes.saturating_sub(range.bytes);
        if self.limits.level != Level::Shared {
            let (_, whole) = self.whole_pages(range.offset, range.bytes);
            self.extents.change_surplus(range.extent, whole, 0);
        }
        self.open_in_doubt(range, out);
        // Where it is cold there is nothing in it to keep: an extent for each large object that a
        // killed daemon was asked for would stay, and be in doubt again with the next restart.
        let is_empty = |extent: &Extent| extent.kind == Kind::Arena && extent.is_empty();
        if self.extents.get(range.extent).is_some_and(is_empty) {
            self.drop_extent(range.extent, out);
        }
    }

    /// Makes a part of an extent a hole, without knowing whether its pages are there.
    pub(crate) fn open_in_doubt(&mut self, range: Range, out: &mut Vec<Effect>) {
        let (start, whole) = self.whole_pages(range.offset, range.bytes);
        if whole == 0 {
            return self.open_hole(range, true);
        }
        let (end, range_end) = (start + whole, range.offset + range.bytes);
        let cold = Range { offset: start, bytes: whole, ..range };
        if self.limits.level == Level::Shared {
            out.push(Effect::Punch(cold));
        }
        self.open_hole(cold, false);
        // The rest shares its pages with something that is there.
        self.open_hole(Range { bytes: start - range.offset, ..range }, true);
        self.open_hole(Range { offset: end, bytes: range_end - end, ..range }, true);
    }

    /// What of an extent is free is known now: it can be given out, or it is dropped.
    pub(crate) fn open_extent(&mut self, id: ExtentId, out: &mut Vec<Effect>) {
        let Some(extent) = self.extents.get(id) else { return };
        if extent.is_empty() {
            return self.drop_extent(id, out);
        }
        let open = self.limits.level == Level::Shared && !extent.strict;
        self.set_domain(id, if open { Domain::Open } else { Domain::Closed });
    }

    /// What of an extent can be in its writer's hands, when these are its leases in it.
    pub(crate) fn lent(&self, leases: Range) -> Range {
        match self.extents.get(leases.extent) {
            Some(extent) if extent.has_creations => {
                Range { offset: 0, bytes: extent.bytes, ..leases }
            }
            _ => leases,
        }
    }

    /// The extent's writer creates an object in it, in memory that is no lease.
    pub(crate) fn note_creation(&mut self, id: ExtentId) {
        if let Some(extent) = self.extents.get_mut(id) {
            extent.has_creations = true;
        }
    }

    /// Whether that was noted.
    pub(crate) fn has_creations(&self, id: ExtentId) -> bool {
        self.extents.get(id).is_some_and(|extent| extent.has_creations)
    }

    /// The extent's one object will be protected by the kernel: nothing else is given out of it.
    pub(crate) fn set_strict(&mut self, id: ExtentId) {
        if let Some(extent) = self.extents.get_mut(id) {
            extent.strict = true;
        }
        self.set_domain(id, Domain::Closed);
    }
}
