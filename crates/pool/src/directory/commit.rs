//! Commits: how an object comes to exist.
//!
//! A record is `pending` until all acting nodes have it and all holders have the object. Then, and
//! not before, it is `live` and the origin is told. A new primary finds pending records *in doubt*:
//! it asks their origin and holders, because the one before may have told the origin.

use std::collections::BTreeSet;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::config::Mutation;
use crate::directory::led::{Led, Work};
use crate::directory::{counted, damaged, drain, holders, tombstones};
use crate::limits::{COPIES_MAX, HOLDERS_MAX, MOVED_MS, RECORDS_MAX, SOURCES_MAX};
use crate::message::{Answer, CommitOutcome, HoldOutcome, Message};
use crate::record::{Birth, Content, Record, State};
use crate::view::Context;

/// What an origin asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) id: ObjectId,
    pub(super) birth: Birth,
    pub(super) content: Content,
    pub(super) copies: u8,
    pub(super) copies_min: u8,
}

/// An origin asks for its object to exist.
pub(super) fn received(led: &mut Led, cx: &mut Context<'_>, request: Request) {
    let Request { id, birth, .. } = request;
    let Some(record) = led.record(&id) else {
        if led.knows_all(cx) {
            return begin(led, cx, request);
        }
        let outcome = CommitOutcome::Waiting;
        return cx.send(birth.slot, Message::Committed { id, birth, outcome });
    };
    let work = led.work.get(&id);
    let outcome = match (record.state, record.birth == birth) {
        // Whether it exists is not decided. The origin asks again.
        (State::Pending, _) => progress(cx, work),
        (State::Dead, false) | (State::Withdrawn, _) if !work.is_some_and(|work| work.ended) => {
            CommitOutcome::Waiting
        }
        (State::Live, true) if is_short(cx, &led.certain(cx, record), work, request) => {
            // It was found again with fewer copies than the origin was promised.
            let Request { copies, copies_min, .. } = request;
            let progress = progress(cx, work);
            if record.copies < copies {
                let record = Record { copies, copies_min, ..record.clone() };
                led.put(cx, id, record);
            }
            led.work.entry(id).or_default();
            progress
        }
        (State::Live | State::Dead, true) => {
            note_origin(led, cx, id, birth.slot);
            CommitOutcome::Done
        }
        (State::Lost, true) => {
            // A durable one may not be in the log of its origin, which is asked.
            let is_held = record.content.durable.is_none();
            let holders = if is_held { vec![birth.slot] } else { Vec::new() };
            let record = Record { state: State::Live, holders, ..record.clone() };
            led.put(cx, id, record);
            led.caches.entry(id).or_default().extend((!is_held).then_some(birth.slot));
            led.work.entry(id).or_default();
            return;
        }
        (State::Withdrawn, true) => {
            work.and_then(|work| work.refusal).unwrap_or(CommitOutcome::NotEnoughNodes)
        }
        (State::Live | State::Lost, false) => CommitOutcome::Exists,
        (State::Dead | State::Withdrawn, false) => {
            let known = work.and_then(|work| work.unconfirmed.first().copied());
            let unknown = known.or_else(|| led.first_unknown(cx));
            let node = match tombstones::is_for_logs(record) {
                true => unknown.or_else(|| led.first_unknown_log(cx)),
                false => unknown,
            };
            CommitOutcome::InUse(node.unwrap_or(cx.view.me()))
        }
    };
    cx.send(birth.slot, Message::Committed { id, birth, outcome });
}

/// What an origin is told while nothing is decided: whether copies that this waits for move.
fn progress(cx: &Context<'_>, work: Option<&Work>) -> CommitOutcome {
    let moved = work.and_then(|work| work.moved);
    match moved.is_some_and(|moved| cx.now < moved.after_ms(MOVED_MS)) {
        true => CommitOutcome::Moving,
        false => CommitOutcome::Waiting,
    }
}

/// An origin that is told that its object exists has a copy, also when the record was made again
/// from those of other nodes.
fn note_origin(led: &mut Led, cx: &Context<'_>, id: ObjectId, origin: Slot) {
    if led.record(&id).is_some_and(|record| record.holders.contains(&origin)) {
        return;
    }
    led.caches.entry(id).or_default().insert(origin);
    if let Some(work) = led.work.get_mut(&id).filter(|work| work.ended) {
        work.unconfirmed.insert(origin);
    }
    if led.record(&id).is_some_and(|record| record.state == State::Live) {
        drain::keeps_beyond(led, cx, id, origin);
    }
}

