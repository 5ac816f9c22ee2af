//! Says in etcd by what others write into the memory of this node, for operators.

use plasmon_etcd::{Error, LeaseId, Operation};
use plasmon_membership::fabric;
use plasmon_membership::keys::Key;

use super::leadership::Leadership;

impl Leadership {
    /// Writes by what. A node that uses TCP because nothing else is wanted writes nothing.
    pub(super) fn report_fabric(&mut self, lease: LeaseId) -> Result<(), Error> {
        let Some(found) = self.shared.look(|state| state.fabric.clone()) else { return Ok(()) };
        if self.fabric_reported.is(lease, &found) {
            return Ok(());
        }
        let key = self.keys.of(Key::Fabric(self.life));
        let put = Operation::Put(key, fabric::encode(&found), Some(lease));
        self.fabric_reported.write((lease, found), || self.etcd.transact(&[], &[put]))
    }
}
