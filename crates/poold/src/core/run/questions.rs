//! What programs ask the node about the whole pool.

use std::sync::mpsc::SyncSender;

use plasmon_cluster::Slot;
use plasmon_pool::record::Place;
use plasmon_pool::tally::Verified;
use plasmon_pool::{Event, Mono};
use plasmon_proto::ObjectId;
use plasmon_proto::participation::Participation;

use super::Core;
use crate::clock::now_us;
use crate::core::listings::ListQuestion;
use crate::core::subscribers::Subscriber;

impl Core {
    /// Asks the node where an object is. Before it takes part the answer is dropped at once.
    pub(super) fn ask(&mut self, id: ObjectId, answer: SyncSender<Place>) {
        if !self.is_ready || self.running.is_none() {
            return;
        }
        self.question += 1;
        let number = self.question;
        self.questions.insert(number, answer);
        self.step(Event::Where { number, id });
    }

    /// Asks the node for a page of a listing, as [`Self::ask`] does.
    pub(super) fn list(&mut self, question: ListQuestion) {
        if !self.is_ready || self.running.is_none() {
            return;
        }
        let ListQuestion { query, without, answer } = question;
        let number = self.listings.ask(answer);
        self.step(Event::List { number, query, without });
    }

    /// Has the pool compared. Before the node takes part the answer is dropped at once.
    pub(super) fn verify(&mut self, within_ms: u64, answer: SyncSender<Verified>) {
        if !self.is_ready || self.running.is_none() {
            return;
        }
        self.question += 1;
        let number = self.question;
        self.verifications.insert(number, answer);
        self.step(Event::Verify { number, within_ms });
    }

    /// How far this node is with taking part.
    pub(super) fn participation(&self) -> Participation {
        let is_leased = self.lease.is_some_and(|until| Mono(now_us()) < until);
        let running = self.running.as_ref().filter(|_| self.is_ready);
        let found = running.and_then(|running| Some((running, self.peers.map.as_ref()?)));
        let Some((running, map)) = found else {
            return Participation { is_leased, ..Participation::default() };
        };
        let live = || map.nodes().filter(|(_, node)| node.is_live()).map(|(slot, _)| slot);
        let is_reached = |slot: &Slot| *slot == running.slot || running.links.is_up(*slot);
        Participation {
            epoch: map.epoch().0,
            slot: Some(running.slot).filter(|slot| map.is_live(*slot)),
            is_leased,
            live: live().count() as u32,
            unreached: live().filter(|slot| !is_reached(slot)).collect(),
            refused: None,
        }
    }

    /// A program subscribes. Before the node takes part its channel is dropped at once.
    pub(super) fn subscribe(&mut self, subscriber: Subscriber) {
        if self.is_ready && self.running.is_some() {
            let number = self.subscribers.insert(subscriber);
            self.step(Event::Subscribe { number });
        }
    }
}
