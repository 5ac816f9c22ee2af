//! Says in etcd by what others write into the memory of this node, for operators.

use plasmon_etcd::{Error, LeaseId, Operation};
use plasmon_membership::fabric;
use plasmon_membership::keys::Key;

use super::leadership::Leadership;

impl Leadership {
    /// Writes by what. A node that uses TCP because nothing else is wanted writes nothing.
    pub(super) fn report_fabric(&mut self, lease: LeaseId) -> Result<(), Error> {
        let Some(found) = self.shared.look(|state| state.fabric.clone()) else { return Ok(()) };
        let reported = Some((lease, found));
        if self.fabric_reported == reported {
            return Ok(());
        }
        let Some((_, found)) = &reported else { return Ok(()) };
        let key = self.keys.of(Key::Fabric(self.life));
        let put = Operation::Put(key, fabric::encode(found), Some(lease));
        self.etcd.transact(&[], &[put])?;
        self.fabric_reported = reported;
        Ok(())
    }
}
