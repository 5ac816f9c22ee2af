//! What the node wants done: each effect goes to the part of the core that it is for.

use std::time::Duration;

use plasmon_pool::{Effect, Event, Mono};

use super::Core;
use crate::clock::now_us;
use crate::core::landings::{Accepted, Ending};
use crate::core::openings::Wanted;
use crate::movers::lane_of;
use crate::store::{LandingRequest, SealOptions};

impl Core {
    /// Gives the node an event, and carries out what follows.
    pub(super) fn step(&mut self, event: Event) {
        let Some(running) = &mut self.running else { return };
        let mut effects = std::mem::take(&mut self.effects);
        tracing::trace!(?event, "to the node");
        running.node.step(Mono(now_us()), event, &mut effects);
        effects.iter().for_each(|effect| tracing::trace!(?effect, "from the node"));
        for effect in effects.drain(..) {
            self.carry_out(effect);
        }
        self.effects = effects;
    }

    /// Carries out an effect, or keeps it until a landing is over.
    pub(super) fn carry_out(&mut self, effect: Effect) {
        let Some(effect) = self.backlog.keep(effect) else { return };
        match effect {
            Effect::Send { to, envelope } => {
                if let Some(running) = &mut self.running {
                    running.links.send(to, envelope, Duration::from_micros(now_us()));
                }
            }
            Effect::Tell(told) => self.store.tell(told),
            Effect::Land { ticket, id, birth, content } => {
                self.landings.ask(ticket, id);
                self.store.land(LandingRequest { ticket, id, birth, content });
            }
            Effect::Accept { transfer, ticket, source, segments } => {
                let lane = (source, lane_of(transfer));
                let accepted = Accepted { transfer, lane, segments };
                self.landings.accept(ticket, accepted, &self.movers);
            }
            Effect::Refuse(transfer) => self.landings.refuse(transfer, &self.movers),
            Effect::Seal { ticket, visible, keep } => {
                self.end_landing(ticket, Ending::Seal(SealOptions { visible, keep }));
            }
            Effect::Abandon(ticket) => self.end_landing(ticket, Ending::Abandon),
            Effect::Serve { peer, transfer, id, birth, spans, ranges } => {
                let of = (peer, transfer);
                self.open((id, birth), of, spans, Wanted::Segments(ranges));
            }
            Effect::Fetch { peer, transfer, id, birth, spans } => {
                self.open((id, birth), (peer, transfer), spans, Wanted::Whole);
            }
            Effect::Fill { ticket, bytes } => self.landings.fill(ticket, &bytes.0),
            Effect::EndServe { peer, transfer } => {
                self.openings.end(peer, transfer);
                self.assemblies.end((peer, transfer));
                self.movers.end_serve(peer, transfer);
            }
            Effect::ListHere { peer, question, query } => {
                let number = self.listings.begin(peer, question);
                self.store.list(number, query);
            }
            Effect::ReadCopies { peer, question, parts } => {
                self.read_copies((peer, question), parts);
            }
            Effect::Demote(ids) => self.store.demote(ids),
            Effect::Describe { number, id, birth } => self.store.describe(number, &id, birth),
            Effect::Allocate { .. }
            | Effect::WriteRegion { .. }
            | Effect::SealRegion(_)
            | Effect::EndRegion(_)
            | Effect::Region { .. } => self.region_effect(effect),
            Effect::Gather { peer, transfer, parts } => self.serve_parts((peer, transfer), parts),
            Effect::Report { group, since } => self.membership.report(group, since),
            Effect::ReportDrains(reports) => self.membership.report_drains(reports),
            Effect::Place { .. }
            | Effect::Listed { .. }
            | Effect::Verified { .. }
            | Effect::Checksummed { .. }
            | Effect::Subscribed { .. }
            | Effect::Notice(_)
            | Effect::NoticesLost
            | Effect::Read { .. }
            | Effect::GatherLanded { .. }
            | Effect::Gathered { .. } => self.answer(effect),
        }
    }
}
