//! What a node does about draining nodes, itself among them.

use plasmon_cluster::Left;
use plasmon_proto::ObjectId;

use super::Node;
use crate::event::{Effect, Told};
use crate::record::Birth;

impl Node {
    /// Reports what is left of draining nodes, when that is another thing than before.
    pub(super) fn report_drains(&mut self) {
        let is_over = !self.view.has_drains() && !self.drains.is_empty();
        let reports = self.directory.take_drain_reports();
        let Some(mut reports) = reports.or_else(|| is_over.then(Vec::new)) else { return };
        let own = reports.iter_mut().find(|report| report.slot == self.view.me());
        if let Some(own) = own {
            // Of these the directory does not know yet.
            let commits = self.requests.homed_commits().map(|commit| Left {
                objects: 1,
                bytes: commit.content.bytes(),
                last: 1,
                ..Left::default()
            });
            own.left = commits.fold(own.left, Left::and);
        }
        if reports != self.drains {
            self.drains.clone_from(&reports);
            self.out.effect(Effect::ReportDrains(reports));
        }
    }

    /// A copy of this node does not count any more: the node drains, has no weight, or made an
    /// object that is spread.
    pub(super) fn release(&mut self, id: ObjectId, birth: Birth) {
        if self.copies.release(&id, birth) {
            self.out.tell(Told::Release { id, birth });
        }
    }
}
