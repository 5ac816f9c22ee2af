//! Which nodes keep the copies of an object.

use std::collections::BTreeSet;

use plasmon_cluster::placement::{Request, place};
use plasmon_cluster::{GroupNo, Slot};
use plasmon_proto::ObjectId;

use crate::directory::counted::{counted, uncounted_origin};
use crate::record::Record;
use crate::view::Context;

/// The next node for a copy beside the holders that count, as `plasmon_cluster::placement`
/// chooses it: in another zone, the primary, the other acting nodes, any other. How much memory
/// nodes have left is not known here; one without room refuses, and the next is asked.
pub(super) fn choose(
    cx: &Context<'_>,
    no: GroupNo,
    id: &ObjectId,
    record: &Record,
    refused: &BTreeSet<Slot>,
) -> Option<Slot> {
    let held = counted(cx, record);
    let refused = refused.iter().copied().chain(uncounted_origin(record));
    let nodes = cx.view.map().nodes().filter(|_| record.content.durable.is_some());
    let without_log = nodes.map(|(slot, _)| slot).filter(|slot| !cx.view.has_log(*slot));
    let refused: Vec<Slot> = refused.chain(without_log).collect();
    let request = Request {
        group: no,
        copies: held.len() + 1,
        bytes: record.content.bytes(),
        writer: None,
        held: &held,
        refused: &refused,
    };
    // Different ids draw different nodes, and one id draws the same on every primary.
    let [first, second, third] = id.words();
    let placement = place(cx.view.map(), cx.view.free_bytes(), &request, first ^ second ^ third);
    placement.holders.first().copied()
}
