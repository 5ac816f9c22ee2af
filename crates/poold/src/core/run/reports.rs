//! What this node says of itself in etcd, once that has changed.

use super::Core;

impl Core {
    /// Says in etcd what the node encrypts and how long its certificate is valid, once the
    /// certificates have changed.
    pub(super) fn report_encryption(&mut self) {
        let Some(certificates) = &self.start.certificates else { return };
        let generation = certificates.generation();
        if generation != self.encryption_reported {
            self.encryption_reported = generation;
            self.membership.report_encryption(certificates.report());
        }
    }

    /// Says in etcd which ones are in use, once that has changed.
    pub(super) fn report_fabric(&mut self) {
        let Some(fabric) = &self.start.fabric else { return };
        let generation = fabric.generation();
        if generation != self.fabric_reported {
            self.fabric_reported = generation;
            self.membership.report_fabric(fabric.report());
        }
    }

    /// The other nodes are to count no durable copies here, and to ask for none.
    pub(super) fn log_failed(&self) {
        tracing::error!(
            "the log of durable objects has failed: other nodes keep them now; `plasmon status` \
             says why, and a new start of the store tries again"
        );
        self.membership.log_failed();
    }
}
