//! Sentences that would be logged again and again: an etcd that is away is tried every second, and
//! the log shall not grow by that.

use std::time::Duration;

use plasmon_shm::deadline::Deadline;

/// For so long a sentence that was logged is not logged again.
const QUIET: Duration = Duration::from_secs(60);

/// So many different sentences are kept in mind.
const SENTENCES_MAX: usize = 16;

/// The sentences that were logged a short while ago.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    said: Vec<(String, Deadline)>,
}

impl Repeats {
    /// Whether a sentence is to be logged now. It counts as logged then.
    pub(crate) fn is_due(&mut self, sentence: &str) -> bool {
        self.said.retain(|(_, until)| !until.is_past());
        if self.said.iter().any(|(said, _)| said == sentence) {
            return false;
        }
        if self.said.len() == SENTENCES_MAX {
            self.said.remove(0);
        }
        self.said.push((sentence.to_owned(), Deadline::after(QUIET)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_logged_once_and_again_after_a_while_or_many_others() {
        let mut repeats = Repeats::default();
        let due: Vec<bool> = ["a", "b", "a", "b"].map(|it| repeats.is_due(it)).to_vec();
        assert_eq!(due, [true, true, false, false]);
        repeats.said[0].1 = Deadline::after(Duration::ZERO);
        assert!(repeats.is_due("a") && !repeats.is_due("b"));
        for other in 0..SENTENCES_MAX {
            assert!(repeats.is_due(&other.to_string()));
        }
        assert!(repeats.is_due("b"));
        assert_eq!(repeats.said.len(), SENTENCES_MAX);
    }
}
