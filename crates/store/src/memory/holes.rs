//! The holes of all arenas, found by size.
//!
//! Each arena knows its holes by offset, for coalescing; this index knows all of them by who may
//! use them, warmth and size, for the best fit. Warm and cold holes never coalesce with each other:
//! the pages of a warm one are there, those of a cold one must be reserved first. Cold holes begin
//! and end at pages.

use std::collections::BTreeSet;

use plasmon_proto::extent::{ExtentId, Range};

use super::domain::Domain;
use super::page::PageSize;

/// A free part of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) bytes: u64,
    pub(super) warm: bool,
}

/// All holes, ordered for the best fit.
#[derive(Debug)]
pub(super) struct HoleIndex {
    page: PageSize,
    fits: BTreeSet<(Domain, bool, u64, ExtentId, u64)>,
    /// Warm holes with at least one whole page, by the bytes of their whole pages.
    warm: BTreeSet<(u64, ExtentId, u64)>,
    warm_bytes: u64,
    cold_bytes: u64,
}

impl HoleIndex {
    pub(super) fn new(page: PageSize) -> Self {
        let (fits, warm) = (BTreeSet::new(), BTreeSet::new());
        Self { page, fits, warm, warm_bytes: 0, cold_bytes: 0 }
    }

    pub(super) fn warm_bytes(&self) -> u64 {
        self.warm_bytes
    }

    pub(super) fn cold_bytes(&self) -> u64 {
        self.cold_bytes
    }

    pub(super) fn insert(&mut self, domain: Domain, range: Range, warm: bool) {
        self.fits.insert((domain, warm, range.bytes, range.extent, range.offset));
        if !warm {
            self.cold_bytes += range.bytes;
            return;
        }
        let (_, whole) = self.page.whole_within(range.offset, range.bytes);
        if whole > 0 {
            self.warm.insert((whole, range.extent, range.offset));
            self.warm_bytes += whole;
        }
    }

    pub(super) fn remove(&mut self, domain: Domain, range: Range, warm: bool) {
        self.fits.remove(&(domain, warm, range.bytes, range.extent, range.offset));
        if !warm {
            self.cold_bytes -= range.bytes;
            return;
        }
        let (_, whole) = self.page.whole_within(range.offset, range.bytes);
        if whole > 0 {
            self.warm.remove(&(whole, range.extent, range.offset));
            self.warm_bytes -= whole;
        }
    }

    /// The smallest hole of the domain that holds `bytes`.
    pub(super) fn best_fit(&self, domain: Domain, warm: bool, bytes: u64) -> Option<Range> {
        let least = (domain, warm, bytes, ExtentId(0), 0);
        let (found, temperature, bytes, extent, offset) = *self.fits.range(least..).next()?;
        let fits = found == domain && temperature == warm;
        fits.then_some(Range { extent, offset, bytes })
    }

    /// The warm hole with the most whole pages.
    pub(super) fn warmest(&self) -> Option<(ExtentId, u64)> {
        self.warm.last().map(|(_, extent, offset)| (*extent, *offset))
    }
}
