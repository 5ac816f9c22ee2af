//! Ends of durable objects, which the logs of the acting nodes note.
//!
//! The records of a group are in memory. When all its acting nodes lose their power, they are made
//! again from the copies in the logs of all nodes, and of one that was away during the delete the
//! copy is still there. So an acting node with a log says that it has recorded a delete when a
//! *tombstone* is in its log, and the delete is not answered before. The dead record, and with it
//! the tombstones, stays until every copy is confirmed to be gone (`end.rs`).
//!
//! ```text
//!  Dead --(AddTombstone)--> in the log --> Recorded --> answered ... every copy is gone
//!                               |                                            |
//!       the group lost its records: told in the inventory, dead again   RemoveTombstone
//! ```
//!
//! A tombstone may be left over: its node was no acting node any more when the record was
//! forgotten, or a delete was recorded by no other node and its primary is gone. A group that has
//! its records tells the node so.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{GroupNo, Map, Slot};
use plasmon_proto::ObjectId;

use crate::directory::kept::Kept;
use crate::directory::led::Led;
use crate::event::Told;
use crate::message::{CopyEntry, Message};
use crate::record::{Birth, Content, Record, State};
use crate::view::Context;

/// Whether the end that a record says is to be in the logs of the acting nodes.
pub(super) fn is_for_logs(record: &Record) -> bool {
    record.state == State::Dead && record.content.durable.is_some()
}

/// Has the log of this node note the end that a record says. Whether nothing is left to do for
/// that: a node without a log does not note it.
pub(super) fn add(cx: &mut Context<'_>, id: ObjectId, record: &Record) -> bool {
    if !is_for_logs(record) || !cx.view.has_log(cx.view.me()) {
        return true;
    }
    let birth = record.birth;
    let is_noted = cx.view.has_tombstone(&id, birth);
    if !is_noted {
        cx.out.tell(Told::AddTombstone { id, birth });
    }
    is_noted
}

/// The log of this node need not note an end any more.
pub(super) fn remove(cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
    if cx.view.has_tombstone(&id, birth) {
        cx.out.tell(Told::RemoveTombstone { id, birth });
    }
}

/// Whether any of the acting nodes that have to record an end has a log. Where none has, the
/// holders have to have dropped a durable object before its delete is answered.
pub(super) fn has_logs(led: &Led, cx: &Context<'_>) -> bool {
    let mut required = cx.view.group(led.no).acting.iter().take(led.in_sync);
    required.any(|slot| cx.view.has_log(*slot))
}

/// A node has told of a tombstone.
pub(super) fn told(led: &mut Led, cx: &mut Context<'_>, from: Slot, copy: &CopyEntry) {
    let (id, birth) = (copy.id, copy.birth);
    let is_dead = led.record_of(&id, birth).is_some_and(|record| record.state == State::Dead);
    if led.complete && !is_dead {
        // Every copy is gone, or the delete has not happened.
        return cx.send(from, Message::RemoveTombstone { id, birth });
    }
    led.tombstones.entry((id, birth)).or_default().insert(from);
}

/// Every copy of a durable object is gone, and its record, too: no log need note its end any more.
pub(super) fn forget(led: &mut Led, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
    remove(cx, id, birth);
    for slot in led.tombstones.remove(&(id, birth)).unwrap_or_default() {
        cx.send(slot, Message::RemoveTombstone { id, birth });
    }
}

/// Whether an incarnation is known to have been deleted, in a group that is being made again.
pub(super) fn is_dead(led: &Led, id: &ObjectId, birth: Birth) -> bool {
    led.tombstones.contains_key(&(*id, birth))
}

