//! One look for room, and what it means.

use super::{Candidates, Older, Room, Search, Stuck};
use crate::deletes::Again;
use crate::evict::{EvictionScope, Measure};
use crate::jobs::Job;
use crate::ports::{Directory, Entry};
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

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
        let charged = self.space.memory.charged_bytes();
        let (mut free, mut digest) = (Vec::new(), 0);
        let next = self.collect(again, &serials, |store, look| {
            digest = look.digest;
            free = store.settle_candidates(job, candidates, &look.pins);
        });
        self.finish_eviction(&free);
        self.note_collecting();
        job.search.older = next.map_or(Older::Done, Older::From);
        if self.space.memory.charged_bytes() < charged {
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
        if job.may_spill() && self.objects.tier.is_writing() {
            return Room::Coming;
        }
        let stuck = Stuck { digest, listings: self.objects.records.listings() };
        let Search { older, cached, kept, .. } = job.search;
        let goes_on = matches!(older, Older::From(_))
            || cached < self.objects.candidates_count(&self.sessions, EvictionScope::Anybodys)
            || job.may_spill()
                && self.spillable().is_some_and(|list| kept < self.objects.records.count(list));
        if goes_on && self.space.jobs.stuck != Some(stuck) {
            return Room::Later;
        }
        self.space.jobs.stuck = Some(stuck);
        Room::Nowhere
    }

    fn candidates_for(&mut self, job: &Job, shortage: u64, measure: Measure) -> Candidates {
        let mut candidates =
            Candidates { hidden: Vec::new(), examined: Vec::new(), spillable: Vec::new() };
        if job.search.cached
            < self.objects.candidates_count(&self.sessions, EvictionScope::Anybodys)
        {
            if job.search.examines {
                let oldest = self
                    .objects
                    .candidates(&self.sessions, EvictionScope::Anybodys)
                    .take(EXAMINED_MAX);
                candidates.examined = oldest.map(|record| self.objects.entry(record)).collect();
            } else {
                candidates.hidden =
                    self.hide_for_eviction(shortage, measure, EvictionScope::Anybodys, PIECE);
            }
        } else if let Some(list) = self.spillable().filter(|_| job.may_spill()) {
            let oldest = self.objects.records.oldest(list).take(EXAMINED_MAX);
            candidates.spillable = oldest.map(|record| self.objects.entry(record)).collect();
        }
        candidates
    }

    /// Pinned objects count as just used. Those that are not are the oldest then, and are hidden
    /// for the next look.
    fn note_examined(&mut self, job: &mut Job, examined: &[Entry], pins: &[u32]) {
        for (entry, _) in examined.iter().zip(pins).filter(|(_, pins)| **pins > 0) {
            self.objects.records.touch(entry.record);
        }
        job.search.examines = pins.iter().all(|pins| *pins > 0);
        if job.search.examines {
            job.search.cached += examined.len();
        }
    }
}