/// Whether an object that exists has too few copies to say so, and may get more.
fn is_short(cx: &Context<'_>, record: &Record, work: Option<&Work>, request: Request) -> bool {
    let is_at_rest = work.is_some_and(|work| work.rest_until.is_some());
    // Of a durable object at least one copy is in a log.
    let has_some = match record.content.durable {
        None => !record.holders.is_empty(),
        Some(_) => !counted::counted(cx, record).is_empty(),
    };
    let is_content = is_at_rest && has_some;
    !is_content && !counted::is_enough(cx, record, request.copies_min)
}

fn begin(led: &mut Led, cx: &mut Context<'_>, request: Request) {
    let Request { id, birth, content, copies, copies_min } = request;
    let holders = vec![birth.slot];
    let mut record = Record { birth, content, copies, copies_min, holders, state: State::Pending };
    // The origin is asked, too: this commit may be one that it sent before it was refused.
    let mut work = Work { missing: BTreeSet::from([birth.slot]), ..Work::default() };
    fill(led, cx, &id, &mut record, &mut work);
    let outcome = if led.kept.records.len() >= RECORDS_MAX {
        CommitOutcome::StoreFull
    } else if !counted::is_enough(cx, &record, copies_min) {
        scarcity(cx, &record)
    } else {
        led.put(cx, id, record);
        led.work.insert(id, work);
        return ask_holders(led, cx, id);
    };
    led.early.refuse(cx, &id);
    cx.send(birth.slot, Message::Committed { id, birth, outcome });
}

/// Why there are not enough holders: too few nodes, or too few that have a log.
fn scarcity(cx: &Context<'_>, record: &Record) -> CommitOutcome {
    let nodes = cx.view.map().nodes().filter(|(_, node)| node.is_assignable());
    let with_log = nodes.filter(|(slot, _)| cx.view.has_log(*slot)).count();
    let is_durable = record.content.durable.is_some();
    match is_durable && with_log < usize::from(record.copies_min) {
        true => CommitOutcome::NotEnoughLogs,
        false => CommitOutcome::NotEnoughNodes,
    }
}

/// Whether a node that has refused a copy is there, and could count with it: it has no room.
fn has_refused(cx: &Context<'_>, record: &Record, slot: Slot) -> bool {
    cx.view.is_live(slot) && (record.content.durable.is_none() || cx.view.has_log(slot))
}

/// Chooses holders for the copies that have none. A cache has its origin or ends.
fn fill(led: &Led, cx: &Context<'_>, id: &ObjectId, record: &mut Record, work: &mut Work) {
    if counted::is_cache(record) {
        return;
    }
    while record.holders.len() < HOLDERS_MAX && !counted::is_enough(cx, record, record.copies) {
        let chosen = holders::choose(cx, led.no, id, record, &work.refused);
        let Some(slot) = chosen else { return };
        record.holders.push(slot);
        work.missing.insert(slot);
    }
}

/// Asks the holders that have not answered. From then on they may have a copy.
pub(super) fn ask_holders(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let (Some(record), Some(work)) = (led.record(&id), led.work.get(&id)) else { return };
    let (birth, content) = (record.birth, record.content);
    let live = record.state == State::Live;
    let is_held = record.holders.iter().any(|slot| !work.missing.contains(slot));
    let mut sources = match is_held {
        _ if work.doubt => Vec::new(),
        true => led.sources(cx, &id),
        false => unlogged(led, cx, &id),
    };
    if !work.doubt && record.state == State::Pending && !sources.contains(&birth.slot) {
        sources.insert(0, birth.slot);
    }
    let missing = work.missing.iter().copied().filter(|slot| cx.view.is_live(*slot));
    for slot in missing.collect::<Vec<_>>() {
        led.caches.entry(id).or_default().insert(slot);
        let mut sources = sources.clone();
        sources.truncate(COPIES_MAX);
        cx.send(slot, Message::Hold { id, birth, content, sources, live });
    }
}

/// Of a durable object that is in no log: nodes whose logs do not take the copies that they have.
fn unlogged(led: &Led, cx: &Context<'_>, id: &ObjectId) -> Vec<Slot> {
    let is_meant = |it: &Record| it.state == State::Live && it.content.durable.is_some();
    let is_unlogged = led.record(id).is_some_and(is_meant);
    let Some(work) = led.work.get(id).filter(|_| is_unlogged) else { return Vec::new() };
    led.sources(cx, id).into_iter().filter(|slot| work.refused.contains(slot)).collect()
}

