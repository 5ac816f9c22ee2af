//! Inventories: what a new primary learns from the nodes about their copies.
//!
//! Records name the holders of an object, not the cached copies; and a group of which all records
//! are lost is made again from what the nodes have. So a new primary asks every node, and asks
//! again after a node was away or a connection was lost.
//!
//! After a loss of power the copies are those in the logs. Their nodes do not know what became of
//! them since, so they are hidden, and a group without records decides about all of them at once
//! when it knows everything: what a log notes as dead stays dead (`tombstones.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{Map, NodeLog, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::directory::led::Led;
use crate::directory::{commit, counted, drain, tombstones};
use crate::message::{CopyEntry, Message, Standing};
use crate::record::{Birth, Record, State, is_copies};
use crate::view::Context;

/// Takes a page of a node's inventory: the copies that are in this group. Returns the objects that
/// it changes something for.
pub(super) fn received(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    copies: &[CopyEntry],
    more: bool,
) -> Vec<ObjectId> {
    if !led.is_active() || !cx.view.may_decide(cx.now) {
        return Vec::new();
    }
    let of_group = copies.iter().filter(|copy| Map::group_of(&copy.id) == led.no);
    let page: Vec<CopyEntry> = of_group.copied().collect();
    let pages = led.pages.entry(from).or_default();
    pages.extend(page);
    if more {
        return Vec::new();
    }
    let copies = led.pages.remove(&from).unwrap_or_default();
    let Some(node) = cx.view.map().node(from) else { return Vec::new() };
    led.surveyed.insert(from, node.since);
    led.joined.insert(from);
    if node.member.log != NodeLog::Failed {
        led.failed_logs.remove(&from);
    }
    let mut changed = Vec::new();
    let mut found = BTreeSet::new();
    for copy in copies {
        if copy.standing == Standing::Dead {
            tombstones::told(led, cx, from, &copy);
            continue;
        }
        // What is on its way there may never arrive.
        if copy.standing != Standing::Arriving {
            found.insert((copy.id, copy.birth));
        }
        reconcile(led, cx, from, copy);
        changed.push(copy.id);
    }
    changed.extend(remove_lost(led, cx, from, &found));
    let knew_all = led.knows_all(cx);
    let mut unheard = led.kept.unheard.clone();
    unheard.remove(&from);
    if led.is_surveyed(cx) && !led.complete {
        led.complete = true;
        led.in_sync = led.in_sync.max(1);
        let nodes = cx.view.map().nodes().map(|(slot, _)| slot);
        unheard = nodes.filter(|slot| !led.surveyed.contains_key(slot)).collect();
        changed.extend(tombstones::take(led, cx));
    }
    led.set_unheard(cx, unheard);
    if led.knows_all(cx) && !knew_all {
        adopt_hidden(led, cx);
        changed.extend(led.kept.records.keys());
    }
    changed
}

