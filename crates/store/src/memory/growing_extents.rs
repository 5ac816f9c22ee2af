//! Extents that grow with the one object in them.
//!
//! ```text
//!             place_growth               settle
//!   growing ◄────────────► growing ──────────────► exact: an object like any other
//!      ▲  │ release: given up unsealed, its pages stay
//!      │  ▼
//!   idle growing ─ under pressure, or its writer leaves ─► cut to nothing, then dropped
//! ```
//!
//! Every page of a growing extent is there: it ends where its memory ends. An idle one is warm
//! memory for its writer alone: the size of its file is not fixed, so a former writer could take
//! the pages away from the next one. The writer may keep it mapped, and finds the pages
//! as they were when it is given the same extent again; so when it goes, the pages go first, in
//! whatever process they are mapped. What the writer allocates past its end is cut off when
//! it is given up.

use plasmon_proto::extent::{ExtentId, Range};

use super::place::{Lengths, Need, PlacedRange, Reservation};
use super::{Domain, Kind, Memory};
use crate::effect::Effect;

impl Memory {
    /// Finds an extent for an object of unknown size that begins with this many bytes: an idle one,
    /// the smallest that is long enough or else the longest, or a new one. For one that is
    /// open-ended, the longest at once: it would have to be made longer otherwise, and there would
    /// soon be as much memory for a small buffer as for a large one.
    pub(crate) fn place_growing(
        &mut self,
        domain: Domain,
        lengths: Lengths,
        open_ended: bool,
        out: &mut Vec<Effect>,
    ) -> Option<PlacedRange> {
        let bytes = self.pages(lengths.bytes.max(1));
        let longest = if open_ended { u64::MAX } else { bytes };
        if let Some((id, found)) = self.idle_growing(domain, longest, lengths.most) {
            self.extents.wake(id);
            self.set_domain(id, domain);
            self.charged_bytes += found;
            let range = Range { extent: id, offset: 0, bytes: found };
            return Some(PlacedRange {
                range,
                extent_bytes: found,
                charge: found,
                reservation: None,
            });
        }
        if !self.make_room(Need { charge: bytes, fresh_bytes: bytes }, true, out) {
            return None;
        }
        let id = self.extents.create(bytes, Kind::Growing, domain)?;
        self.charged_bytes += bytes;
        let range = Range { extent: id, offset: 0, bytes };
        let reservation = Some(Reservation { range, new_extent: true });
        Some(PlacedRange { range, extent_bytes: bytes, charge: bytes, reservation })
    }

    fn idle_growing(&self, domain: Domain, bytes: u64, most: u64) -> Option<(ExtentId, u64)> {
        let left = self.left_bytes().min(most);
        self.extents
            .idle()
            .filter(|extent| extent.kind == Kind::Growing && extent.bytes <= left)
            .filter(|extent| !extent.awaits_pages)
            .filter(|extent| extent.domain == domain)
            .map(|extent| (extent.id, extent.bytes))
            .min_by_key(|(_, found)| match *found >= bytes {
                true => (false, *found),
                false => (true, u64::MAX - found),
            })
    }

    /// Finds `bytes` more past the end of a growing extent.
    pub(crate) fn place_growth(
        &mut self,
        id: ExtentId,
        bytes: u64,
        out: &mut Vec<Effect>,
    ) -> Option<PlacedRange> {
        let end = self.extents.get(id)?.bytes;
        if !self.make_room(Need { charge: bytes, fresh_bytes: bytes }, true, out) {
            return None;
        }
        self.extents.resize(id, end + bytes);
        self.await_pages(id, true);
        self.charged_bytes += bytes;
        let range = Range { extent: id, offset: end, bytes };
        let reservation = Some(Reservation { range, new_extent: false });
        Some(PlacedRange { range, extent_bytes: end + bytes, charge: bytes, reservation })
    }

    /// Pages are on their way to a growing extent, or not any more.
    pub(super) fn await_pages(&mut self, id: ExtentId, awaits: bool) {
        if let Some(extent) = self.extents.get_mut(id) {
            extent.awaits_pages = awaits;
        }
    }

    /// The machine refused to let an extent grow.
    pub(super) fn not_grown(&mut self, growth: &Range) {
        self.await_pages(growth.extent, false);
        let still = |extent: &super::Extent| extent.kind == Kind::Growing;
        if self.extents.get(growth.extent).is_some_and(still) {
            self.extents.resize(growth.extent, growth.offset);
        }
    }

    /// The growth that was just reserved is no longer wanted; the extent has its pages, idle or in
    /// use by another object, or took them along when it was settled or dropped.
    pub(crate) fn forget_growth(&mut self, charge: u64) {
        self.charged_bytes -= charge;
    }

    /// Frees a growing extent that is being settled: no other client can have it.
    pub(crate) fn discard_growing(&mut self, range: Range, charge: u64, out: &mut Vec<Effect>) {
        if self.extents.get(range.extent).is_some() {
            self.charged_bytes -= charge;
            self.drop_extent(range.extent, out);
        }
    }

    /// A growing extent has its final size and holds an object like any other from now on. Gives
    /// back what is charged for it.
    pub(crate) fn settle(&mut self, id: ExtentId, charge_before: u64, data: u64) -> u64 {
        let bytes = self.pages(data.max(1));
        self.extents.resize(id, bytes);
        if let Some(extent) = self.extents.get_mut(id) {
            extent.kind = Kind::Exact;
        }
        self.charged_bytes = self.charged_bytes - charge_before + bytes;
        bytes
    }

    /// Whether this growing extent is idle.
    pub(super) fn is_idle_growing(&self, id: ExtentId) -> bool {
        let idle = |extent: &super::Extent| extent.kind == Kind::Growing && extent.idle.is_some();
        self.extents.get(id).is_some_and(idle)
    }

    /// Makes a growing extent idle, with the memory that it is charged and no more.
    pub(super) fn rest_growing(&mut self, id: ExtentId, out: &mut Vec<Effect>) {
        let Some(bytes) = self.extents.get(id).map(|extent| extent.bytes) else { return };
        self.extents.rest(id);
        out.push(Effect::Trim { extent: id, bytes });
    }
}
