//! Sources that are registered, for providers that send from registered memory alone.
//!
//! ```text
//!   hold ──► nothing ── a write from there ──► pending ──► open ──► lent to writes
//!               ▲                                 └──► refused: that part is copied    │
//!               └── another part needs the place, and no write uses this one ◄─────────┘
//!   release, and no write uses it ──► all of it is closed, then its memory is let go
//! ```
//!
//! A source is registered in parts, each when something is first written from it: so much memory is
//! locked at most, and to lock a part takes milliseconds. What is not registered is copied into a
//! bounce. The memory is kept here until its registrations are closed, which is the caller's to do:
//! here is decided what is registered, and nothing is called.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of a part, but the last one of a source.
pub(crate) const PART_BYTES: usize = 64 << 20;

/// Parts that are registered at once: with them 2 GiB of memory are locked.
pub(crate) const PARTS_MAX: usize = 32;

/// A source of no more bytes is copied: it fits a bounce, and to register it takes about as long.
pub(crate) const COPIED_BYTES_MAX: usize = 1 << 20;

/// What keeps the memory of a write.
pub(crate) trait Keep: Send + Sync {}

impl<T: Send + Sync> Keep for T {}

/// What became of the parts of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Parts that were registered since the endpoint was opened.
    pub registered: u64,
    /// Parts that could not be registered, and were copied.
    pub refused: u64,
    /// Parts that are registered now.
    pub open: usize,
}

/// A registration of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) number: u64,
    pub(crate) description: *mut c_void,
}

/// The number of a source, and which of its parts.
pub(crate) type Place = (u64, usize);

/// A part that a write uses until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    pub(crate) place: Place,
    pub(crate) description: *mut c_void,
}

/// Registrations that are to be closed, and then their memory is let go.
pub(crate) struct Gone {
    pub(crate) regions: Vec<u64>,
    pub(crate) keep: Arc<dyn Keep>,
}

/// How a write gets at its memory.
pub(crate) enum Lending {
    /// By way of a bounce.
    Copied,
    /// As it is.
    Lent(Lent),
    /// This memory is to be registered now, after what is gone was closed. It is kept meanwhile.
    Register(Place, (*const u8, usize), Option<Gone>),
}

enum State {
    Pending,
    Open(Region),
    Refused,
}

struct Part {
    state: State,
    /// Writes that use it, with the one that has it registered.
    writes: usize,
    /// When it was last lent.
    used: u64,
}

struct Source {
    start: *const u8,
    bytes: usize,
    keep: Arc<dyn Keep>,
    holders: usize,
}

/// The sources of an endpoint.
#[derive(Default)]
pub(crate) struct Sources {
    next: u64,
    /// Counts what was lent.
    clock: u64,
    by_number: BTreeMap<u64, Source>,
    parts: BTreeMap<Place, Part>,
    registered: u64,
    refused: u64,
}

// SAFETY: the pointers are to memory that the sources keep, and belong to no thread.
unsafe impl Send for Sources {}

impl Source {
    /// The part in which all of so many bytes are.
    fn part_of(&self, from: *const u8, bytes: usize) -> Option<usize> {
        let offset = from.addr().checked_sub(self.start.addr())?;
        let last = offset.checked_add(bytes.checked_sub(1)?)?;
        (last < self.bytes && offset / PART_BYTES == last / PART_BYTES)
            .then_some(offset / PART_BYTES)
    }
}

