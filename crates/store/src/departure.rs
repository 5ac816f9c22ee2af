//! The end of a client.

use crate::event::ClientNo;
use crate::memory::Domain;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Takes back everything that the client held: what it was creating, its waits, its leases, its
    /// extents, its pins. Its objects belong to nobody from now on; those in namespaces that it had
    /// adopted are deleted.
    pub(crate) fn disconnect(&mut self, no: ClientNo) {
        let Some(mut client) = self.clients.disconnect(no) else { return };
        for id in &client.creating {
            self.creator_died(id);
        }
        self.bury_unheld(std::mem::take(&mut client.unheld));
        self.end_adoptions(no);
        for waiter in client.waits.values() {
            self.waits.remove(*waiter);
        }
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
        let serials: Vec<u64> = client.pins.keys().copied().collect();
        for (serial, count) in client.pins {
            self.unpin(serial, count);
        }
        if serials.iter().any(|serial| self.lingering.is_pinned(*serial)) {
            self.collect_lingering();
        }
        self.feed_starving();
    }
}
