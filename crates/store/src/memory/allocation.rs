//! Finding a place for a request, and taking it back.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::object::Level;

use super::place::{Ask, Need, PlacedRange, Reservation};
use super::{Domain, Extent, Kind, Memory};
use crate::effect::Effect;

/// What is reserved at least at a time for small objects that the store places one by one.
const CHUNK_BYTES: u64 = 256 << 10;

impl Memory {
    /// Finds a range whose pages are there: in an arena of the domain, or in an open one.
    pub(crate) fn place_warm(&mut self, domain: Domain, bytes: u64) -> Option<PlacedRange> {
        if !self.fits(Need { charge: bytes, fresh_bytes: 0 }) {
            return None;
        }
        let found = [Some(domain), self.open_to(domain)];
        let hole =
            found.into_iter().flatten().find_map(|it| self.holes.best_fit(it, true, bytes))?;
        Some(self.settle_place(Range { bytes, ..hole }, domain, None))
    }

    /// Finds a range whose pages must be reserved first: in an arena of the domain, in an open one,
    /// or in a new one. With `chunk`, more than asked is reserved at a time. With `give_back`, warm
    /// memory elsewhere is given back where that makes room.
    pub(crate) fn place_cold(
        &mut self,
        domain: Domain,
        bytes: u64,
        ask: Ask,
        out: &mut Vec<Effect>,
    ) -> Option<PlacedRange> {
        let least = self.pages(bytes);
        let fresh_bytes = if ask.chunk { least.max(CHUNK_BYTES) } else { least };
        if !self.make_room(Need { charge: bytes, fresh_bytes }, ask.give_back, out) {
            return None;
        }
        for found in [Some(domain), self.open_to(domain)].into_iter().flatten() {
            if let Some(hole) = self.holes.best_fit(found, false, fresh_bytes) {
                let cold = Range { bytes: fresh_bytes, ..hole };
                let reservation = Reservation { range: cold, new_extent: false };
                let range = Range { bytes, ..hole };
                return Some(self.settle_place(range, domain, Some(reservation)));
            }
        }
        self.place_in_new_arena(domain, bytes, fresh_bytes)
    }

    /// Nothing else is placed in a new arena before it is there: what is reserved in it would be
    /// asked of an extent that does not exist.
    fn place_in_new_arena(
        &mut self,
        domain: Domain,
        bytes: u64,
        fresh: u64,
    ) -> Option<PlacedRange> {
        let extent_bytes = self.limits.arena_bytes.max(fresh);
        let id = self.extents.create(extent_bytes, Kind::Arena, domain)?;
        self.unmade_bytes += extent_bytes - fresh;
        self.charged_bytes += bytes;
        let cold = Range { extent: id, offset: 0, bytes: fresh };
        let reservation = Some(Reservation { range: cold, new_extent: true });
        Some(PlacedRange {
            range: Range { bytes, ..cold },
            extent_bytes,
            charge: bytes,
            reservation,
        })
    }

    fn settle_place(
        &mut self,
        range: Range,
        domain: Domain,
        reservation: Option<Reservation>,
    ) -> PlacedRange {
        let extent = self.extents.get(range.extent).expect("a hole lies in an extent");
        let extent_bytes = extent.bytes;
        if extent.domain != domain {
            self.set_domain(range.extent, domain);
        }
        self.take(reservation.map_or(range, |cold| cold.range)).expect("the hole was just found");
        self.charged_bytes += range.bytes;
        PlacedRange { range, extent_bytes, charge: range.bytes, reservation }
    }

    /// Finds an exact extent: an idle one up to an eighth larger than needed, or a new one.
    pub(crate) fn place_exact(
        &mut self,
        domain: Domain,
        footprint: u64,
        charge: u64,
        strict: bool,
        out: &mut Vec<Effect>,
    ) -> Option<PlacedRange> {
        let bytes = self.pages(footprint);
        if !self.fits(Need { charge, fresh_bytes: 0 }) {
            return None;
        }
        let idle = self.idle_extent(domain, bytes).filter(|_| !strict);
        let (id, extent_bytes) = match idle {
            Some(found) => {
                self.extents.wake(found.0);
                self.set_domain(found.0, domain);
                found
            }
            None if self.make_room(Need { charge, fresh_bytes: bytes }, true, out) => {
                (self.extents.create(bytes, Kind::Exact, domain)?, bytes)
            }
            None => return None,
        };
        if let Some(extent) = self.extents.get_mut(id) {
            extent.strict = strict;
        }
        self.charged_bytes += charge;
        let whole = Range { extent: id, offset: 0, bytes };
        let reservation = idle.is_none().then_some(Reservation { range: whole, new_extent: true });
        let range = Range { bytes: footprint, ..whole };
        Some(PlacedRange { range, extent_bytes, charge, reservation })
    }

    fn idle_extent(&self, domain: Domain, bytes: u64) -> Option<(ExtentId, u64)> {
        let shared = self.limits.level == Level::Shared;
        self.extents
            .idle()
            .filter(|extent| extent.kind == Kind::Exact)
            .filter(|extent| extent.bytes >= bytes && extent.bytes - bytes <= bytes / 8)
            .filter(|extent| shared || extent.domain == domain)
            .min_by_key(|extent| extent.bytes)
            .map(|extent| (extent.id, extent.bytes))
    }

