//! What the store and etcd say of namespaces that programs adopt.

use std::sync::Arc;

use plasmon_cluster::NodeUuid;
use plasmon_cluster::adoption::Progress;
use plasmon_membership::adoption_news::KnownAdoptions;
use plasmon_membership::usage::UsageByLife;
use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionRefusal, AdoptionTold};

use super::Core;

impl Core {
    /// The store says something about namespaces.
    pub(super) fn adoption(&self, call: AdoptionCall) {
        match call {
            AdoptionCall::Adopt { number, namespace, session } => {
                self.membership.adopt(number, namespace, session, 0);
            }
            AdoptionCall::AdoptWithin { number, namespace, session, bytes_max } => {
                self.membership.adopt(number, namespace, session, bytes_max);
            }
            AdoptionCall::Usage { namespace, bytes } => self.membership.used(namespace, bytes),
            AdoptionCall::Orphaned { namespace, session } => {
                self.membership.orphaned(namespace, session);
            }
            AdoptionCall::Progress { seen, swept } => {
                self.membership.swept(Progress { seen, swept })
            }
        }
    }

    fn here(&self) -> (NodeUuid, u64) {
        (self.membership.uuid(), self.start.boot)
    }

    /// An adoption is decided about. What the namespace is then was told before.
    pub(super) fn adoption_answered(&mut self, number: u64, result: Result<(), AdoptionRefusal>) {
        self.store.tell_adoptions(vec![AdoptionTold::Answer { number, result }]);
    }

    /// Something is known of namespaces.
    pub(super) fn know_adoptions(&mut self, known: KnownAdoptions) {
        let news = self.adoptions.know(known, self.here());
        self.store.tell_adoptions(news);
    }

    /// Other figures of nodes are known. The store goes by the last ones until there are others.
    pub(super) fn know_usage(&mut self, usage: Arc<UsageByLife>) {
        let news = self.adoptions.know_usage(usage, self.membership.uuid());
        self.store.tell_adoptions(news);
    }

    /// The store has its seat taken.
    pub(super) fn begin_adoptions(&mut self) {
        let news = self.adoptions.begin(self.here());
        self.store.tell_adoptions(news);
    }
}
