//! The end of a client.

use crate::event::ClientNo;
use crate::memory::Domain;
use crate::ports::Directory;
use crate::store::Store;
use crate::work::Left;

impl<D: Directory> Store<D> {
    /// Takes back everything that the client held: what it was creating, its waits, its leases, its
    /// extents, its pins. Its objects belong to nobody from now on; those in namespaces that it had
    /// adopted are deleted. A long list of anything goes in pieces.
    pub(crate) fn disconnect(&mut self, no: ClientNo) {
        let Some(mut client) = self.clients.disconnect(no) else { return };
        let creating = std::mem::take(&mut client.creating).into_iter().collect();
        self.work.leave(Left::Creating(client.session, creating));
        self.work.leave(Left::Unheld(std::mem::take(&mut client.unheld).into_iter().collect()));
        self.work.leave(Left::Pins(std::mem::take(&mut client.pins)));
        self.end_adoptions(no);
        self.work.leave(Left::Waits(client.waits.values().copied().collect()));
        for range in client.leases.take() {
            if client.leases_unsure {
                self.memory.release_in_doubt(range, &mut self.out);
            } else {
                self.memory.release(range, range.bytes, &mut self.out);
            }
        }
        let own = Domain::Client(client.session);
        let extents: Vec<_> =
            self.memory.iter().filter(|extent| extent.domain == own).map(|it| it.id).collect();
        for extent in extents {
            self.no_writer(extent);
            self.memory.orphan(extent, &mut self.out);
        }
        self.jobs.stuck = None;
        self.go_on();
        self.work.feed = true;
    }
}