    /// The domain whose memory this one may take as well.
    pub(super) fn open_to(&self, domain: Domain) -> Option<Domain> {
        (self.limits.level == Level::Shared && domain != Domain::Open).then_some(Domain::Open)
    }

    /// The reservation of a place succeeded: what was reserved beyond the place is a warm hole now,
    /// and the rest of a new arena a cold one.
    pub(crate) fn reserved(&mut self, placed: &PlacedRange) {
        let Some(reservation) = placed.reservation else { return };
        if !self.is_arena(placed.range.extent) {
            return self.await_pages(placed.range.extent, false);
        }
        let (range, reserved_end) = (placed.range, end(&reservation.range));
        if reservation.new_extent {
            self.unmade_bytes -= placed.extent_bytes - reserved_end;
            let rest =
                Range { offset: reserved_end, bytes: placed.extent_bytes - reserved_end, ..range };
            self.open_hole(rest, false);
        }
        let rest = Range { offset: end(&range), bytes: reserved_end - end(&range), ..range };
        self.open_hole(rest, true);
    }

    /// The reservation of a place failed: its pages are as cold as before.
    pub(crate) fn not_reserved(&mut self, placed: &PlacedRange, out: &mut Vec<Effect>) {
        let Some(reservation) = placed.reservation else { return };
        self.charged_bytes -= placed.charge;
        if !reservation.new_extent {
            return match self.is_arena(placed.range.extent) {
                true => self.open_hole(reservation.range, false),
                false => self.not_grown(&placed.range),
            };
        }
        if self.is_arena(placed.range.extent) {
            self.unmade_bytes -= placed.extent_bytes - end(&reservation.range);
        }
        self.abandon_extent(placed.range.extent, out);
    }

    /// Frees a range that was charged. Its pages stay warm, within the limit.
    pub(crate) fn release(&mut self, range: Range, charge: u64, out: &mut Vec<Effect>) {
        let Some(extent) = self.extents.get(range.extent) else { return };
        let (kind, domain, strict) = (extent.kind, extent.domain, extent.strict);
        self.charged_bytes -= charge;
        match kind {
            Kind::Exact | Kind::Growing if strict || domain == Domain::Closed => {
                self.drop_extent(range.extent, out);
            }
            Kind::Exact => self.extents.rest(range.extent),
            Kind::Growing => self.rest_growing(range.extent, out),
            Kind::Arena => {
                self.open_hole(range, true);
                let empty = self.extents.get(range.extent).is_some_and(|extent| extent.is_empty());
                if empty && (strict || domain == Domain::Closed) {
                    self.drop_extent(range.extent, out);
                }
            }
        }
        self.trim(out);
    }

    /// Its writer left, or must not write it any more.
    pub(crate) fn orphan(&mut self, id: ExtentId, out: &mut Vec<Effect>) {
        let shared = self.limits.level == Level::Shared;
        self.set_domain(id, if shared { Domain::Open } else { Domain::Closed });
        let empty = self.extents.get(id).is_some_and(|extent| extent.is_empty());
        if (empty && !shared) || self.is_idle_growing(id) {
            self.drop_extent(id, out);
        }
    }

    /// Forgets an extent in which nothing is in use. Where the kernel does not let its pages be
    /// taken away they stay charged.
    pub(super) fn drop_extent(&mut self, id: ExtentId, out: &mut Vec<Effect>) {
        if let Some(bytes) = self.extents.get(id).and_then(|extent| self.bytes_left_by(extent)) {
            self.retained.leave(id, bytes);
        }
        self.abandon_extent(id, out);
    }

    /// Forgets an extent that has no memory, or none that stays.
    fn abandon_extent(&mut self, id: ExtentId, out: &mut Vec<Effect>) {
        self.close_holes(id);
        if self.is_idle_growing(id) {
            out.push(Effect::Trim { extent: id, bytes: 0 });
        }
        self.extents.remove(id);
        out.push(Effect::Drop(id));
    }

    /// What stays of an extent for as long as any process has it mapped; `None` when the daemon can
    /// take its memory away.
    fn bytes_left_by(&self, extent: &Extent) -> Option<u64> {
        let stays = self.limits.level != Level::Shared || extent.strict;
        let cold = extent.holes.values().filter(|hole| !hole.warm).map(|hole| hole.bytes);
        let present = extent.bytes - cold.sum::<u64>() + extent.surplus_bytes;
        (stays && extent.kind != Kind::Growing).then_some(present.min(extent.bytes))
    }

    /// Memory of an extent that was dropped, or was to be, is still there and will be for now.
    pub(crate) fn retain(&mut self, id: ExtentId, bytes: u64) {
        self.retained.hold(id, self.pages(bytes));
    }

    /// The memory of an extent that was dropped is gone.
    pub(crate) fn released(&mut self, id: ExtentId) {
        self.retained.release(id);
    }
}

/// Where a range that lies in an extent ends.
fn end(range: &Range) -> u64 {
    range.offset + range.bytes
}
