//! The node's part in listings: those that it makes, and those of others.

use plasmon_cluster::Slot;

use super::Node;
use crate::event::Event;
use crate::message::Message;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// A program asks, or the store answers.
    pub(super) fn listing_event(&mut self, now: Mono, event: Event) {
        let cx = context!(self, now);
        match event {
            Event::List { number, query, without } => {
                self.listings.ask(cx, number, query, &without);
            }
            Event::ListedHere { peer, question, page } => {
                self.listings.served(cx, peer, question, page);
            }
            _ => {}
        }
    }

    /// Another node asks or answers. What is no node of the map gets no answer.
    pub(super) fn listing(&mut self, now: Mono, (from, is_current): (Slot, bool), it: Message) {
        let cx = context!(self, now);
        match it {
            Message::List { question, query } if is_current => {
                self.listings.serve(cx, from, question, query);
            }
            Message::Listed { question, page } => self.listings.answered(cx, from, question, page),
            _ => {}
        }
    }
}
