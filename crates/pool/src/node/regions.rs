//! Regions: those of this node, and what its programs ask of any.

use plasmon_cluster::Slot;

use super::Node;
use crate::event::Event;
use crate::message::Message;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    pub(super) fn region_event(&mut self, now: Mono, event: Event) {
        let cx = context!(self, now);
        match event {
            Event::Region { number, owner, request } => {
                self.region_asks.ask(cx, number, owner, request);
            }
            Event::RegionOwnerGone(owner) => self.region_asks.owner_gone(cx, owner),
            Event::Allocated { id, result } => self.regions.allocated(cx, id, result),
            Event::RegionSealed { id, is_sealed, result } => {
                self.regions.sealed(cx, id, is_sealed, result);
            }
            _ => {}
        }
    }

    pub(super) fn region(&mut self, now: Mono, from: (Slot, u64), message: Message) {
        let cx = context!(self, now);
        match message {
            Message::Region { question, request } => {
                self.regions.asked(cx, &self.copies, from, question, request);
            }
            Message::RegionAnswered { question, reply } => {
                self.region_asks.answered(cx, from.0, question, reply);
            }
            Message::RegionOver { id } => self.region_asks.over(from.0, &id),
            _ => {}
        }
    }
}
