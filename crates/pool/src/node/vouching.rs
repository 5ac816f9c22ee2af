//! What a node does by the time since it held its lease.

use super::Node;
use crate::event::Told;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// Lets the store show its copies of free ids while the lease is held, and ends what may not
    /// outlast a long time without it.
    pub(super) fn vouch(&mut self, now: Mono) {
        let holds_lease = self.view.holds_lease(now);
        let copies = &self.copies;
        let to_verify = self.vouching.step(now, holds_lease, || {
            let free = copies.iter().filter(|(id, copy)| id.home().is_none() && copy.visible);
            free.map(|(id, copy)| (*id, copy.birth)).collect()
        });
        if self.vouching.takes_vouch() {
            let ms = self.view.config.isolated_serve_ms;
            self.out.tell(Told::Vouch { ms });
        }
        for (id, birth) in to_verify {
            self.lookups.verify(context!(self, now), id, birth);
        }
        if self.vouching.takes_isolation() {
            for (id, birth) in self.requests.free_commits() {
                self.requests.end_commit(id, birth);
                self.give_up(now, id, birth);
            }
        }
    }
}
