//! Tells the pool daemon what is here of namespaces that are limited.

use plasmon_proto::ObjectId;
use plasmon_proto::pool_adoption::AdoptionCall;

use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// When the pool daemon is to be told. Not while copies of free ids are withheld because
    /// nothing vouches for them: what is known to be here is not all then.
    pub(crate) fn usage_due_ms(&self) -> Option<u64> {
        let is_all_known = || self.is_vouched(&ObjectId::pooled([0; 12], None));
        let due_ms = self.sessions.adoptions.usage_due_ms();
        due_ms.filter(|_| self.has_agent() && is_all_known())
    }

    /// Tells what has changed, when it is time.
    pub(crate) fn tell_usage(&mut self) {
        if self.usage_due_ms().is_none_or(|at_ms| at_ms > self.now_ms) {
            return;
        }
        for (namespace, bytes) in self.sessions.adoptions.take_usage(self.now_ms) {
            self.call_adoption(AdoptionCall::Usage { namespace, bytes });
        }
    }

    /// What a copy counts in its namespace has changed: the pool keeps it from now on, or lets it
    /// be evicted.
    pub(super) fn recount(&mut self, id: &ObjectId) {
        let (meta, extras) = match (self.objects.find(id), self.objects.tier.get(id)) {
            (Some(entry), _) => (entry.meta, self.objects.extras_of(entry.record)),
            (None, Some(spilled)) => (spilled.meta, Some(&spilled.extras)),
            (None, None) => return,
        };
        let Some(extras) = extras else { return };
        if let Some(name) = &extras.attributes.name {
            self.sessions.adoptions.recount_object(name, id, extras.counted_bytes(&meta));
        }
    }
}