/// The group knows everything that its nodes have. What has a tombstone is dead, as before the
/// records were lost, until every copy is gone: the objects for which that is to be gone on with.
/// An id of which there is another object was free when that was made, so the tombstone is one that
/// was left over.
pub(super) fn take(led: &mut Led, cx: &mut Context<'_>) -> Vec<ObjectId> {
    let mut changed = Vec::new();
    let tombstones = std::mem::take(&mut led.tombstones);
    let is_dead = |id: ObjectId, birth: Birth| tombstones.contains_key(&(id, birth));
    let later: BTreeSet<ObjectId> = hidden_later(led, is_dead).collect();
    for ((id, birth), nodes) in tombstones {
        let is_later = later.contains(&id) && led.caches_of(&id).next().is_none();
        if is_later || led.record(&id).is_some_and(|record| record.birth != birth) {
            for slot in nodes {
                cx.send(slot, Message::RemoveTombstone { id, birth });
            }
            continue;
        }
        let known = led.record(&id).map(|record| (record.content, record.holders.clone()));
        let (content, had) = known.unwrap_or_else(|| (unknown(), Vec::new()));
        led.caches.entry(id).or_default().extend(had);
        let (holders, state) = (Vec::new(), State::Dead);
        led.put(cx, id, Record { birth, content, copies: 1, copies_min: 1, holders, state });
        let caches: Vec<Slot> = led.caches_of(&id).collect();
        led.work.entry(id).or_default().unconfirmed.extend(caches);
        led.tombstones.insert((id, birth), nodes);
        changed.push(id);
    }
    changed
}

/// Ids that have copies that no client may see yet, as all that come from a log, and that are not
/// known to be dead. Where such an id has tombstones they are of objects before.
fn hidden_later<'a>(
    led: &'a Led,
    is_dead: impl Fn(ObjectId, Birth) -> bool + 'a,
) -> impl Iterator<Item = ObjectId> + 'a {
    let hidden = led.hidden.iter().map(|((id, _), copy)| (*id, copy.birth));
    hidden.filter(move |(id, birth)| !is_dead(*id, *birth)).map(|(id, _)| id)
}

/// The content of a durable object of which only the end is known.
fn unknown() -> Content {
    let durable = Some(plasmon_proto::pool::WantedCopies { copies: 1, copies_min: 1 });
    Content { durable, ..Content::default() }
}

/// The log of this node notes an end: the primary that had it recorded is told so.
pub(super) fn recorded(
    kept: &BTreeMap<GroupNo, Kept>,
    cx: &mut Context<'_>,
    id: ObjectId,
    birth: Birth,
) {
    let no = Map::group_of(&id);
    let Some(kept) = kept.get(&no) else { return };
    if let Some(stored) = kept.records.get(&id).filter(|it| it.record.birth == birth)
        && let Some(primary) = cx.view.group(no).primary()
    {
        let (since, version) = (kept.since, stored.version);
        cx.send(primary, Message::Recorded { since, id, version });
    }
}

/// Whether a record of a group says this end, so that it has to be noted.
pub(super) fn is_wanted(kept: &Kept, id: &ObjectId, birth: Birth) -> bool {
    let record = kept.records.get(id).map(|stored| &stored.record);
    record.is_some_and(|record| record.birth == birth && is_for_logs(record))
}

/// Takes an update of the primary. Whether it is recorded as far as that is asked for, which of an
/// end means in the log.
pub(super) fn update(
    kept: &mut BTreeMap<GroupNo, Kept>,
    cx: &mut Context<'_>,
    no: GroupNo,
    update: (ObjectId, crate::record::Version, Option<Record>),
) -> bool {
    let Some(kept) = kept.get_mut(&no) else { return false };
    let (id, version, record) = update;
    let before = kept.records.get(&id).map(|stored| stored.record.clone());
    kept.update(id, version, record);
    let after = kept.records.get(&id).map(|stored| stored.record.clone());
    if let Some(before) = before.filter(is_for_logs)
        && after.as_ref().is_none_or(|after| after.birth != before.birth)
    {
        remove(cx, id, before.birth);
    }
    after.is_none_or(|after| add(cx, id, &after))
}
