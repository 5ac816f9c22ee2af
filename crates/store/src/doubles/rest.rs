//! What must be over when no client wants anything and the pool is at rest.

use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// What is still under way here for clients or for the pool; `None` when the store is at rest.
    pub fn under_way(&self) -> Option<String> {
        let own = [
            ("objects under construction", self.objects.pending_objects.len()),
            ("objects that wait for their last pin", self.objects.deferred_frees.len()),
            ("requests that wait", self.sessions.waits.len()),
            ("requests for memory", self.space.jobs.parked().count()),
            ("pins", self.sessions.pins.len()),
            ("deletes that are not in the log yet", self.objects.durable.deletes_count()),
        ];
        let all = self.seat.under_way().into_iter().chain(own);
        let left: Vec<String> =
            all.filter(|(_, count)| *count > 0).map(|(what, n)| format!("{n} {what}")).collect();
        (!left.is_empty()).then(|| left.join(", "))
    }
}
