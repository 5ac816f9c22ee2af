//! Which pages of a ledger exist.
//!
//! The client writes the mark below which its pins lie, and may write anything there. To read a
//! page that was never written would allocate it, outside of the store's capacity. So the daemon
//! asks the kernel which pages exist, and reads no others. A page that is there stays, so the
//! kernel is asked again only while pages below the mark are missing.
//!
//! A pin is in a page that exists: its client wrote it. The daemon's fence in `hide` comes after
//! the claim, or the claimer sees the hidden slot; if it comes after, the page was there before.

use std::ops::Range;
use std::os::fd::AsFd;

use plasmon_proto::limits::PINS_PER_CLIENT_MAX;
use rustix::fs::SeekFrom;

use crate::sync::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 4096;

/// Entries in one page.
pub(super) const PAGE_ENTRIES: usize = PAGE_BYTES / size_of::<u64>();

const PAGES: usize = PINS_PER_CLIENT_MAX / PAGE_ENTRIES;

/// The pages that are known to exist, a bit for each.
#[derive(Debug)]
pub(super) struct Pages([AtomicU64; PAGES / 64]);

impl Pages {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn exists(&self, page: usize) -> bool {
        self.0[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 != 0
    }

    fn note(&self, page: usize) {
        self.0[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
    }

    /// Calls `look` with the entries below `high` whose pages exist, run by run. The ledger starts
    /// at `start` of the file.
    pub(super) fn runs(
        &self,
        file: impl AsFd,
        start: usize,
        high: usize,
        mut look: impl FnMut(Range<usize>),
    ) {
        let pages = high.div_ceil(PAGE_ENTRIES);
        if let Some(missing) = (0..pages).find(|page| !self.exists(*page)) {
            self.search(file, start, missing..pages);
        }
        let mut page = 0;
        while page < pages {
            let first = page;
            while page < pages && self.exists(page) {
                page += 1;
            }
            if first < page {
                look(first * PAGE_ENTRIES..high.min(page * PAGE_ENTRIES));
            }
            page += 1;
        }
    }

    /// Asks the kernel which pages there are by now.
    fn search(&self, file: impl AsFd, start: usize, pages: Range<usize>) {
        let at = |page: usize| (start + page * PAGE_BYTES) as u64;
        let page_of = |offset: u64| (offset as usize).saturating_sub(start) / PAGE_BYTES;
        let mut page = pages.start;
        while page < pages.end {
            let data = rustix::fs::seek(&file, SeekFrom::Data(at(page)));
            let (first, end) = match data.map(page_of) {
                Ok(first) if first < pages.end => {
                    let hole = rustix::fs::seek(&file, SeekFrom::Hole(at(first))).map(page_of);
                    // Without an answer every page has to be looked at.
                    (first, hole.map_or(pages.end, |hole| hole.clamp(first + 1, pages.end)))
                }
                // No pages with data after this page, or none below the mark.
                Ok(_) | Err(rustix::io::Errno::NXIO) => return,
                Err(_) => (page, pages.end),
            };
            (first..end).for_each(|page| self.note(page));
            page = end;
        }
    }
}
