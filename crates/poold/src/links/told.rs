//! What was said of peers that cannot be connected: each reason once, and not with every try.

use std::collections::BTreeMap;

/// Peers that something was said of. When there are more, all of it may be said again.
const TOLD_MAX: usize = 256;

/// What was said last of each peer.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<String, String>);

impl Told {
    /// Whether this is to be said of a peer, because something else was said last.
    pub(super) fn is_news(&mut self, peer: &str, text: &str) -> bool {
        if self.0.get(peer).is_some_and(|told| told == text) {
            return false;
        }
        if self.0.len() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.insert(peer.to_owned(), text.to_owned());
        true
    }

    /// What was said last of a peer.
    #[cfg(test)]
    pub(super) fn was_told(&self, peer: &str) -> Option<&str> {
        self.0.get(peer).map(String::as_str)
    }

    /// All is well with a peer.
    pub(super) fn forget(&mut self, peer: &str) {
        self.0.remove(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_for_each_peer() {
        let mut told = Told::default();
        assert!(told.is_news("a", "x") && !told.is_news("a", "x"));
        assert!(told.is_news("b", "x") && told.is_news("a", "y") && told.is_news("a", "x"));
        told.forget("a");
        assert!(told.is_news("a", "x") && !told.is_news("b", "x"));
        for number in 0..TOLD_MAX {
            told.is_news(&number.to_string(), "x");
        }
        assert!(told.0.len() <= TOLD_MAX);
    }
}
