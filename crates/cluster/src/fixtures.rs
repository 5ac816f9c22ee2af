//! Members and maps for the tests of this crate.

use std::collections::BTreeMap;

use crate::limits::GROUPS;
use crate::map::{Group, Map};
use crate::node::{Epoch, Member, Node, NodeLog, NodeState, NodeUuid, ProtocolRange, Slot};

/// The member with this number, in a zone of its own.
pub(crate) fn member(number: u16) -> Member {
    member_in(number, &format!("zone{number}"))
}

/// The member with this number, in this zone.
pub(crate) fn member_in(number: u16, zone: &str) -> Member {
    let mut uuid = [0; 16];
    uuid[..2].copy_from_slice(&number.to_le_bytes());
    Member {
        uuid: NodeUuid(uuid),
        name: format!("n{number}"),
        incarnation: 1,
        boot: 7,
        addresses: vec![format!("10.0.{}.{}:7411", number / 256, number % 256)],
        zone: zone.to_owned(),
        weight: 100,
        log: NodeLog::Absent,
        protocol: ProtocolRange { min: 1, max: 2 },
    }
}

/// A node that is up.
pub(crate) fn up(member: Member) -> Node {
    Node { member, state: NodeState::Up, drain: false, since: Epoch(1), silent: false }
}

/// A map of epoch 1 with these nodes, in slots from 0 on, and all groups on these slots.
pub(crate) fn map_of(members: Vec<Member>, acting: &[u16]) -> Map {
    let next_slot = Slot(members.len() as u16);
    let nodes: BTreeMap<Slot, Node> = (0..).map(Slot).zip(members.into_iter().map(up)).collect();
    let group = Group {
        acting: acting.iter().copied().map(Slot).collect(),
        in_sync: acting.len() as u8,
        prior: None,
        since: Epoch(1),
    };
    Map::new(Epoch(1), nodes, vec![group; GROUPS], next_slot).unwrap()
}
