//! Says in etcd what this node encrypts, for operators.

use plasmon_etcd::{Error, LeaseId, Operation};
use plasmon_membership::encryption;
use plasmon_membership::keys::Key;

use super::leadership::Leadership;

impl Leadership {
    /// Writes what the node encrypts. A node without certificates writes nothing.
    pub(super) fn report_encryption(&mut self, lease: LeaseId) -> Result<(), Error> {
        let Some(found) = self.shared.look(|state| state.encryption) else { return Ok(()) };
        if self.encryption_reported.is(lease, &found) {
            return Ok(());
        }
        let key = self.keys.of(Key::Encryption(self.life));
        let put = Operation::Put(key, encryption::encode(found), Some(lease));
        self.encryption_reported.write((lease, found), || self.etcd.transact(&[], &[put]))
    }
}
