//! What the store of this node wants of etcd for the namespaces that its clients adopt.

use std::collections::BTreeMap;

use plasmon_cluster::adoption::Progress;

/// How long an adoption is tried.
pub(crate) const WITHIN_MS: u64 = 10_000;

/// A client of this node's store wants to adopt a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdoptionAsk {
    pub(crate) number: u64,
    pub(crate) namespace: String,
    pub(crate) session: u64,
    /// 0 for no limit.
    pub(crate) bytes_max: u64,
    /// What was known in this revision counts: the client may know it.
    pub(crate) after: i64,
    pub(crate) until_ms: u64,
}

/// What this node's store says of namespaces.
#[derive(Debug, Default)]
pub(crate) struct AdoptionWishes {
    pub(crate) asks: Vec<AdoptionAsk>,
    /// Namespaces and the sessions that had adopted them. What was known in this revision counts.
    pub(crate) orphaned: BTreeMap<(String, u64), i64>,
    pub(crate) progress: Option<Progress>,
    /// What the store has of namespaces that are limited. Each was in this revision.
    pub(crate) usage: BTreeMap<String, (u64, i64)>,
}

impl AdoptionWishes {
    /// Asks for a namespace. Of several limits that one session asks for the last counts, also for
    /// those who wait for another one: else each would be written over the other.
    pub(crate) fn ask(&mut self, ask: AdoptionAsk) {
        let is_same =
            |it: &&mut AdoptionAsk| (&it.namespace, it.session) == (&ask.namespace, ask.session);
        self.asks.iter_mut().filter(is_same).for_each(|it| it.bytes_max = ask.bytes_max);
        self.asks.push(ask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_limits_that_a_session_asks_for_the_last_one_counts() {
        let ask = |number, session, bytes_max| AdoptionAsk {
            number,
            namespace: "@app".to_owned(),
            session,
            bytes_max,
            after: 0,
            until_ms: 9,
        };
        let mut wishes = AdoptionWishes::default();
        for one in [ask(1, 5, 100), ask(2, 6, 100), ask(3, 5, 200)] {
            wishes.ask(one);
        }
        assert_eq!(wishes.asks, [ask(1, 5, 200), ask(2, 6, 100), ask(3, 5, 200)]);
    }
}
