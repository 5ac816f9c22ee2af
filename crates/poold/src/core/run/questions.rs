//! What programs ask the node about the whole pool.

use std::sync::mpsc::SyncSender;

use plasmon_pool::Event;
use plasmon_pool::record::Place;
use plasmon_pool::tally::Verified;
use plasmon_proto::ObjectId;

use super::Core;
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

    /// A program subscribes. Before the node takes part its channel is dropped at once.
    pub(super) fn subscribe(&mut self, subscriber: Subscriber) {
        if self.is_ready && self.running.is_some() {
            let number = self.subscribers.insert(subscriber);
            self.step(Event::Subscribe { number });
        }
    }
}
