//! What a node knows of the others while their lanes are opened.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::identity::NodeIdentity;
use super::token::Token;

/// What a node knows of the others, as far as handshakes ask for it. Clones are the same: it
/// changes while handshakes are under way.
#[derive(Clone, Debug, Default)]
pub struct KnownPeers(Arc<Mutex<BTreeMap<[u8; 16], Known>>>);

#[derive(Debug, Default)]
struct Known {
    name: String,
    /// What its bulk lanes prove that they know, and the start of the node that agreed on it.
    bulk: Option<(u64, Token)>,
}

impl KnownPeers {
    /// The nodes are these, by their UUIDs and names.
    pub fn set_names<'a>(&self, nodes: impl Iterator<Item = ([u8; 16], &'a str)>) {
        let mut known = self.lock();
        let mut next = BTreeMap::new();
        for (uuid, name) in nodes {
            let mut one = known.remove(&uuid).unwrap_or_default();
            name.clone_into(&mut one.name);
            next.insert(uuid, one);
        }
        *known = next;
    }

    /// The name of a node; `None` when the node is not known.
    pub fn name(&self, uuid: &[u8; 16]) -> Option<String> {
        self.lock().get(uuid).map(|known| known.name.clone())
    }

    /// Bulk lanes of this start of a node that are not encrypted prove from now on that they know
    /// this, which its control lane has agreed on; with `None` there are none.
    pub fn set_bulk_token(&self, node: &NodeIdentity, token: Option<Token>) {
        if let Some(known) = self.lock().get_mut(&node.uuid) {
            known.bulk = token.map(|token| (node.incarnation, token));
        }
    }

    /// What bulk lanes of this start of a node prove that they know.
    pub(super) fn bulk_token(&self, node: &NodeIdentity) -> Option<Token> {
        let known = self.lock();
        let (incarnation, token) = known.get(&node.uuid)?.bulk.as_ref()?;
        (*incarnation == node.incarnation).then(|| token.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_agreed_on_is_for_one_start_of_a_node_that_is_known() {
        let node = |incarnation| NodeIdentity { uuid: [1; 16], slot: 1, boot: 1, incarnation };
        let token = || Token::new(&[7; 32]);
        let peers = KnownPeers::default();
        peers.set_bulk_token(&node(1), token());
        assert!(peers.bulk_token(&node(1)).is_none(), "the node is not known");
        peers.set_names([([1; 16], "a")].into_iter());
        peers.set_bulk_token(&node(1), token());
        assert!(peers.bulk_token(&node(1)).is_some() && peers.bulk_token(&node(2)).is_none());
        // Another name, and another node: what was agreed on stays.
        peers.set_names([([1; 16], "b"), ([2; 16], "c")].into_iter());
        assert!(peers.bulk_token(&node(1)).is_some());
        assert_eq!(peers.name(&[1; 16]).as_deref(), Some("b"));
        peers.set_names([([2; 16], "c")].into_iter());
        assert_eq!(peers.name(&[1; 16]), None);
        assert!(peers.bulk_token(&node(1)).is_none());
        peers.set_bulk_token(&node(1), None);
    }
}