/// A holder has answered.
pub(super) fn held(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    birth: Birth,
    outcome: HoldOutcome,
) {
    match outcome {
        // A log has failed, and not both nodes have the map that says so. It is asked again.
        HoldOutcome::Unlogged | HoldOutcome::NoLog
            if is_early(led, cx, from, (&id, birth), outcome) =>
        {
            return;
        }
        HoldOutcome::Held | HoldOutcome::Hidden | HoldOutcome::Unlogged => {
            return has_copy(led, cx, from, id, birth, outcome);
        }
        HoldOutcome::Cached => return has_cached(led, cx, from, id, birth),
        HoldOutcome::Arriving => return is_arriving(led, cx, from, id, birth),
        HoldOutcome::Damaged
            if led.record_of(&id, birth).is_none_or(|it| it.state == State::Live) =>
        {
            return damaged::said(led, cx, from, id, birth);
        }
        // A copy of what does not exist yet is not held.
        HoldOutcome::Damaged
        | HoldOutcome::NoRoom
        | HoldOutcome::NoLog
        | HoldOutcome::Absent
        | HoldOutcome::Withdrawn => {}
    }
    let Some(mut record) = led.record_of(&id, birth).cloned() else { return };
    let Some(work) = led.work.get_mut(&id) else { return };
    let asked = work.missing.remove(&from);
    let (is_withdrawn, may_exist) =
        (outcome == HoldOutcome::Withdrawn, work.doubt || work.inherited);
    match record.state {
        State::Pending if from == birth.slot && (is_withdrawn || !may_exist) => {
            let outcome = match outcome {
                // Its log has none: of its memory that is not said.
                HoldOutcome::NoRoom if record.content.durable.is_some() => CommitOutcome::StoreFull,
                _ => CommitOutcome::NotEnoughNodes,
            };
            withdraw(led, cx, id, outcome);
        }
        State::Pending => {
            work.refused.insert(from);
            record.holders.retain(|slot| *slot != from);
            led.put(cx, id, record);
            // What clients of a node see, or is its origin's, stays there when it is not held.
            if matches!(outcome, HoldOutcome::Absent | HoldOutcome::Withdrawn) {
                forget_cache(led, &id, from);
            }
        }
        State::Live if asked => {
            work.refused.insert(from);
            // A cached copy that is there cannot be refused.
            if !matches!(outcome, HoldOutcome::NoRoom | HoldOutcome::NoLog) {
                forget_cache(led, &id, from);
            } else if record.content.durable.is_some() && is_held_elsewhere(cx, &record, from) {
                // It may have been brought to a node whose log does not take it.
                cx.send(from, Message::Release { id, birth });
            }
        }
        State::Live | State::Dead | State::Withdrawn | State::Lost => {}
    }
}

/// Whether a live node has a copy that counts, besides this one.
fn is_held_elsewhere(cx: &Context<'_>, record: &Record, slot: Slot) -> bool {
    let counted = counted::counted(cx, record);
    counted.into_iter().any(|other| other != slot && cx.view.is_live(other))
}

/// Whether a node says that a copy is not in its log, and its copy would count as one that is. An
/// origin whose log does not take the object keeps it, so that it can be copied to others.
fn is_early(
    led: &Led,
    cx: &Context<'_>,
    from: Slot,
    (id, birth): (&ObjectId, Birth),
    outcome: HoldOutcome,
) -> bool {
    led.record_of(id, birth).is_some_and(|record| match outcome {
        HoldOutcome::Unlogged => counted::counts(cx, record, from),
        _ => record.state == State::Pending && from == birth.slot,
    })
}

/// Bytes come to a node that was asked for a copy.
fn is_arriving(led: &mut Led, cx: &Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
    if led.record_of(&id, birth).is_none() {
        return;
    }
    if let Some(work) = led.work.get_mut(&id).filter(|work| work.missing.contains(&from)) {
        work.moved = Some(cx.now);
    }
}

