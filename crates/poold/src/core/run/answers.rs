//! Answers of the node to what programs asked of it.

use plasmon_pool::Effect;

use super::Core;

impl Core {
    /// Gives an answer to the connection that waits for it, or what came of it to the subscribers.
    pub(super) fn answer(&mut self, effect: Effect) {
        match effect {
            Effect::Place { number, place } => {
                // The connection that asked may have ended; it has room for its answer.
                if let Some(answer) = self.questions.remove(&number) {
                    let _ = answer.try_send(place);
                }
            }
            Effect::Listed { number, page, missing } => {
                self.listings.answer(number, page, missing);
            }
            Effect::Verified { number, verified } => {
                // The connection may have ended; it has room for its answer.
                if let Some(answer) = self.verifications.remove(&number) {
                    let _ = answer.try_send(verified);
                }
            }
            Effect::Checksummed { number, page } => self.checksums.answer(number, page),
            Effect::Subscribed { number } => self.subscribers.subscribed(number),
            Effect::Notice(notice) => self.subscribers.notice(&notice),
            Effect::NoticesLost => self.subscribers.lost(),
            Effect::Read { number, reply } => self.reads.answered(number, reply),
            Effect::GatherLanded { number, object } => self.gathers.landed(number, object),
            Effect::Gathered { number, reply } => {
                let left = self.gathers.answered(number, reply);
                self.delete_parts(left);
            }
            other => debug_assert!(false, "{other:?} is no answer"),
        }
    }
}
