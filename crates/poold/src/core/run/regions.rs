//! Regions: what programs ask of them, and what the node has done with those of this node.

use std::io;

use plasmon_pool::{Effect, Event};
use plasmon_proto::id::POOLED_IDENTITY_BYTES;
use plasmon_proto::region::RegionRequest;
use plasmon_proto::{Code, ObjectId};

use super::Core;
use crate::core::regions::{RegionAsked, RegionQuestion};
use crate::memory::BoxedLanding;
use crate::random::random;
use crate::store::AllocationRequest;

impl Core {
    /// Gives the node a question about a region. Before it takes part the answer is dropped at
    /// once.
    pub(super) fn ask_region(&mut self, question: RegionQuestion) -> io::Result<()> {
        let Some(running) = self.running.as_ref().filter(|_| self.is_ready) else { return Ok(()) };
        let RegionQuestion { owner, asked, answer } = question;
        let request = match asked {
            RegionAsked::Request(request) => request,
            RegionAsked::Allocate { home, bytes, copies, copies_min } => {
                let home = home.unwrap_or(running.slot);
                let id = ObjectId::pooled(random::<POOLED_IDENTITY_BYTES>()?, Some(home.0));
                RegionRequest::Allocate { id, bytes, copies, copies_min }
            }
        };
        let number = self.regions.begin(request.id(), answer);
        self.step(Event::Region { number, owner, request });
        Ok(())
    }

    /// The store gives the memory of a region, or refuses.
    pub(super) fn allocated(&mut self, id: ObjectId, memory: Result<BoxedLanding, Code>) {
        let result = memory.as_ref().map(|_| ()).map_err(|code| *code);
        self.regions.allocated(&id, memory.ok());
        self.step(Event::Allocated { id, result });
    }

    pub(super) fn region_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Allocate { id, bytes, copies, copies_min } => {
                self.regions.expect(id, copies > 1);
                self.store.allocate(AllocationRequest { id, bytes, copies, copies_min });
            }
            Effect::WriteRegion { id, offset, bytes } => self.regions.write(&id, offset, &bytes.0),
            Effect::SealRegion(id) => {
                if let Some((memory, settles)) = self.regions.end(&id) {
                    self.store.seal_region(id, memory, settles);
                }
            }
            Effect::EndRegion(id) => {
                if let Some((memory, _)) = self.regions.end(&id) {
                    self.store.end_region(id, memory);
                }
            }
            Effect::Region { number, reply } => self.regions.answered(number, reply),
            _ => {}
        }
    }
}