fn reconcile(led: &mut Led, cx: &mut Context<'_>, from: Slot, copy: CopyEntry) {
    let CopyEntry { id, birth, content, standing, .. } = copy;
    if standing == Standing::Unanswered && led.record_of(&id, birth).is_none() {
        // Its commit decides.
        return;
    }
    let visible = standing == Standing::Committed;
    let Some(record) = led.record(&id).cloned() else {
        if led.knows_all(cx) {
            led.note_unrecorded(from, standing);
            // It was deleted, or never acknowledged.
            cx.send(from, Message::Drop { id, birth, existed: visible });
        } else if tombstones::is_dead(led, &id, birth) {
            led.caches.entry(id).or_default().insert(from);
        } else if visible && may_adopt(cx, from, &copy) {
            adopt(led, cx, from, copy);
        } else if standing == Standing::Held || visible {
            led.hidden.insert((id, from), copy);
        }
        return;
    };
    if record.birth != birth {
        led.note_unrecorded(from, standing);
        return cx.send(from, Message::Drop { id, birth, existed: visible });
    }
    match record.state {
        State::Live => has_live(led, cx, from, &record, copy),
        // It was visible, so it exists; the update that says so was lost with the primary.
        State::Pending if visible && id.home().is_none() => {
            let work = led.work.entry(id).or_default();
            work.missing.remove(&from);
            if !record.holders.contains(&from) {
                led.caches.entry(id).or_default().insert(from);
            }
            let missing = led.work.entry(id).or_default().missing.clone();
            let is_held = |slot: &Slot| !missing.contains(slot);
            let held: Vec<Slot> = record.holders.iter().copied().filter(is_held).collect();
            if !held.is_empty() {
                led.work.entry(id).or_default().missing.clear();
                led.caches.entry(id).or_default().extend(missing);
                led.put(cx, id, Record { holders: held, ..record });
                commit::succeed(led, cx, id);
            }
        }
        State::Pending if !record.holders.contains(&from) => {
            led.caches.entry(id).or_default().insert(from);
            if copy.kept {
                drain::keeps_beyond(led, cx, id, from);
            }
        }
        State::Pending => {}
        State::Dead | State::Withdrawn => {
            led.caches.entry(id).or_default().insert(from);
            let work = led.work.entry(id).or_default();
            work.unconfirmed.insert(from);
            // Before it has ended for all acting nodes, a node that drops it could be sent to it
            // again, and its confirmation be taken for one of the second copy.
            if work.ended {
                let existed = record.state == State::Dead;
                cx.send(from, Message::Drop { id, birth, existed });
            }
        }
        State::Lost => {
            let record = Record { state: State::Live, content, ..record };
            found_again(led, cx, from, copy, record);
        }
    }
}

/// A node has a copy of an object that exists.
fn has_live(led: &mut Led, cx: &mut Context<'_>, from: Slot, record: &Record, copy: CopyEntry) {
    let CopyEntry { id, birth, content, standing, kept } = copy;
    if kept {
        led.forget_damaged(&id, from);
    }
    if standing != Standing::Committed {
        cx.send(from, Message::Publish { id, birth });
    }
    if !record.holders.contains(&from) {
        led.caches.entry(id).or_default().insert(from);
        if kept {
            drain::keeps_beyond(led, cx, id, from);
        }
    } else if kept || standing == Standing::Arriving || counted::is_cache(record) {
        // It is as the record says.
    } else if content.durable.is_some() && !led.is_damaged(&id, from) {
        // Its log does not have it, so it does not count until the node has logged it.
        let mut record = record.clone();
        record.holders.retain(|slot| *slot != from);
        led.caches.entry(id).or_default().insert(from);
        led.put(cx, id, record);
        led.work.entry(id).or_default();
    } else {
        // It came as a cached copy, and its store started again; or it is damaged, which its node
        // says again.
        let (sources, live) = (Vec::new(), true);
        cx.send(from, Message::Hold { id, birth, content, sources, live });
    }
}

/// Decides about copies of which no record is left and which no client has seen: their commit may
/// have succeeded. An origin that still has its store would have the object, too, unless it drains
/// or the object is spread or durable, and let it go. Where that may be, or it lost its store, the
/// object exists: to show what was refused is a lesser evil than to lose what was acknowledged, and
/// no node is left that could tell one from the other. Of two objects of one id the one with more
/// copies exists.
fn adopt_hidden(led: &mut Led, cx: &mut Context<'_>) {
    let hidden = std::mem::take(&mut led.hidden);
    let mut copies: BTreeMap<(ObjectId, Birth), usize> = BTreeMap::new();
    for ((id, _), copy) in &hidden {
        *copies.entry((*id, copy.birth)).or_default() += 1;
    }
    let mut hidden: Vec<_> = hidden.into_iter().collect();
    hidden.sort_by_key(|((id, from), copy)| {
        let count = copies.get(&(*id, copy.birth)).copied().unwrap_or_default();
        (*id, Reverse((count, copy.birth)), *from)
    });
    for ((id, from), copy) in hidden {
        if led.record(&id).is_some() {
            reconcile(led, cx, from, copy);
        } else if copy.content.keeping == Keeping::Cache {
            end_cache(led, cx, from, copy);
        } else if !cx.view.has_store_of(copy.birth) || may_let_go(cx, &copy) {
            adopt(led, cx, from, copy);
        }
    }
}

