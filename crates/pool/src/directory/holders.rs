//! Which nodes keep the copies of an object.

use plasmon_cluster::{GroupNo, Slot};
use plasmon_proto::ObjectId;

use crate::view::Context;

/// The next node for a copy beside these holders: the primary, then the other acting nodes, then
/// any other; and before all that, one in a zone that has no copy yet.
pub(super) fn choose(
    cx: &Context<'_>,
    no: GroupNo,
    id: &ObjectId,
    holders: &[Slot],
    is_excluded: impl Fn(Slot) -> bool,
) -> Option<Slot> {
    let map = cx.view.map();
    let zone = |slot: Slot| map.node(slot).map(|node| node.member.zone.as_str());
    let has_copy = |slot: Slot| {
        zone(slot).is_some_and(|name| {
            !name.is_empty() && holders.iter().any(|holder| zone(*holder) == Some(name))
        })
    };
    let acting = map.acting(no);
    let order = |slot: Slot| {
        let acting = acting.iter().position(|other| *other == slot).unwrap_or(acting.len());
        (has_copy(slot), acting, scatter(id, slot))
    };
    let nodes = map.nodes().filter(|(_, node)| node.is_assignable()).map(|(slot, _)| slot);
    nodes.filter(|slot| !holders.contains(slot) && !is_excluded(*slot)).min_by_key(|s| order(*s))
}

/// An order of the nodes that differs from id to id.
fn scatter(id: &ObjectId, slot: Slot) -> u64 {
    let [first, second, _] = id.words();
    (first ^ second ^ u64::from(slot.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}
