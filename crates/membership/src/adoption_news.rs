//! What a store is told of the namespaces of the pool that programs adopt. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_cluster::NodeUuid;
use plasmon_proto::pool_adoption::{AdoptionTold, NamespaceState};

use crate::adoptions::Adoption;
use crate::usage::{UsageByLife, elsewhere};
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
    /// What nodes have of namespaces that are limited.
    usage: Arc<UsageByLife>,
    /// Limits that were told, and with which figures of the other nodes.
    quotas: BTreeMap<String, (u64, u64)>,
    /// Whether the store has given its seat: before that it hears nothing.
    has_seat: bool,
}

impl AdoptionNews {
    /// Something is known; what the store is to be told, which has this node and this token.
    pub fn know(&mut self, known: KnownAdoptions, here: (NodeUuid, u64)) -> Vec<AdoptionTold> {
        self.known = Some(known);
        self.news(here)
    }

    /// Other figures of nodes are known; what the store is to be told. That needs no revision: the
    /// store goes by the last figures that it has.
    pub fn know_usage(&mut self, usage: Arc<UsageByLife>, here: NodeUuid) -> Vec<AdoptionTold> {
        self.usage = usage;
        self.quota_news(here)
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
            Adoption::Adopted { by, .. } if (by.node, by.boot) == here => {
                NamespaceState::AdoptedHere(by.session)
            }
            Adoption::Adopted { .. } => NamespaceState::AdoptedElsewhere,
        };
        let now: BTreeMap<String, (NamespaceState, i64)> = known
            .adoptions
            .iter()
            .map(|(name, seen)| (name.clone(), (state(seen), seen.revision)))
            .collect();
        let revision = known.revision.unsigned_abs();
        let mut news = Vec::new();
        let quotas = &mut self.quotas;
        let mut is = |namespace: &String, state| {
            // The store knows of no limit of it then.
            quotas.remove(namespace);
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
        self.told = now;
        news.extend(self.quota_news(here.0));
        news.push(AdoptionTold::Revision(revision));
        news
    }

    /// Limits that the store does not know so.
    fn quota_news(&mut self, here: NodeUuid) -> Vec<AdoptionTold> {
        let (true, Some(known)) = (self.has_seat, &self.known) else { return Vec::new() };
        let mut now = BTreeMap::new();
        for (name, seen) in known.adoptions.iter() {
            if let Some(bytes_max) = seen.adoption.limit() {
                now.insert(name.clone(), (bytes_max, elsewhere(&self.usage, here, name)));
            }
        }
        let is_news =
            |(name, quota): &(&String, &(u64, u64))| self.quotas.get(*name) != Some(*quota);
        let news = now.iter().filter(is_news).map(|(namespace, quota)| {
            let ((bytes_max, elsewhere_bytes), namespace) = (*quota, namespace.clone());
            AdoptionTold::Quota { namespace, bytes_max, elsewhere_bytes }
        });
        let news = news.collect();
        self.quotas = now;
        news
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::adoption::Adopter;

    use super::*;
    use crate::keys::Life;

    #[test]
    fn the_store_hears_what_has_changed_once_it_has_given_its_seat() {
        let here = (NodeUuid([1; 16]), 7);
        let adopted = |node: u8, boot| {
            let node = NodeUuid([node; 16]);
            Adoption::Adopted { by: Adopter { node, boot, session: 5 }, bytes_max: 0 }
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

    #[test]
    fn the_store_hears_limits_and_what_the_other_nodes_have() {
        let life = |node: u8| Life { uuid: NodeUuid([node; 16]), incarnation: 1 };
        let here = (life(1).uuid, 7);
        let by = Adopter { node: life(1).uuid, boot: 7, session: 5 };
        let known = |revision, bytes_max| {
            let seen = SeenAdoption { adoption: Adoption::Adopted { by, bytes_max }, revision };
            KnownAdoptions { revision, adoptions: Arc::new([("@a".to_owned(), seen)].into()) }
        };
        let used = |figures: &[(u8, u64)]| {
            let usage =
                |(node, bytes): &(u8, u64)| (life(*node), [("@a".to_owned(), *bytes)].into());
            Arc::new(figures.iter().map(usage).collect::<UsageByLife>())
        };
        let is = |state| AdoptionTold::Namespace { namespace: "@a".to_owned(), state };
        let quota = |bytes_max, elsewhere_bytes| AdoptionTold::Quota {
            namespace: "@a".to_owned(),
            bytes_max,
            elsewhere_bytes,
        };
        let mut news = AdoptionNews::default();
        assert_eq!(news.know_usage(used(&[(1, 100), (2, 20), (3, 3)]), here.0), []);
        assert_eq!(news.know(known(3, 500), here), []);
        let adopted = NamespaceState::AdoptedHere(5);
        let first = [is(adopted), quota(500, 23), AdoptionTold::Revision(3)];
        assert_eq!(news.begin(here), first);
        // Only what others have is news.
        assert_eq!(news.know_usage(used(&[(1, 200), (2, 20), (3, 3)]), here.0), []);
        assert_eq!(news.know_usage(used(&[(1, 200), (2, 20)]), here.0), [quota(500, 20)]);
        // The limit is changed, and taken away.
        let free = is(NamespaceState::Free);
        let changed = [free.clone(), is(adopted), quota(600, 20), AdoptionTold::Revision(4)];
        assert_eq!(news.know(known(4, 600), here), changed);
        let unlimited = [free, is(adopted), AdoptionTold::Revision(5)];
        assert_eq!(news.know(known(5, 0), here), unlimited);
        assert_eq!(news.know_usage(used(&[(2, 30)]), here.0), []);
    }
}
