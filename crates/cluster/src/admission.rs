//! Which of the members that hold a lease take part, and why the others do not.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::NODES_MAX;
use crate::map::Map;
use crate::node::{BadMember, Member, Node, NodeState, NodeUuid, ProtocolRange, Slot};

/// A member that takes no part, though it holds a lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {name} ({uuid}) cannot join the pool: {reason}")]
pub struct Refusal {
    /// The identity that it names.
    pub uuid: NodeUuid,
    /// Its incarnation, which tells it from another node of that identity.
    pub incarnation: u64,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a member takes no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// It breaks a limit.
    #[error(transparent)]
    Member(#[from] BadMember),
    /// Another member with its uuid holds a lease: a copied disk, or the node's last life.
    #[error(
        "another node with this uuid holds a lease; if it is an earlier start of this node, its \
         lease ends within seconds, and if this node's disk is a copy, remove its uuid"
    )]
    Uuid,
    /// Another node has its name.
    #[error("the node in slot {slot} has this name; choose another, or forget that node")]
    Name {
        /// The other node.
        slot: Slot,
    },
    /// It speaks no version of the protocol that all others speak.
    #[error(
        "it speaks protocol {} to {}, and the pool's nodes all speak {pool_min} to {pool_max}",
        own.min, own.max
    )]
    Protocol {
        /// What it speaks.
        own: ProtocolRange,
        /// The lowest version that the others speak.
        pool_min: u16,
        /// The highest.
        pool_max: u16,
    },
    /// The map is full.
    #[error("the pool has {NODES_MAX} nodes already; forget those that will not come back")]
    Nodes,
    /// Every slot was used.
    #[error("every slot has been used, and slots are not used again")]
    Slots,
}

/// What came of the members that hold leases.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Nodes that hold their leases.
    pub(crate) present: BTreeSet<Slot>,
    /// Those of them with another incarnation than in the map before.
    pub(crate) restarted: BTreeSet<Slot>,
    /// Members that take no part.
    pub(crate) refusals: Vec<Refusal>,
}

impl Admission {
    /// Brings what the members say of themselves into the next map, and gives new ones a slot.
    /// `members` are in the order in which they got their leases.
    pub(crate) fn of(next: &mut Map, members: &[Member]) -> Self {
        let mut admission = Self::default();
        let mut chosen: BTreeMap<NodeUuid, &Member> = BTreeMap::new();
        let slots: BTreeMap<NodeUuid, Slot> =
            next.nodes().map(|(slot, node)| (node.member.uuid, slot)).collect();
        let incarnations: BTreeMap<NodeUuid, u64> =
            next.nodes.values().map(|node| (node.member.uuid, node.member.incarnation)).collect();
        for member in members {
            let is_known = incarnations.get(&member.uuid) == Some(&member.incarnation);
            let refused = match chosen.get(&member.uuid) {
                Some(first) if is_known => chosen.insert(first.uuid, member),
                Some(_) => Some(member),
                None => chosen.insert(member.uuid, member),
            };
            admission.refusals.extend(refused.map(|other| refusal(other, RefusalReason::Uuid)));
        }
        // Nodes that take part keep their names against all others.
        let counts = |map: &Map, member: &Member| {
            let slot = slots.get(&member.uuid).copied();
            slot.filter(|slot| map.node(*slot).is_some_and(|node| node.state != NodeState::Out))
        };
        let mut order: Vec<&Member> =
            members.iter().filter(|member| chosen.get(&member.uuid) == Some(member)).collect();
        order.sort_by_key(|member| counts(next, member).is_none());
        for member in order {
            let slot = slots.get(&member.uuid).copied();
            match admission.admit(next, member, slot) {
                Ok(slot) => _ = admission.present.insert(slot),
                Err(reason) => {
                    // Such a node still acts on what it said before.
                    let acts = counts(next, member)
                        .filter(|slot| next.nodes[slot].member.incarnation == member.incarnation);
                    admission.present.extend(acts);
                    admission.refusals.push(refusal(member, reason));
                }
            }
        }
        admission
    }

    fn admit(
        &mut self,
        next: &mut Map,
        member: &Member,
        slot: Option<Slot>,
    ) -> Result<Slot, RefusalReason> {
        if let Some(slot) = slot {
            let node = next.nodes.get_mut(&slot).expect("the slot is that of a node");
            let is_taking_part = node.state != NodeState::Out;
            if is_taking_part && node.member == *member {
                return Ok(slot);
            }
            check(next, member, Some(slot))?;
            let node = next.nodes.get_mut(&slot).expect("the slot is that of a node");
            if node.member.incarnation != member.incarnation {
                self.restarted.insert(slot);
                node.since = next.epoch;
            }
            node.member = member.clone();
            return Ok(slot);
        }
        check(next, member, None)?;
        if next.nodes.len() == NODES_MAX {
            return Err(RefusalReason::Nodes);
        }
        let slot = next.next_slot;
        if slot == Slot::NONE {
            return Err(RefusalReason::Slots);
        }
        next.next_slot = Slot(slot.0 + 1);
        let (state, since) = (NodeState::Up, next.epoch);
        let member = member.clone();
        let node = Node { member, state, drain: false, since, silent: false };
        next.nodes.insert(slot, node);
        Ok(slot)
    }
}

fn refusal(member: &Member, reason: RefusalReason) -> Refusal {
    let Member { uuid, incarnation, name, .. } = member.clone();
    Refusal { uuid, incarnation, name, reason }
}

/// Checks a member, the one in `slot` or a new one, against all others that take part.
fn check(map: &Map, member: &Member, slot: Option<Slot>) -> Result<(), RefusalReason> {
    member.check()?;
    let own = member.protocol;
    let (mut pool_min, mut pool_max) = (0, u16::MAX);
    for (other_slot, other) in map.nodes() {
        if Some(other_slot) == slot || other.state == NodeState::Out {
            continue;
        }
        if other.member.name == member.name {
            return Err(RefusalReason::Name { slot: other_slot });
        }
        pool_min = pool_min.max(other.member.protocol.min);
        pool_max = pool_max.min(other.member.protocol.max);
    }
    if own.min > pool_max || own.max < pool_min {
        return Err(RefusalReason::Protocol { own, pool_min, pool_max });
    }
    Ok(())
}