/// A node keeps a copy. It may have been asked more than once, and have refused before.
fn has_copy(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    birth: Birth,
    outcome: HoldOutcome,
) {
    let Some(mut record) = led.record_of(&id, birth).cloned() else {
        // An object with a home is seen there before its commit is recorded, and may be seen by
        // clients of the node that has this copy, unless it is hidden.
        let may_be_seen = id.home().is_some() && outcome != HoldOutcome::Hidden;
        if led.knows_all(cx) && !may_be_seen {
            cx.send(from, Message::Drop { id, birth, existed: false });
        }
        return;
    };
    // A hidden copy of a durable object need not be in the log: that is still waited for.
    let is_held = outcome != HoldOutcome::Hidden || record.content.durable.is_none();
    if outcome == HoldOutcome::Held {
        led.forget_damaged(&id, from);
    }
    let asked = led.work.get_mut(&id).is_some_and(|work| {
        let asked = is_held && work.missing.remove(&from);
        work.moved = if asked { Some(cx.now) } else { work.moved };
        asked
    });
    let is_holder = record.holders.contains(&from);
    if asked && !is_holder && record.state == State::Live {
        record = drain::with_place(led, cx, &id, record);
    }
    if record.state == State::Live {
        cx.send(from, Message::Publish { id, birth });
    }
    match record.state {
        State::Live if asked && !is_holder && record.holders.len() < HOLDERS_MAX => {
            record.holders.push(from);
            led.put(cx, id, record);
            forget_cache(led, &id, from);
        }
        State::Pending | State::Live if is_holder => forget_cache(led, &id, from),
        State::Pending | State::Live => {
            led.caches.entry(id).or_default().insert(from);
            drain::keeps_beyond(led, cx, id, from);
        }
        State::Lost => {
            // Else the node is asked to keep it.
            let holders = if is_held { vec![from] } else { Vec::new() };
            led.put(cx, id, Record { state: State::Live, holders, ..record });
            led.caches.entry(id).or_default().extend((!is_held).then_some(from));
            led.work.entry(id).or_default();
            cx.send(from, Message::Publish { id, birth });
        }
        State::Dead | State::Withdrawn => {
            led.caches.entry(id).or_default().insert(from);
            led.work.entry(id).or_default().unconfirmed.insert(from);
        }
    }
}

/// A node got a copy without asking the directory, and may evict it.
fn has_cached(led: &mut Led, cx: &mut Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
    if led.record(&id).is_none() && !led.knows_all(cx) {
        return;
    }
    cx.send(from, Message::Noted { id, birth });
    let Some(record) = led.record_of(&id, birth).cloned() else {
        if led.record(&id).is_none() && led.knows_all(cx) && id.home().is_some() {
            led.early.add(cx, from, id, birth);
        }
        return;
    };
    if !record.holders.contains(&from) {
        led.caches.entry(id).or_default().insert(from);
    }
    match record.state {
        State::Pending | State::Live => {}
        State::Lost => {
            led.put(cx, id, Record { state: State::Live, holders: Vec::new(), ..record });
            led.work.entry(id).or_default();
        }
        State::Dead | State::Withdrawn => {
            led.work.entry(id).or_default().unconfirmed.insert(from);
        }
    }
}

pub(super) fn forget_cache(led: &mut Led, id: &ObjectId, slot: Slot) {
    if let Some(caches) = led.caches.get_mut(id) {
        caches.remove(&slot);
        if caches.is_empty() {
            led.caches.remove(id);
        }
    }
}

/// Goes on with a pending record as far as it can.
pub(super) fn advance(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(mut record) = led.record(&id).cloned() else { return };
    let mut work = led.work.remove(&id).unwrap_or_default();
    let origin = record.birth.slot;
    let has_store = cx.view.has_store_of(record.birth);
    let is_there = cx.view.is_live(origin) && has_store;
    if !is_there && !work.inherited && id.home().is_none() {
        // It has never existed. Its origin may have heard an earlier refusal of it, so it does not
        // come to exist without the origin.
        led.work.insert(id, work);
        if !has_store {
            withdraw(led, cx, id, CommitOutcome::NotEnoughNodes);
        }
        return;
    }
    if !work.doubt && !is_there {
        work.doubt = true;
        work.missing = record.holders.iter().copied().collect();
    }
    // An origin that lost its store cannot say whether it was refused: its copy is one of many.
    let has_said = is_there && !work.missing.contains(&origin);
    if work.doubt && (!has_said || !record.holders.contains(&origin)) {
        led.work.insert(id, work);
        return settle(led, cx, id);
    }
    work.doubt = false;
    for slot in work.missing.clone() {
        if !cx.view.is_live(slot) {
            work.missing.remove(&slot);
            work.refused.insert(slot);
            record.holders.retain(|holder| *holder != slot);
            led.caches.entry(id).or_default().insert(slot);
        }
    }
    fill(led, cx, &id, &mut record, &mut work);
    let full = work.refused.iter().any(|slot| has_refused(cx, &record, *slot));
    let is_enough = counted::is_enough(cx, &record, record.copies_min) || work.inherited;
    let changed = led.record(&id).is_some_and(|before| before.holders != record.holders);
    let scarcity = scarcity(cx, &record);
    let is_held = work.missing.is_empty();
    led.work.insert(id, work);
    if changed {
        led.put(cx, id, record);
        ask_holders(led, cx, id);
    }
    let hurried = cx.view.config.breaks(Mutation::AcknowledgeBeforeCopies);
    if !is_enough {
        let outcome = if full { CommitOutcome::StoreFull } else { scarcity };
        withdraw(led, cx, id, outcome);
    } else if led.is_recorded(cx, &id) && (is_held || hurried) {
        succeed(led, cx, id);
    }
}

