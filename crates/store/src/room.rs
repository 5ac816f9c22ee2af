//! Making room for a request for memory, one look through the ledgers at a time.
//!
//! ```text
//!             ┌── deleted objects that were pinned ─────────────────────┐
//!  a look at  ├── the oldest that may be evicted, hidden before it      ├─► memory is free
//!             └── the oldest that may be spilled ──► being written ─────┴─► memory is coming
//!                     all are pinned ──► the next event looks at others, until all were
//! ```
//!
//! That nothing at all can go is remembered: as long as neither the pins nor the objects have
//! changed, the next request is refused after its first look.

use crate::deletes::Again;
use crate::evict::{Measure, Whose};
use crate::jobs::Job;
use crate::ports::{Directory, Entry};
use crate::records::List;
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

/// How far a request has looked for room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    /// The serial from which on deleted objects are looked for, `None` when all were.
    older: Older,
    /// How many objects that may be evicted were looked at in vain, from the oldest on.
    cached: usize,
    /// Objects that may be spilled and were found pinned, busy or too large.
    kept: usize,
    /// Whether the oldest are looked for without being hidden: too many of them are pinned.
    examines: bool,
}

#[derive(Clone, Copy, Debug)]
enum Older {
    From(u64),
    Done,
}

impl Default for Older {
    fn default() -> Self {
        Self::From(0)
    }
}

/// When it was found that nothing can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Of the pins at that time.
    digest: u64,
    /// How many objects had been listed by then.
    listings: u64,
}

/// What became of a piece of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Memory came free.
    Made,
    /// Objects are being spilled.
    Coming,
    /// The next event goes on.
    Later,
    /// There is none and will be none.
    Nowhere,
}

/// What one look is to find out.
struct Candidates {
    /// Hidden, to be evicted.
    hidden: Vec<Entry>,
    /// Objects that may be evicted, in sight.
    examined: Vec<Entry>,
    /// Objects that may be spilled, in sight.
    spillable: Vec<Entry>,
}

impl<D: Directory> Store<D> {
    /// Makes room for a request, or looks for it in one piece of what there is.
    pub(crate) fn make_room(&mut self, job: &mut Job) -> Room {
        if !self.work.may_look() {
            return Room::Later;
        }
        let (shortage, measure) = self.shortage_of(job);
        let candidates = self.candidates_for(job, shortage, measure);
        let Candidates { hidden, examined, spillable } = &candidates;
        let all = hidden.iter().chain(examined).chain(spillable);
        let serials: Vec<u64> = all.map(|entry| entry.serial).collect();
        let again = match job.search.older {
            Older::From(serial) => Again::From(serial),
            Older::Done => Again::None,
        };
        let charged = self.memory.charged_bytes();
        let (mut free, mut digest) = (Vec::new(), 0);
        let next = self.collect(again, &serials, |store, look| {
            digest = look.digest;
            free = store.settle_candidates(job, candidates, &look.pins);
        });
        self.finish_eviction(&free);
        self.note_collecting();
        job.search.older = next.map_or(Older::Done, Older::From);
        if self.memory.charged_bytes() < charged {
            job.search = Search::default();
            return Room::Made;
        }
        self.outcome(job, digest)
    }

    /// What a look means for the candidates. Returns those that are to be evicted.
    fn settle_candidates(
        &mut self,
        job: &mut Job,
        candidates: Candidates,
        pins: &[u32],
    ) -> Vec<Entry> {
        let Candidates { hidden, examined, spillable } = candidates;
        let (of_hidden, rest) = pins.split_at(hidden.len());
        let (of_examined, of_spillable) = rest.split_at(examined.len());
        let (shortage, measure) = self.shortage_of(job);
        if of_hidden.iter().all(|pins| *pins > 0) {
            job.search.cached += hidden.len();
            job.search.examines = true;
        }
        let (_, free) = self.settle_eviction(hidden, of_hidden, shortage, measure);
        if !examined.is_empty() {
            self.note_examined(job, &examined, of_examined);
        }
        job.search.kept += self.spill_unpinned(&spillable, of_spillable, shortage);
        free
    }

    fn outcome(&mut self, job: &Job, digest: u64) -> Room {
        if job.may_spill() && self.tier.is_writing() {
            return Room::Coming;
        }
        let stuck = Stuck { digest, listings: self.records.listings() };
        let Search { older, cached, kept, .. } = job.search;
        let goes_on = matches!(older, Older::From(_))
            || cached < self.candidates_count(Whose::Anybodys)
            || job.may_spill()
                && self.config.spill_bytes_max.is_some()
                && kept < self.records.count(List::Keep);
        if goes_on && self.jobs.stuck != Some(stuck) {
            return Room::Later;
        }
        self.jobs.stuck = Some(stuck);
        Room::Nowhere
    }

    fn candidates_for(&mut self, job: &Job, shortage: u64, measure: Measure) -> Candidates {
        let mut candidates =
            Candidates { hidden: Vec::new(), examined: Vec::new(), spillable: Vec::new() };
        if job.search.cached < self.candidates_count(Whose::Anybodys) {
            if job.search.examines {
                let oldest = self.candidates(Whose::Anybodys).take(EXAMINED_MAX);
                candidates.examined = oldest.map(|record| self.entry(record)).collect();
            } else {
                candidates.hidden =
                    self.hide_for_eviction(shortage, measure, Whose::Anybodys, PIECE);
            }
        } else if job.may_spill() && self.config.spill_bytes_max.is_some() {
            let oldest = self.records.oldest(List::Keep).take(EXAMINED_MAX);
            candidates.spillable = oldest.map(|record| self.entry(record)).collect();
        }
        candidates
    }

    /// Pinned objects count as just used. Those that are not are the oldest then, and are hidden
    /// for the next look.
    fn note_examined(&mut self, job: &mut Job, examined: &[Entry], pins: &[u32]) {
        for (entry, _) in examined.iter().zip(pins).filter(|(_, pins)| **pins > 0) {
            self.records.touch(entry.record);
        }
        job.search.examines = pins.iter().all(|pins| *pins > 0);
        if job.search.examines {
            job.search.cached += examined.len();
        }
    }
}
