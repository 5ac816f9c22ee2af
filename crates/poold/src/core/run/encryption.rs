//! What this node says of its encryption.

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
}