/// A cache has ended because the copy of its creator's node is gone. Its id is not free before the
/// node that has this copy, which clients may see, has dropped it.
fn end_cache(led: &mut Led, cx: &mut Context<'_>, from: Slot, copy: CopyEntry) {
    let CopyEntry { id, birth, content, standing, .. } = copy;
    if standing != Standing::Committed {
        return cx.send(from, Message::Drop { id, birth, existed: false });
    }
    let (holders, state) = (Vec::new(), State::Dead);
    led.put(cx, id, Record { birth, content, copies: 1, copies_min: 1, holders, state });
    led.caches.entry(id).or_default().insert(from);
    led.work.entry(id).or_default();
}

/// Whether an object exists because this copy does. A cache does only with that of the node where
/// it was made, which may be shown later.
fn may_adopt(cx: &Context<'_>, from: Slot, copy: &CopyEntry) -> bool {
    let is_own = copy.birth.slot == from && cx.view.has_store_of(copy.birth);
    copy.content.keeping != Keeping::Cache || is_own
}

/// Whether the node where an object was made may have evicted it. A durable one it lets go when it
/// has no log, or had none that worked.
fn may_let_go(cx: &Context<'_>, copy: &CopyEntry) -> bool {
    let is_kept = copy.content.keeping == Keeping::Local && copy.content.durable.is_none();
    !is_kept || !cx.view.counts(copy.birth.slot)
}

/// A copy that no record knows becomes one: all records of the group were lost. How many copies
/// were asked for a durable one says; else its origin does, if it is there.
fn adopt(led: &mut Led, cx: &mut Context<'_>, from: Slot, copy: CopyEntry) {
    let CopyEntry { birth, content, .. } = copy;
    let wanted = content.durable.filter(|wanted| is_copies(wanted.copies, wanted.copies_min));
    let (copies, copies_min) = wanted.map_or((1, 1), |it| (it.copies, it.copies_min));
    let state = State::Live;
    // A cache is not kept: its node is not asked for anything.
    let holders = if content.keeping == Keeping::Cache { vec![from] } else { Vec::new() };
    let record = Record { birth, content, copies, copies_min, holders, state };
    found_again(led, cx, from, copy, record);
}

/// An object exists because a node has a copy. A node that has one is asked to keep it, which need
/// not be this one.
fn found_again(led: &mut Led, cx: &mut Context<'_>, from: Slot, copy: CopyEntry, record: Record) {
    let CopyEntry { id, kept, .. } = copy;
    led.put(cx, id, record);
    led.caches.entry(id).or_default().insert(from);
    led.work.entry(id).or_default();
    if kept {
        drain::keeps_beyond(led, cx, id, from);
    }
}

/// Takes a node out of the holders of what it does not have any more. It may have been told since
/// where an object is, so it still counts as having a cached copy. Of what is pending it is asked
/// once more.
fn remove_lost(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    found: &BTreeSet<(ObjectId, Birth)>,
) -> Vec<ObjectId> {
    let is_lost = |id: &ObjectId, record: &Record| {
        record.state == State::Live
            && record.holders.contains(&from)
            && !found.contains(&(*id, record.birth))
    };
    let records = led.kept.records.iter().map(|(id, stored)| (id, &stored.record));
    let lost: Vec<_> = records
        .filter(|(id, record)| is_lost(id, record))
        .map(|(id, record)| (*id, record.clone()))
        .collect();
    let mut changed = Vec::new();
    for (id, work) in &mut led.work {
        let record = led.kept.records.get(id).map(|stored| &stored.record);
        if let Some(record) = record
            && record.state == State::Pending
            && record.holders.contains(&from)
            && !found.contains(&(*id, record.birth))
        {
            work.missing.insert(from);
            changed.push(*id);
        }
    }
    if !lost.is_empty() {
        led.findings.entry(from).or_default().missing += lost.len() as u64;
    }
    for (id, mut record) in lost {
        record.holders.retain(|slot| *slot != from);
        led.caches.entry(id).or_default().insert(from);
        led.put(cx, id, record);
        led.work.entry(id).or_default();
        changed.push(id);
    }
    changed
}
