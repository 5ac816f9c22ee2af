//! Limits of namespaces of a pool: what all nodes together may have in them.
//!
//! ```text
//!   what is here ──Usage, twice a second at most──► the pool daemon ──► the other nodes
//!   sealed here  ◄── own bytes + those of the others, as last told + the new object <= limit
//!                                                ◄──Quota── the pool daemon
//! ```
//!
//! The figures of the others are of the last second, so all nodes together may exceed a limit by
//! what they put within that time. While nothing is told the last figures count.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// The pool daemon is told at most so often what is here.
pub(crate) const TELL_EVERY_MS: u64 = 500;

/// A change by less than this share of the limit is not told.
const LITTLE: u64 = 1024;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolQuota {
    pub(crate) bytes_max: u64,
    /// What all other nodes have, as last told.
    pub(crate) elsewhere_bytes: u64,
    /// What the pool daemon was last told of this store.
    told: Option<u64>,
}

impl PoolQuota {
    /// Whether the pool daemon has to hear that so much is here now.
    fn is_news(&self, bytes: u64) -> bool {
        // It may have heard something else when the namespace had another limit.
        let Some(told) = self.told else { return true };
        let change = told.abs_diff(bytes);
        change > 0 && (bytes == 0 || change >= self.bytes_max / LITTLE)
    }
}

/// The namespaces of a pool that are limited.
#[derive(Debug, Default)]
pub(crate) struct PoolQuotas {
    by_name: BTreeMap<String, PoolQuota>,
    /// Whether something has changed since the pool daemon was told.
    is_dirty: bool,
    /// When it was last told.
    told_ms: Option<u64>,
}

impl PoolQuotas {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn get(&self, namespace: &str) -> Option<&PoolQuota> {
        if self.by_name.is_empty() { None } else { self.by_name.get(namespace) }
    }

    /// The pool says what the limit is, and what the other nodes have.
    pub(crate) fn set(&mut self, namespace: String, bytes_max: u64, elsewhere_bytes: u64) {
        let told = self.by_name.get(&namespace).and_then(|quota| quota.told);
        self.is_dirty |= told.is_none();
        self.by_name.insert(namespace, PoolQuota { bytes_max, elsewhere_bytes, told });
    }

    /// The namespace is another one from now on, or has no limit.
    pub(crate) fn remove(&mut self, namespace: &str) {
        self.by_name.remove(namespace);
    }

    /// Only these can be limited.
    pub(crate) fn retain(&mut self, named: &BTreeSet<String>) {
        self.by_name.retain(|namespace, _| named.contains(namespace));
    }

    /// What is in a namespace has changed.
    pub(super) fn note(&mut self, namespace: &str) {
        self.is_dirty |= !self.by_name.is_empty() && self.by_name.contains_key(namespace);
    }

    /// When the pool daemon is to be told.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let at_ms = self.told_ms.map_or(0, |told_ms| told_ms.saturating_add(TELL_EVERY_MS));
        (self.is_dirty && !self.by_name.is_empty()).then_some(at_ms)
    }

    /// What the pool daemon is to be told now, of a store that has so much of a namespace.
    pub(super) fn take_news(
        &mut self,
        now_ms: u64,
        bytes_of: impl Fn(&str) -> u64,
    ) -> Vec<(String, u64)> {
        if self.due_ms().is_none_or(|at_ms| at_ms > now_ms) {
            return Vec::new();
        }
        (self.is_dirty, self.told_ms) = (false, Some(now_ms));
        let mut news = Vec::new();
        for (namespace, quota) in &mut self.by_name {
            let bytes = bytes_of(namespace);
            if quota.is_news(bytes) {
                quota.told = Some(bytes);
                news.push((namespace.clone(), bytes));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(bytes_max: u64) -> PoolQuotas {
        let mut quotas = PoolQuotas::default();
        quotas.set("@app".to_owned(), bytes_max, 0);
        quotas
    }

    #[test]
    fn what_is_here_is_told_when_it_has_changed_but_not_all_the_time() {
        let mut quotas = limited(4 * LITTLE);
        let told = |bytes| vec![("@app".to_owned(), bytes)];
        assert_eq!((quotas.due_ms(), quotas.take_news(1_000, |_| 0)), (Some(0), told(0)));
        assert_eq!(quotas.due_ms(), None);
        quotas.note("@other");
        assert_eq!(quotas.due_ms(), None);
        quotas.note("@app");
        let next = 1_000 + TELL_EVERY_MS;
        assert_eq!((quotas.due_ms(), quotas.take_news(next - 1, |_| 7)), (Some(next), vec![]));
        assert_eq!(quotas.take_news(next, |_| 7), told(7));
        assert_eq!(quotas.take_news(9_000, |_| 8_000), [], "nothing has changed");
        // A little is not worth a message, and that nothing is left is.
        for (at_ms, bytes, is_told) in [(10_000, 10, false), (11_000, 11, true), (12_000, 0, true)]
        {
            quotas.note("@app");
            let expected = if is_told { told(bytes) } else { vec![] };
            assert_eq!(quotas.take_news(at_ms, |_| bytes), expected);
        }
    }

    #[test]
    fn a_limit_that_is_told_again_keeps_what_was_said_and_another_one_does_not() {
        let mut quotas = limited(1000);
        assert_eq!(quotas.take_news(1_000, |_| 5).len(), 1);
        quotas.set("@app".to_owned(), 1000, 99);
        assert_eq!((quotas.due_ms(), quotas.get("@app").unwrap().elsewhere_bytes), (None, 99));
        quotas.remove("@app");
        assert_eq!(quotas.get("@app"), None);
        // What was there when it had another limit may be gone: the pool daemon has to hear that.
        quotas.set("@app".to_owned(), 1000, 0);
        assert_eq!(quotas.take_news(2_000, |_| 0), [("@app".to_owned(), 0)]);
        quotas.retain(&BTreeSet::new());
        quotas.note("@app");
        assert!(quotas.is_empty() && quotas.due_ms().is_none());
    }
}
