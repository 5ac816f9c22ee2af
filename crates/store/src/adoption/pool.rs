//! Namespaces of a pool whose adoption has ended: the pool says which ([`crate::seat`]).

use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};

/// The namespaces of a pool that have ended.
#[derive(Debug, Default)]
pub(crate) struct EndedInPool {
    names: BTreeSet<String>,
    /// Whether something may be here that is to be deleted.
    pub(crate) is_dirty: bool,
}

impl EndedInPool {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn is_ended(&self, namespace: &str) -> bool {
        !self.names.is_empty() && self.names.contains(namespace)
    }

    /// The pool says whether a namespace has ended.
    pub(crate) fn set_ended(&mut self, namespace: &str, is_ended: bool) {
        if is_ended {
            self.is_dirty |= self.names.insert(namespace.to_owned());
        } else {
            self.names.remove(namespace);
        }
    }

    /// Only these can have ended.
    pub(crate) fn retain(&mut self, named: &BTreeSet<String>) {
        self.names.retain(|namespace| named.contains(namespace));
    }

    /// Those that have ended, from this one on.
    pub(crate) fn ended_from(&self, first: &str) -> impl Iterator<Item = &String> {
        self.names.range::<str, _>((Included(first), Unbounded))
    }
}
