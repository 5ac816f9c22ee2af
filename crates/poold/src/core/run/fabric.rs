//! What this node says of the providers by which others write into its memory.

use super::Core;

impl Core {
    /// Says in etcd which ones are in use, once that has changed.
    pub(super) fn report_fabric(&mut self) {
        let Some(fabric) = &self.start.fabric else { return };
        let generation = fabric.generation();
        if generation != self.fabric_reported {
            self.fabric_reported = generation;
            self.membership.report_fabric(fabric.report());
        }
    }
}
