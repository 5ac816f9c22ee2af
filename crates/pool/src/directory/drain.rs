//! Draining nodes: their copies are made again elsewhere, and then count as cached ones.
//!
//! A holder that drains does not count as a copy. So repair makes another one, first of what has no
//! other, and once enough live nodes keep the object the draining one is no holder any more, and
//! may evict its copy. A commit needs nodes that do not drain, too. What is left is reported, for
//! every draining node and together for all groups that this node leads.

use std::collections::BTreeSet;

use plasmon_cluster::{DrainReport, Left, Map, NodeState, Slot};
use plasmon_proto::ObjectId;

use crate::directory::counted::{counted, counted_live, counts, is_cache};
use crate::directory::led::{Groups, Led, Work};
use crate::limits::{DRAIN_EVERY_MS, DRAIN_OBJECTS_PER_MS, HOLDERS_MAX};
use crate::message::Message;
use crate::record::{Record, State};
use crate::view::Context;

/// What the directory knows of draining nodes.
#[derive(Debug, Default)]
pub(super) struct Drains {
    /// Objects that draining nodes may have to keep.
    ids: BTreeSet<ObjectId>,
    /// Reports that the node has not taken.
    fresh: Option<Vec<DrainReport>>,
}

impl Drains {
    /// Remembers an object if a draining node may have to keep it.
    pub(super) fn note(&mut self, led: &Led, cx: &Context<'_>, id: ObjectId) {
        if cx.view.has_drains()
            && led.record(&id).is_some_and(|record| concerns(led, cx, &id, record))
        {
            self.ids.insert(id);
        }
    }

    /// What is to be reported now.
    pub(super) fn take_reports(&mut self) -> Option<Vec<DrainReport>> {
        self.fresh.take()
    }
}

/// Holders that do not count, because they drain or because the object is spread, keep an object no
/// more once enough others do. Before all acting nodes know that the object exists none is let go:
/// a primary that finds the record pending would ask the origin, and take one that has no copy any
/// more for one that gave the object up.
pub(super) fn release(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(record) = led.record(&id).cloned() else { return };
    let stay = counted(cx, &record);
    let mut beyond = led.work.remove(&id).unwrap_or_default().beyond;
    beyond.retain(|slot| !record.holders.contains(slot) && !counts(cx, &record, *slot));
    let certain = led.certain(cx, &record);
    let is_enough = counted_live(cx, &certain) >= usize::from(record.copies);
    let is_nothing = stay.len() == record.holders.len() && beyond.is_empty();
    if is_nothing || record.state != State::Live {
        return;
    }
    if is_enough && led.is_inherited(&id) {
        // An earlier primary need not have told all of them that the object exists.
        led.put(cx, id, record.clone());
    }
    if !is_enough || !led.is_recorded(cx, &id) {
        if !beyond.is_empty() {
            led.work.insert(id, Work { beyond, ..Work::default() });
        }
        return;
    }
    let uncounted = record.holders.iter().filter(|slot| !stay.contains(slot));
    for slot in uncounted.chain(&beyond) {
        let_go(led, cx, &id, &record, *slot);
    }
    if stay.len() < record.holders.len() {
        led.put(cx, id, Record { holders: stay, ..record });
    }
}

/// A node keeps a copy without being a holder: it was let go while its node was away, or its store
/// started again, or the records were made again without it. One that does not count is let go.
pub(super) fn keeps_beyond(led: &mut Led, cx: &Context<'_>, id: ObjectId, slot: Slot) {
    let Some(record) = led.record(&id) else { return };
    if !counts(cx, record, slot) && !record.holders.contains(&slot) {
        let work = led.work.entry(id).or_default();
        if !work.missing.contains(&slot) {
            work.beyond.insert(slot);
        }
    }
}

/// A record with a place for one more holder: as many as can be, one of which does not count, are
/// one too many.
pub(super) fn with_place(
    led: &mut Led,
    cx: &mut Context<'_>,
    id: &ObjectId,
    mut record: Record,
) -> Record {
    let uncounted = record.holders.iter().position(|slot| !counts(cx, &record, *slot));
    let is_full = record.holders.len() >= HOLDERS_MAX;
    let is_full = is_full && !led.is_inherited(id) && led.is_recorded(cx, id);
    if let Some(at) = uncounted.filter(|_| is_full) {
        let_go(led, cx, id, &record, record.holders[at]);
        record.holders.remove(at);
    }
    record
}

