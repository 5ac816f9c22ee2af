//! Deletes: how an object ends, and when its id can be used again.
//!
//! A delete takes effect once all acting nodes have recorded it. Then every node that may have a
//! copy is told to drop it, again and again until it confirms, or has been without its lease for so
//! long that it shows no copy. After that the record is forgotten, and the id is absent. A copy of
//! a durable object is in a log, and comes back with its node however long that was away: it has to
//! be confirmed (`tombstones.rs`).

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::directory::led::Led;
use crate::directory::{commit, counted, tombstones};
use crate::message::{CommitOutcome, Message};
use crate::record::{Birth, Content, Record, State};
use crate::view::Context;

/// A node asks for an incarnation to end.
pub(super) fn received(
    led: &mut Led,
    cx: &mut Context<'_>,
    from: Slot,
    id: ObjectId,
    birth: Birth,
) {
    let homed = id.home() == Some(birth.slot.0);
    match led.record(&id) {
        None if !led.knows_all(cx) => return,
        // It is seen at its home before the directory knows of it. The record keeps the commit
        // that is on its way from making it exist again.
        None if homed => {
            let (content, holders) = (Content::default(), vec![birth.slot]);
            let state = State::Dead;
            let record = Record { birth, content, copies: 1, copies_min: 1, holders, state };
            led.put(cx, id, record);
        }
        Some(record) if cx.view.is_same(record.birth, birth) => match record.state {
            State::Live | State::Lost => {
                let record = Record { state: State::Dead, ..record.clone() };
                led.put(cx, id, record);
            }
            State::Pending if homed && !led.work.get(&id).is_some_and(|work| work.doubt) => {
                let record = Record { state: State::Dead, ..record.clone() };
                led.put(cx, id, record);
            }
            State::Pending => return,
            State::Dead | State::Withdrawn if is_answered(led, cx, &id) => {
                return cx.send(from, Message::Deleted { id, birth });
            }
            State::Dead | State::Withdrawn => {}
        },
        // This incarnation has ended before.
        None | Some(_) => return cx.send(from, Message::Deleted { id, birth }),
    }
    led.work.entry(id).or_default().deleters.insert(from);
}

/// Whether a delete has happened: all acting nodes know it, and those of a durable object have it
/// in their logs. Where none of them has one, no copy may be left.
fn is_answered(led: &Led, cx: &Context<'_>, id: &ObjectId) -> bool {
    let (Some(record), Some(work)) = (led.record(id), led.work.get(id)) else { return false };
    let is_safe = !tombstones::is_for_logs(record) || tombstones::has_logs(led, cx);
    work.ended && (is_safe || work.unconfirmed.is_empty())
}

/// Goes on with a cache, which ends with the copy of the node where it was made: as if it had been
/// deleted, so that its id can be used again.
pub(super) fn advance_cache(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(record) = led.record(&id).cloned() else { return };
    if record.holders.contains(&record.birth.slot) && cx.view.has_store_of(record.birth) {
        led.work.remove(&id);
        return;
    }
    let caches = led.caches.entry(id).or_default();
    caches.extend(record.holders.iter().copied().chain([record.birth.slot]));
    led.put(cx, id, Record { state: State::Dead, holders: Vec::new(), ..record });
    led.work.entry(id).or_default();
    advance(led, cx, id);
}

/// Goes on with an ended object as far as it can.
pub(super) fn advance(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    let Some(record) = led.record(&id) else { return };
    let record = record.clone();
    let (birth, holders) = (record.birth, record.holders.clone());
    let is_for_logs = tombstones::is_for_logs(&record);
    let recorded = tombstones::add(cx, id, &record) && led.is_recorded(cx, &id);
    let mut work = led.work.remove(&id).unwrap_or_default();
    if !work.ended && recorded {
        work.ended = true;
        work.doubt = false;
        if let Some(outcome) = work.refusal {
            cx.send(birth.slot, Message::Committed { id, birth, outcome });
        }
        work.unconfirmed = holders.into_iter().chain(led.caches_of(&id)).collect();
        work.unconfirmed.extend(std::mem::take(&mut work.missing));
        led.work.insert(id, work);
        ask_to_drop(led, cx, id);
    } else {
        led.work.insert(id, work);
    }
    let Some(work) = led.work.get_mut(&id) else { return };
    work.unconfirmed.retain(|slot| match is_for_logs {
        true => cx.view.has(*slot),
        false => !cx.view.is_silent(cx.now, *slot),
    });
    if is_answered(led, cx, &id) {
        answer(led, cx, id, birth);
    }
    let is_confirmed = led.work.get(&id).is_some_and(|it| it.ended && it.unconfirmed.is_empty());
    let unknown_log = if is_for_logs { led.first_unknown_log(cx) } else { None };
    if is_confirmed && led.first_unknown(cx).is_none() && unknown_log.is_none() {
        led.erase(cx, id);
        tombstones::forget(led, cx, id, birth);
    }
}

/// Tells the nodes that have asked for it that an object is deleted.
fn answer(led: &mut Led, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
    let Some(work) = led.work.get_mut(&id) else { return };
    for slot in std::mem::take(&mut work.deleters) {
        cx.send(slot, Message::Deleted { id, birth });
    }
}

/// Tells the nodes that may have a copy of an ended object to drop it.
pub(super) fn ask_to_drop(led: &Led, cx: &mut Context<'_>, id: ObjectId) {
    let (Some(record), Some(work)) = (led.record(&id), led.work.get(&id)) else { return };
    let (birth, existed) = (record.birth, record.state == State::Dead);
    for slot in work.unconfirmed.iter().filter(|slot| cx.view.is_live(**slot)) {
        cx.send(*slot, Message::Drop { id, birth, existed });
    }
}

/// A node has no copy of an incarnation any more.
pub(super) fn gone(led: &mut Led, cx: &mut Context<'_>, from: Slot, id: ObjectId, birth: Birth) {
    let Some(mut record) = led.record_of(&id, birth).cloned() else { return };
    commit::forget_cache(led, &id, from);
    led.forget_damaged(&id, from);
    match record.state {
        State::Dead | State::Withdrawn => {
            if let Some(work) = led.work.get_mut(&id) {
                work.unconfirmed.remove(&from);
            }
        }
        State::Live if record.holders.contains(&from) => {
            record.holders.retain(|slot| *slot != from);
            // It may have been told meanwhile where the object is.
            led.caches.entry(id).or_default().insert(from);
            led.put(cx, id, record);
            led.work.entry(id).or_default();
        }
        State::Live => {
            led.work.entry(id).or_default();
        }
        State::Pending if from == birth.slot => {
            let work = led.work.entry(id).or_default();
            if work.inherited {
                // It may have existed: the other holders decide.
                work.doubt = true;
                work.missing = record.holders.iter().copied().collect();
                work.missing.remove(&from);
                record.holders.retain(|slot| *slot != from);
                led.put(cx, id, record);
            } else {
                commit::withdraw(led, cx, id, CommitOutcome::NotEnoughNodes);
            }
        }
        // No other node is asked to hold a cache.
        State::Pending if counted::is_cache(&record) => {}
        // It was dropped because the log of its node does not take it.
        State::Pending if led.work.get(&id).is_some_and(|work| work.refused.contains(&from)) => {}
        State::Pending => {
            led.work.entry(id).or_default().missing.insert(from);
        }
        State::Lost => {}
    }
}
