//! What a store is told of the namespaces of the pool that programs adopt. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_cluster::NodeUuid;
use plasmon_proto::pool_adoption::{AdoptionTold, NamespaceState};

use crate::adoptions::Adoption;
use crate::view::SeenAdoption;

/// What etcd knows of the namespaces that programs adopt.
#[derive(Clone, Debug, Default)]
pub struct KnownAdoptions {
    /// Everything that was changed until this revision is known.
    pub revision: i64,
    /// By namespace.
    pub adoptions: Arc<BTreeMap<String, SeenAdoption>>,
}

/// What a store was told of it.
#[derive(Debug, Default)]
pub struct AdoptionNews {
    known: Option<KnownAdoptions>,
    /// With the revisions in which it was written.
    told: BTreeMap<String, (NamespaceState, i64)>,
    /// Whether the store has given its seat: before that it hears nothing.
    has_seat: bool,
}

impl AdoptionNews {
    /// Something is known; what the store is to be told, which has this node and this token.
    pub fn know(&mut self, known: KnownAdoptions, here: (NodeUuid, u64)) -> Vec<AdoptionTold> {
        self.known = Some(known);
        self.news(here)
    }

    /// The store gives its seat; what it is to be told.
    pub fn begin(&mut self, here: (NodeUuid, u64)) -> Vec<AdoptionTold> {
        self.has_seat = true;
        self.news(here)
    }

    fn news(&mut self, here: (NodeUuid, u64)) -> Vec<AdoptionTold> {
        let (true, Some(known)) = (self.has_seat, &self.known) else { return Vec::new() };
        let state = |seen: &SeenAdoption| match seen.adoption {
            Adoption::Ended => NamespaceState::Ended,
            Adoption::Adopted(it) if (it.node, it.boot) == here => {
                NamespaceState::AdoptedHere(it.session)
            }
            Adoption::Adopted(_) => NamespaceState::AdoptedElsewhere,
        };
        let now: BTreeMap<String, (NamespaceState, i64)> = known
            .adoptions
            .iter()
            .map(|(name, seen)| (name.clone(), (state(seen), seen.revision)))
            .collect();
        let mut news = Vec::new();
        let mut is = |namespace: &String, state| {
            news.push(AdoptionTold::Namespace { namespace: namespace.clone(), state });
        };
        for name in self.told.keys().filter(|name| !now.contains_key(*name)) {
            is(name, NamespaceState::Free);
        }
        for (name, (state, revision)) in &now {
            match self.told.get(name) {
                Some((told, at)) if (told, at) == (state, revision) => continue,
                // It had ended in between, and was adopted again.
                Some((told @ NamespaceState::AdoptedHere(_), _)) if told == state => {
                    is(name, NamespaceState::Free);
                }
                _ => {}
            }
            is(name, *state);
        }
        news.push(AdoptionTold::Revision(known.revision.unsigned_abs()));
        self.told = now;
        news
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::adoption::Adopter;

    use super::*;

    #[test]
    fn the_store_hears_what_has_changed_once_it_has_given_its_seat() {
        let here = (NodeUuid([1; 16]), 7);
        let adopted = |node: u8, boot| {
            let node = NodeUuid([node; 16]);
            Adoption::Adopted(Adopter { node, boot, session: 5 })
        };
        let known = |revision, list: &[(&str, Adoption, i64)]| KnownAdoptions {
            revision,
            adoptions: Arc::new(
                list.iter()
                    .map(|(name, adoption, revision)| {
                        let (adoption, revision) = (*adoption, *revision);
                        ((*name).to_owned(), SeenAdoption { adoption, revision })
                    })
                    .collect(),
            ),
        };
        let is = |namespace: &str, state| AdoptionTold::Namespace {
            namespace: namespace.to_owned(),
            state,
        };
        let mut adoptions = AdoptionNews::default();
        let first = known(
            3,
            &[("@a", adopted(1, 7), 1), ("@b", adopted(1, 6), 2), ("@c", adopted(2, 7), 3)],
        );
        assert_eq!(adoptions.know(first, here), []);
        assert_eq!(
            adoptions.begin(here),
            [
                is("@a", NamespaceState::AdoptedHere(5)),
                is("@b", NamespaceState::AdoptedElsewhere),
                is("@c", NamespaceState::AdoptedElsewhere),
                AdoptionTold::Revision(3),
            ]
        );
        let next = known(4, &[("@a", adopted(1, 7), 1), ("@c", Adoption::Ended, 4)]);
        assert_eq!(
            adoptions.know(next, here),
            [
                is("@b", NamespaceState::Free),
                is("@c", NamespaceState::Ended),
                AdoptionTold::Revision(4),
            ]
        );
        // It ended and was adopted again since the last look.
        let again = known(6, &[("@a", adopted(1, 7), 6), ("@c", Adoption::Ended, 4)]);
        assert_eq!(
            adoptions.know(again, here),
            [
                is("@a", NamespaceState::Free),
                is("@a", NamespaceState::AdoptedHere(5)),
                AdoptionTold::Revision(6),
            ]
        );
    }
}
