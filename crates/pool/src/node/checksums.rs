//! What a node does when an operator has the contents of copies compared.

use plasmon_cluster::Slot;

use super::Node;
use crate::event::Event;
use crate::message::Message;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// A question of this node's programs, or what was read for another node.
    pub(super) fn checksum_event(&mut self, now: Mono, event: Event) {
        match event {
            Event::Checksum { number, node, query } => {
                self.checksums.ask(context!(self, now), number, (node, query));
            }
            Event::CopiesRead { peer, question, read } => {
                let (serves, copies) = (&mut self.checksum_serves, &self.copies);
                serves.read(context!(self, now), copies, (peer, question), read);
            }
            _ => {}
        }
    }

    /// A question of another node, or its answer.
    pub(super) fn checksum_message(&mut self, now: Mono, from: Slot, message: Message) {
        match message {
            Message::Checksum { question, query } => {
                let (serves, copies) = (&mut self.checksum_serves, &self.copies);
                serves.serve(context!(self, now), copies, (from, question), query);
            }
            Message::Checksummed { question, page } => {
                self.checksums.answered(context!(self, now), from, question, page);
            }
            _ => {}
        }
    }
}