/// Decides about a pending record without its origin: it exists if a holder has the object.
fn settle(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(mut record) = led.record(&id).cloned() else { return };
    let Some(work) = led.work.get_mut(&id) else { return };
    if work.missing.iter().any(|slot| cx.view.is_live(*slot)) {
        return;
    }
    let held = |slot: &Slot| !work.missing.contains(slot);
    if record.holders.iter().any(held) {
        let before = record.holders.len();
        record.holders.retain(held);
        // What is away may have a copy.
        let away = std::mem::take(&mut work.missing);
        if record.holders.len() != before {
            led.caches.entry(id).or_default().extend(away);
            led.put(cx, id, record);
        }
        if led.is_recorded(cx, &id) {
            succeed(led, cx, id);
        }
        return;
    }
    // What is down may come back with a copy, what is out does not count any more.
    if work.missing.iter().all(|slot| cx.view.is_out(*slot)) && led.is_surveyed(cx) {
        led.work.remove(&id);
        // A node that has a copy without being a holder is asked to keep it.
        let is_cached = led.caches_of(&id).any(|slot| !cx.view.is_out(slot));
        // A cache is not lost: it ends.
        let is_cached = is_cached || counted::is_cache(&record);
        let state = if is_cached { State::Live } else { State::Lost };
        led.work.extend(is_cached.then(|| (id, Work::default())));
        led.put(cx, id, Record { state, holders: Vec::new(), ..record });
    }
}

/// The object exists from here on.
pub(super) fn succeed(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(record) = led.record(&id).cloned() else { return };
    let (birth, content) = (record.birth, record.content);
    let (holders, is_cache) = (record.holders.clone(), counted::is_cache(&record));
    let is_promised = counted::is_enough(cx, &led.certain(cx, &record), record.copies_min);
    if let Some(work) = led.work.get_mut(&id) {
        work.doubt = false;
    }
    led.put(cx, id, Record { state: State::Live, ..record });
    // With fewer copies it exists, too, and its origin asks again until there are enough.
    if is_promised {
        let outcome = CommitOutcome::Done;
        cx.send(birth.slot, Message::Committed { id, birth, outcome });
    }
    // At its home an object with one has been seen from the beginning.
    for slot in holders.iter().copied().filter(|slot| id.home() != Some(slot.0)) {
        cx.send(slot, Message::Publish { id, birth });
    }
    let sources = led.sources(cx, &id);
    for (slot, question) in led.watchers.remove(&id).unwrap_or_default() {
        if !sources.contains(&slot) {
            led.caches.entry(id).or_default().insert(slot);
        }
        let sources = sources.iter().take(SOURCES_MAX).copied().collect();
        let keeps = holders.contains(&slot) && !is_cache;
        let answer = Answer::Found { birth, content, sources, keeps };
        cx.send(slot, Message::Answered { id, question, answer });
    }
}

/// The object will never exist; its origin is told why once all acting nodes know it.
pub(super) fn withdraw(led: &mut Led, cx: &mut Context<'_>, id: ObjectId, outcome: CommitOutcome) {
    let Some(record) = led.record(&id).cloned() else { return };
    led.put(cx, id, Record { state: State::Withdrawn, ..record });
    let work = led.work.entry(id).or_default();
    work.refusal = Some(outcome);
    work.doubt = false;
}
