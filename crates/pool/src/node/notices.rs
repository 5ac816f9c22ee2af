//! The node's part in telling what happens to named objects.

use plasmon_cluster::Slot;

use super::Node;
use crate::event::Event;
use crate::message::Message;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// A program subscribes or is gone, or the store has said what an object is called.
    pub(super) fn notice_event(&mut self, now: Mono, event: Event) {
        let cx = context!(self, now);
        match event {
            Event::Subscribe { number } => self.notices.subscribe(cx, number),
            Event::Unsubscribe { number } => self.notices.unsubscribe(cx, number),
            Event::Described { number, found } => self.notices.described(cx, number, found),
            _ => {}
        }
    }

    /// Another node watches this one, or is watched by it.
    pub(super) fn notice(
        &mut self,
        now: Mono,
        (from, incarnation): (Slot, u64),
        is_current: bool,
        message: Message,
    ) {
        let cx = context!(self, now);
        match message {
            // One that the map does not know is heard when it asks again.
            Message::Watch { question, on } if is_current || !on => {
                self.notices.watch(cx, from, question, on);
            }
            Message::Watching { question } => {
                self.notices.watching(cx, (from, incarnation), question);
            }
            Message::Noticed { notices } => self.notices.noticed(cx, from, notices),
            _ => {}
        }
    }
}