fn let_go(led: &mut Led, cx: &mut Context<'_>, id: &ObjectId, record: &Record, slot: Slot) {
    led.caches.entry(*id).or_default().insert(slot);
    if cx.view.is_live(slot) {
        cx.send(slot, Message::Release { id: *id, birth: record.birth });
    }
}

/// Whether draining nodes may have to keep an object.
pub(super) fn concerns(led: &Led, cx: &Context<'_>, id: &ObjectId, record: &Record) -> bool {
    let drains = |slot: Slot| !cx.view.counts(slot);
    matches!(record.state, State::Live | State::Pending)
        && (record.holders.iter().any(|slot| drains(*slot)) || led.caches_of(id).any(drains))
}

/// Whether the pool loses a copy that counts when this draining node ends.
fn is_needed(led: &Led, cx: &Context<'_>, id: &ObjectId, record: &Record, slot: Slot) -> bool {
    let is_holder = record.holders.contains(&slot);
    let has = counted_live(cx, record);
    match record.state {
        // Without other nodes it does not come to exist, unless an earlier primary said that it
        // does.
        State::Pending => {
            is_holder && led.work.get(id).is_some_and(|work| work.doubt || work.inherited)
        }
        // It goes with its node.
        State::Live if is_cache(record) => false,
        State::Live if is_holder => has < usize::from(record.copies),
        State::Live => has == 0 && led.caches_of(id).any(|cache| cache == slot),
        State::Dead | State::Withdrawn | State::Lost => false,
    }
}

/// Why an object that is needed does not move, and what it is.
fn left_of(led: &Led, cx: &Context<'_>, id: &ObjectId, record: &Record) -> Left {
    let work = led.work.get(id);
    let is_stuck = work.is_some_and(|work| work.rest_until.is_some());
    let has_refused = work.is_some_and(|work| {
        let mut nodes = work.refused.iter().filter_map(|slot| cx.view.map().node(*slot));
        nodes.any(plasmon_cluster::Node::is_assignable)
    });
    let is_unreachable = led.sources(cx, id).is_empty();
    Left {
        objects: 1,
        bytes: record.content.bytes(),
        last: u64::from(counted_live(cx, record) == 0),
        few_nodes: u64::from(is_stuck && !is_unreachable && !has_refused),
        no_room: u64::from(is_stuck && !is_unreachable && has_refused),
        unreachable: u64::from(is_unreachable),
    }
}

/// Makes the reports about draining nodes, unless this node does not know everything yet; in how
/// many milliseconds the next ones are due.
pub(super) fn report(drains: &mut Drains, led: &Groups, cx: &Context<'_>) -> Option<u64> {
    if !cx.view.has_drains() {
        *drains = Drains::default();
        return None;
    }
    drains.ids.retain(|id| {
        let led = led.get(&Map::group_of(id));
        led.is_some_and(|led| led.record(id).is_some_and(|it| concerns(led, cx, id, it)))
    });
    if cx.view.may_decide(cx.now) {
        let reports = cx.view.map().nodes().filter_map(|(slot, node)| {
            let is_meant = node.state == NodeState::Draining && knows_all_of(led, cx, slot);
            let (since, epoch) = (node.since, cx.view.epoch());
            let left = || left_on(drains, led, cx, slot);
            is_meant.then(|| DrainReport { slot, since, epoch, left: left() })
        });
        let reports: Vec<_> = reports.collect();
        drains.fresh = Some(reports);
    }
    let objects = drains.ids.len() as u64;
    Some(DRAIN_EVERY_MS.max(objects / DRAIN_OBJECTS_PER_MS))
}

/// Whether the records of all groups that this node leads are those that there are, and name what
/// a node has.
fn knows_all_of(led: &Groups, cx: &Context<'_>, slot: Slot) -> bool {
    led.values().all(|led| led.is_active() && led.complete && led.knows_copies_of(cx, slot))
}

fn left_on(drains: &Drains, led: &Groups, cx: &Context<'_>, slot: Slot) -> Left {
    let mut left = Left::default();
    for id in &drains.ids {
        if let Some(led) = led.get(&Map::group_of(id))
            && let Some(record) = led.record(id)
            && is_needed(led, cx, id, record, slot)
        {
            left = left.and(left_of(led, cx, id, record));
        }
    }
    left
}