impl Sources {
    /// Memory from which will be written, and what keeps it. The same memory has the same number,
    /// and is held until each holder has released it.
    pub(crate) fn hold(&mut self, memory: (*const u8, usize), keep: Arc<dyn Keep>) -> u64 {
        let (start, bytes) = memory;
        let is_it = |source: &&mut Source| (source.start, source.bytes) == memory;
        let mut sources = self.by_number.iter_mut();
        if let Some((number, source)) = sources.find(|(_, source)| is_it(source)) {
            source.holders += 1;
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.by_number.insert(number, Source { start, bytes, keep, holders: 1 });
        number
    }

    /// How so many bytes are written from there.
    pub(crate) fn lend(&mut self, from: *const u8, bytes: usize) -> Lending {
        let found = self.by_number.iter().find_map(|(number, source)| {
            source.part_of(from, bytes).map(|part| ((*number, part), source))
        });
        let Some((place, source)) = found else { return Lending::Copied };
        let at = place.1 * PART_BYTES;
        let memory = (source.start.wrapping_add(at), (source.bytes - at).min(PART_BYTES));
        self.clock += 1;
        let used = self.clock;
        if let Some(part) = self.parts.get_mut(&place) {
            let State::Open(Region { description, .. }) = part.state else {
                return Lending::Copied;
            };
            part.writes += 1;
            part.used = used;
            return Lending::Lent(Lent { place, description });
        }
        let gone = if self.open() < PARTS_MAX { None } else { self.take_oldest() };
        if self.open() >= PARTS_MAX {
            return Lending::Copied;
        }
        self.parts.insert(place, Part { state: State::Pending, writes: 1, used });
        Lending::Register(place, memory, gone)
    }

    /// Parts that are registered, or are being.
    fn open(&self) -> usize {
        self.parts.values().filter(|part| !matches!(part.state, State::Refused)).count()
    }

    /// Gives up the part that was not lent for longest, of those that no write uses.
    fn take_oldest(&mut self) -> Option<Gone> {
        let unused = self.parts.iter().filter_map(|(place, part)| match part.state {
            State::Open(region) if part.writes == 0 => Some((part.used, *place, region.number)),
            _ => None,
        });
        let (_, place, region) = unused.min()?;
        let keep = self.by_number.get(&place.0)?.keep.clone();
        self.parts.remove(&place);
        Some(Gone { regions: vec![region], keep })
    }

    /// A part is registered, and lent to the write that had it registered; or it cannot be, and
    /// that write and later ones are copied. A source that is not known any more is one of an
    /// endpoint that was closed.
    pub(crate) fn registered(&mut self, place: Place, region: Option<Region>) -> Option<Lent> {
        let part = self.parts.get_mut(&place)?;
        let Some(region) = region else {
            part.state = State::Refused;
            self.refused += 1;
            return None;
        };
        part.state = State::Open(region);
        self.registered += 1;
        Some(Lent { place, description: region.description })
    }

    /// A write that used a part, or was to, is over.
    pub(crate) fn end(&mut self, place: Place) -> Option<Gone> {
        self.parts.get_mut(&place)?.writes -= 1;
        self.settle(place.0)
    }

    /// A holder of a source writes no more from it.
    pub(crate) fn release(&mut self, number: u64) -> Option<Gone> {
        self.by_number.get_mut(&number)?.holders -= 1;
        self.settle(number)
    }

    fn settle(&mut self, number: u64) -> Option<Gone> {
        let places = (number, 0)..=(number, usize::MAX);
        let is_held = self.by_number.get(&number)?.holders > 0;
        if is_held || self.parts.range(places.clone()).any(|(_, part)| part.writes > 0) {
            return None;
        }
        let keep = self.by_number.remove(&number)?.keep;
        let parts: Vec<Place> = self.parts.range(places).map(|(place, _)| *place).collect();
        let region = |place| match self.parts.remove(&place)?.state {
            State::Open(region) => Some(region.number),
            State::Pending | State::Refused => None,
        };
        Some(Gone { regions: parts.into_iter().filter_map(region).collect(), keep })
    }

    /// The endpoint is closed, and its registrations are: what kept the sources.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<dyn Keep>> {
        self.parts.clear();
        std::mem::take(&mut self.by_number).into_values().map(|source| source.keep).collect()
    }

