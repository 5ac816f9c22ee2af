//! Which peers this node hears, and what it does when it is fenced because others do not reach it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::{Map, Slot};
use plasmon_pool::Event;

use super::Core;
use crate::clock::now_us;
use crate::links;

impl Core {
    /// The connections are those of this map, and of the nodes that wait to be live in it.
    pub(super) fn set_peers(&mut self, map: &Arc<Map>) {
        self.peers.map = Some(map.clone());
        let Some(running) = &mut self.running else { return };
        running.links.set_map(map, &self.peers.waiting, Duration::from_micros(now_us()));
    }

    /// Other nodes hold a lease and are not live, or are live now.
    pub(super) fn set_waiting(&mut self, waiting: BTreeSet<Slot>) {
        self.peers.waiting = waiting;
        if let Some(map) = self.peers.map.clone() {
            self.set_peers(&map);
        }
    }

    /// Reports the peers that were not heard, if it is time and they are others than before.
    pub(super) fn look_at_peers(&mut self) {
        let Some(running) = &self.running else { return };
        let (now, links) = (Duration::from_micros(now_us()), &running.links);
        let looked = self.peers.look(now, running.slot, |slot| links.heard_at(slot));
        let Some(suspects) = looked else { return };
        if !suspects.is_empty() {
            let slots: Vec<String> = suspects.iter().map(|it| it.slot.to_string()).collect();
            tracing::warn!("nothing is heard of the nodes in slots {}", slots.join(", "));
        }
        self.membership.report_suspects(suspects);
    }

    /// The lease is gone: what was heard before says nothing of the peers.
    pub(super) fn forget_peers(&mut self) {
        if self.peers.clear() {
            self.membership.report_suspects(Vec::new());
        }
    }

    /// This node is fenced: it decides nothing from here on, and its lease may end.
    pub(super) fn fenced(&mut self) {
        tracing::warn!(
            "this node has to stop, because it and other nodes do not reach each other; it takes \
             part again when they do"
        );
        self.lease = None;
        if self.is_ready {
            self.step(Event::LeaseLost);
        }
        self.membership.stopped();
    }

    /// A connection came or went, or brought something.
    pub(super) fn link(&mut self, event: links::Event) {
        match event {
            links::Event::Up(peer) => self.step(Event::Link { peer, up: true }),
            links::Event::Down(peer) => {
                self.openings.end_peer(peer);
                self.assemblies.end_peer(peer);
                self.movers.end_peer(peer);
                self.step(Event::Link { peer, up: false });
            }
            links::Event::Message(envelope) => self.step(Event::Peer(envelope)),
            links::Event::Bulk { peer, lane, connection, stream } => {
                self.movers.add((peer, lane), connection, stream);
            }
            // What was on its way will not come.
            links::Event::BulkEnded(peer, lane) => {
                for transfer in self.landings.transfers_on((peer, lane)) {
                    self.step(Event::Interrupted(transfer));
                }
            }
        }
    }
}
