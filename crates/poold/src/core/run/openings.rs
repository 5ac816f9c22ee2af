//! Copies that the store has opened, for what they were opened for.

use plasmon_cluster::Slot;
use plasmon_pool::message::TransferNo;
use plasmon_pool::{Birth, Event};
use plasmon_proto::ObjectId;
use plasmon_proto::parts::Span;

use super::super::openings::{Opened, Wanted};
use super::Core;
use crate::loader::LoadJob;
use crate::memory::SharedSource;

impl Core {
    /// Has a copy opened for a transfer. Parts of a spilled one are read in its file; the whole of
    /// it is brought back.
    pub(super) fn open(
        &mut self,
        (id, birth): (ObjectId, Birth),
        of: (Slot, TransferNo),
        spans: Option<Vec<Span>>,
        wanted: Wanted,
    ) {
        let is_in_place = spans.is_some();
        let number = self.openings.begin(of, spans, wanted);
        match is_in_place {
            true => self.store.open_in_place(number, &id, birth),
            false => self.store.open(number, &id, birth),
        }
    }

    /// The store has opened a copy, or does not have it any more.
    pub(super) fn opened(&mut self, number: u64, source: Option<SharedSource>) {
        if self.checksums.has(number) {
            return self.read_copy(number, source);
        }
        let Some(source) = self.load_first(number, source) else { return };
        if self.assemblies.has(number) {
            return self.assemble(number, source);
        }
        match self.openings.opened(number, source) {
            Some(Opened::Serve(serve)) => self.movers.serve(serve),
            Some(Opened::Whole { peer, transfer, bytes }) => {
                self.step(Event::Fetched { peer, transfer, bytes: Some(bytes) });
            }
            Some(Opened::Gone { peer, transfer }) => {
                self.step(Event::Fetched { peer, transfer, bytes: None });
            }
            None => {}
        }
    }

    /// The copy, unless the parts of it that the core sends have to be read from a disk first: then
    /// it is opened once more when they are in memory.
    fn load_first(
        &mut self,
        number: u64,
        source: Option<SharedSource>,
    ) -> Option<Option<SharedSource>> {
        let spans = self.assemblies.spans(number).or_else(|| self.openings.spans_here(number));
        match source {
            Some(source) if !source.is_in_memory() => match spans {
                Some(spans) => {
                    let spans = spans.to_vec();
                    match self.loader.load(LoadJob { number, source, spans }) {
                        true => None,
                        false => Some(None),
                    }
                }
                None => Some(Some(source)),
            },
            source => Some(source),
        }
    }
}
