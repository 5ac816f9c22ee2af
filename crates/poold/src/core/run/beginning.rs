//! How a node begins, once a map has a slot for it.

use std::io;
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_net::handshake::{Cluster, Encryption, KnownPeers, Local, NodeIdentity, ProtocolRange};
use plasmon_pool::message::PROTOCOL;
use plasmon_pool::{Config, Node};

use super::{Core, LINKS, Running, Start};
use crate::certificates::Certificates;
use crate::links::Links;

impl Core {
    /// Begins the node in its slot.
    pub(super) fn begin(&mut self, slot: Slot) -> io::Result<()> {
        let Start { listener, name, token, boot, capacity_bytes, certificates, .. } =
            &mut self.start;
        let invalid = || io::Error::other("the name of the cluster or the protocol is invalid");
        let incarnation = self.membership.incarnation();
        let uuid = self.membership.uuid().0;
        let local = Arc::new(Local {
            cluster: Cluster::new(name, self.membership.cluster()).ok_or_else(invalid)?,
            node: NodeIdentity { uuid, slot: slot.0, boot: *boot, incarnation },
            protocols: ProtocolRange::new(PROTOCOL.min, PROTOCOL.max).ok_or_else(invalid)?,
            token: token.clone(),
            encryption: certificates.as_ref().map_or(Encryption::Nothing, Certificates::encryption),
            peers: KnownPeers::default(),
        });
        let Some(listener) = listener.take() else { return Ok(()) };
        let links = Links::new(slot, local, listener, LINKS, certificates.clone(), &self.poll)?;
        let node = Node::new(Config::new(slot, incarnation, *boot, *capacity_bytes));
        tracing::info!("this node has slot {slot}");
        self.running = Some(Running { slot, node, links });
        self.store.begin(slot);
        self.begin_adoptions();
        Ok(())
    }
}