    pub(crate) fn counts(&self) -> SourceCounts {
        let (registered, refused) = (self.registered, self.refused);
        SourceCounts { registered, refused, open: self.open() }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use plasmon_testkit::Random;

    use super::*;

    /// An address; nothing here reads from it.
    fn at(address: usize) -> *const u8 {
        ptr::without_provenance(address)
    }

    fn region(number: u64) -> Region {
        Region { number, description: ptr::without_provenance_mut(number as usize + 1) }
    }

    fn hold(sources: &mut Sources, start: usize, bytes: usize) -> (u64, Arc<()>) {
        let keep = Arc::new(());
        (sources.hold((at(start), bytes), Arc::new(keep.clone())), keep)
    }

    /// Has a write begun, which is the first one from its part; the registration has this number.
    fn register(sources: &mut Sources, from: usize, number: u64) -> (Lent, Option<Gone>) {
        let Lending::Register(place, _, gone) = sources.lend(at(from), 1) else {
            panic!("{from} is registered")
        };
        (sources.registered(place, Some(region(number))).unwrap(), gone)
    }

    #[test]
    fn a_part_is_registered_once_and_closed_before_its_memory_is_let_go() {
        let mut sources = Sources::default();
        let (number, keep) = hold(&mut sources, 1000, PART_BYTES + 500);
        assert_eq!(hold(&mut sources, 1000, PART_BYTES + 500).0, number, "the same memory");
        let Lending::Register(place, memory, None) = sources.lend(at(1000), 500) else { panic!() };
        assert_eq!((place, memory), ((number, 0), (at(1000), PART_BYTES)));
        // What is not registered yet is not waited for.
        assert!(matches!(sources.lend(at(1000), 500), Lending::Copied));
        let lent = sources.registered(place, Some(region(7))).unwrap();
        assert_eq!(lent.description, region(7).description);
        let Lending::Lent(second) = sources.lend(at(1500), 9) else { panic!() };
        assert_eq!(second, lent);
        let Lending::Register(last, memory, None) = sources.lend(at(1499 + PART_BYTES), 1) else {
            panic!()
        };
        assert_eq!(memory, (at(1000 + PART_BYTES), 500));
        // Across two parts; beyond the end; before the beginning; nothing; all there is.
        for (from, bytes) in
            [(999 + PART_BYTES, 2), (1499 + PART_BYTES, 2), (999, 1), (1000, 0), (1000, usize::MAX)]
        {
            assert!(matches!(sources.lend(at(from), bytes), Lending::Copied), "{from} {bytes}");
        }
        assert!(sources.registered(last, None).is_none());
        assert!(matches!(sources.lend(at(1000 + PART_BYTES), 1), Lending::Copied), "refused once");
        assert_eq!(sources.counts(), SourceCounts { registered: 1, refused: 1, open: 1 });
        assert!(sources.end(last).is_none() && sources.end(place).is_none());
        assert!(sources.release(number).is_none(), "another holder");
        assert!(sources.release(number).is_none(), "a write is under way");
        let gone = sources.end(place).unwrap();
        assert_eq!((gone.regions, Arc::strong_count(&keep)), (vec![7], 2));
        drop(gone.keep);
        assert_eq!((Arc::strong_count(&keep), sources.counts().open), (1, 0));
        assert!(sources.end(place).is_none() && sources.release(number).is_none());
    }

    #[test]
    fn the_part_that_was_not_used_for_longest_goes_first_and_never_one_that_is_in_use() {
        let mut sources = Sources::default();
        hold(&mut sources, 0, (PARTS_MAX + 2) * PART_BYTES);
        let lent: Vec<Lent> = (0..PARTS_MAX)
            .map(|part| register(&mut sources, part * PART_BYTES, part as u64).0)
            .collect();
        let next = PARTS_MAX * PART_BYTES;
        assert!(matches!(sources.lend(at(next), 1), Lending::Copied), "all are in use");
        // The first is in use still, the second was used after the third.
        assert!(lent[1..].iter().all(|lent| sources.end(lent.place).is_none()));
        assert!(matches!(sources.lend(at(PART_BYTES), 1), Lending::Lent(_)));
        assert!(sources.end(lent[1].place).is_none());
        let (_, gone) = register(&mut sources, next, 100);
        assert_eq!(gone.unwrap().regions, [2]);
        assert_eq!(sources.counts().open, PARTS_MAX);
        // What went can come again.
        let (_, gone) = register(&mut sources, 2 * PART_BYTES, 101);
        assert_eq!(gone.unwrap().regions, [3]);
        assert_eq!(sources.take_all().len(), 1);
        assert!(sources.end(lent[0].place).is_none());
        assert!(matches!(sources.lend(at(0), 1), Lending::Copied));
    }

    /// Any order of holders and writes: as many are registered as may be, a registration is closed
    /// once, while no write uses it and its memory is kept, and at the end none is left.
    #[test]
    fn registrations_are_bounded_and_end_with_their_sources() {
        let mut dice = Random::new(4);
        let mut sources = Sources::default();
        let (mut holds, mut lent, mut open) = (Vec::new(), Vec::<Lent>::new(), BTreeMap::new());
        let mut number = 0;
        for step in 0_u32.. {
            let is_ending = step > 20_000;
            if is_ending && holds.is_empty() && lent.is_empty() {
                break;
            }
            let gone = match dice.below(if is_ending { 2 } else { 6 }) {
                0 if !holds.is_empty() => {
                    sources.release(holds.swap_remove(dice.size_below(holds.len())))
                }
                1 | 2 if !lent.is_empty() => {
                    sources.end(lent.swap_remove(dice.size_below(lent.len())).place)
                }
                3 if holds.len() < 30 => {
                    let start = (1 + dice.size_below(20)) << 40;
                    holds.push(hold(&mut sources, start, 3 * PART_BYTES).0);
                    None
                }
                _ if is_ending => None,
                _ => {
                    let start = (1 + dice.size_below(20)) << 40;
                    let from = start + dice.size_below(3) * PART_BYTES;
                    match sources.lend(at(from), 1) {
                        Lending::Copied => None,
                        Lending::Lent(part) => {
                            lent.push(part);
                            None
                        }
                        Lending::Register(place, _, gone) => {
                            number += 1;
                            let part = sources.registered(place, Some(region(number))).unwrap();
                            open.insert(number, part);
                            lent.push(part);
                            gone
                        }
                    }
                }
            };
            for region in gone.into_iter().flat_map(|gone| gone.regions) {
                let part = open.remove(&region).expect("it is closed once");
                assert!(!lent.contains(&part), "it is in use");
            }
            assert_eq!(sources.counts().open, open.len());
            assert!(open.len() <= PARTS_MAX);
        }
        assert!(open.is_empty() && sources.by_number.is_empty() && sources.parts.is_empty());
        assert!(number > 100, "{number}");
    }
}
