//! Opening holes in arenas, and taking ranges out of them.

use plasmon_proto::extent::{ExtentId, Range};

use super::Memory;
use super::domain::Domain;
use super::holes::Hole;

impl Memory {
    /// Makes a range that was in use a hole, joined with its neighbours of the same warmth.
    pub(super) fn open_hole(&mut self, range: Range, warm: bool) {
        let Some(extent) = self.extents.get_mut(range.extent) else { return };
        if range.bytes == 0 {
            return;
        }
        extent.free_bytes += range.bytes;
        let (mut offset, mut end) = (range.offset, range.offset + range.bytes);
        let before = extent.holes.range(..offset).next_back().map(|(at, hole)| (*at, *hole));
        if let Some((at, hole)) = before
            && hole.warm == warm
            && at + hole.bytes == offset
        {
            extent.holes.remove(&at);
            let old = Range { extent: range.extent, offset: at, bytes: hole.bytes };
            self.holes.remove(extent.domain, old, warm);
            offset = at;
        }
        if let Some(hole) = extent.holes.get(&end).copied()
            && hole.warm == warm
        {
            extent.holes.remove(&end);
            let old = Range { extent: range.extent, offset: end, bytes: hole.bytes };
            self.holes.remove(extent.domain, old, warm);
            end += hole.bytes;
        }
        let whole = Range { extent: range.extent, offset, bytes: end - offset };
        extent.holes.insert(offset, Hole { bytes: whole.bytes, warm });
        self.holes.insert(extent.domain, whole, warm);
    }

    /// Takes a range out of the hole that contains it; `None` when no single hole does. Returns the
    /// hole's warmth.
    pub(super) fn take(&mut self, range: Range) -> Option<bool> {
        let extent = self.extents.get_mut(range.extent)?;
        let (at, hole) =
            extent.holes.range(..=range.offset).next_back().map(|(at, hole)| (*at, *hole))?;
        let (end, hole_end) = (range.offset.checked_add(range.bytes)?, at + hole.bytes);
        if end > hole_end || range.bytes == 0 {
            return None;
        }
        extent.free_bytes -= range.bytes;
        extent.holes.remove(&at);
        let old = Range { extent: range.extent, offset: at, bytes: hole.bytes };
        self.holes.remove(extent.domain, old, hole.warm);
        for (offset, end) in [(at, range.offset), (end, hole_end)] {
            if offset < end {
                let rest = Range { extent: range.extent, offset, bytes: end - offset };
                extent.holes.insert(offset, Hole { bytes: rest.bytes, warm: hole.warm });
                self.holes.insert(extent.domain, rest, hole.warm);
            }
        }
        Some(hole.warm)
    }

    /// Gives the extent to another domain, and with it its holes.
    pub(crate) fn set_domain(&mut self, id: ExtentId, domain: Domain) {
        let Some(extent) = self.extents.get_mut(id) else { return };
        for (offset, hole) in &extent.holes {
            let range = Range { extent: id, offset: *offset, bytes: hole.bytes };
            self.holes.remove(extent.domain, range, hole.warm);
            self.holes.insert(domain, range, hole.warm);
        }
        let before = std::mem::replace(&mut extent.domain, domain);
        if before != domain {
            extent.has_creations = false;
            self.extents.note_domain(id, Some(before), Some(domain));
        }
    }

    /// Takes all holes of an extent out of the index, because the extent goes.
    pub(super) fn close_holes(&mut self, id: ExtentId) {
        let Some(extent) = self.extents.get_mut(id) else { return };
        for (offset, hole) in std::mem::take(&mut extent.holes) {
            let range = Range { extent: id, offset, bytes: hole.bytes };
            self.holes.remove(extent.domain, range, hole.warm);
        }
        extent.free_bytes = 0;
    }
}
