//! Copies that were lost are made again.
//!
//! What is on a node that is down counts as there; it may come back. Once the node is out, or says
//! that it has no copy, or drains, another node is asked to hold one: first a node that has a
//! cached copy, so that no byte moves, and last the one where a spread object was made. Objects
//! with the fewest copies come first, and the bytes of a second are limited.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use crate::directory::led::Led;
use crate::directory::{commit, counted, drain, holders, replacement};
use crate::limits::{REPAIR_REST_MS, RETRY_MS};
use crate::record::{Record, State};
use crate::time::Mono;
use crate::view::Context;

/// Goes on with a live record: counts its copies.
pub(super) fn advance(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) {
    replacement::advance(led, cx, id);
    let Some(mut record) = led.record(&id).cloned() else { return };
    let before = record.holders.len();
    for slot in record.holders.clone() {
        if cx.view.is_out(slot) {
            // It may come back with its copy.
            led.caches.entry(id).or_default().insert(slot);
            record.holders.retain(|holder| *holder != slot);
        }
    }
    let (birth, is_left) = (record.birth, !record.holders.is_empty());
    let is_whole = counted::is_enough(cx, &led.sound(&id, &record), record.copies);
    if record.holders.len() != before {
        led.put(cx, id, record.clone());
    }
    let work = led.work.entry(id).or_default();
    work.missing.retain(|slot| cx.view.is_live(*slot));
    if work.rest_until.is_some_and(|until| until <= cx.now) {
        work.rest_until = None;
        work.refused.clear();
    }
    let refused = work.refused.clone();
    if is_whole {
        drain::release(led, cx, id);
    } else if !is_left && led.work.get(&id).is_some_and(|work| work.missing.is_empty()) {
        let may_have = |slot: &Slot| cx.view.is_live(*slot) && !led.is_damaged(&id, *slot);
        let cached: Vec<_> = led.caches_of(&id).filter(may_have).collect();
        if let Some(slot) = cached.iter().copied().find(|slot| !refused.contains(slot)) {
            led.work.entry(id).or_default().missing.insert(slot);
            commit::ask_holders(led, cx, id);
        } else if !cached.is_empty() {
            let is_durable = record.content.durable.is_some();
            if is_durable && holders::choose(cx, led.no, &id, &record, &refused).is_some() {
                // No log of a node that has it takes it: another one is asked.
                return;
            }
            // The node has another object of the id, which will be refused; or no log has room.
            let is_asked = is_durable && refused.len() > 1;
            let rest_ms = if is_asked { REPAIR_REST_MS } else { RETRY_MS };
            let rest_until = &mut led.work.entry(id).or_default().rest_until;
            rest_until.get_or_insert(cx.now.after_ms(rest_ms));
        } else if led.is_surveyed(cx) && led.caches_of(&id).all(|slot| cx.view.is_out(slot)) {
            led.work.remove(&id);
            led.put(cx, id, Record { state: State::Lost, birth, ..record });
        }
    }
}

/// How many copies a live object has, when a node could be asked for another.
pub(super) fn shortage(led: &Led, cx: &Context<'_>, id: &ObjectId) -> Option<usize> {
    let record = led.record(id)?;
    let work = led.work.get(id)?;
    let has = counted::counted(cx, &led.sound(id, record)).len();
    let is_short = record.state == State::Live
        && work.rest_until.is_none_or(|until| until <= cx.now)
        && work.missing.is_empty()
        && has < usize::from(record.copies)
        && !led.sources(cx, id).is_empty()
        // Other copies may come back with their nodes.
        && (led.complete || record.content.durable.is_none());
    is_short.then_some(has)
}

/// Asks a node to hold another copy; the bytes that this moves.
pub(super) fn begin(led: &mut Led, cx: &mut Context<'_>, id: ObjectId) -> u64 {
    if shortage(led, cx, &id).is_none() {
        return 0;
    }
    let Some(record) = led.record(&id) else { return 0 };
    let bytes = record.content.bytes();
    let mut refused = led.work.get(&id).map(|work| work.refused.clone()).unwrap_or_default();
    refused.extend(led.damaged.get(&id).into_iter().flatten().copied());
    let origin = counted::uncounted_origin(record);
    let may_keep = |slot: &Slot| {
        let node = cx.view.map().node(*slot);
        node.is_some_and(plasmon_cluster::Node::is_assignable)
            && !refused.contains(slot)
            && !record.holders.contains(slot)
    };
    let cached: Vec<Slot> = led.caches_of(&id).filter(may_keep).collect();
    let counts = |slot: &Slot| counted::counts(cx, record, *slot);
    let other = cached.iter().copied().find(|slot| origin != Some(*slot) && counts(slot));
    let chosen = other.or_else(|| holders::choose(cx, led.no, &id, record, &refused));
    // Where there is no other node, a copy that does not count is better than one that may go.
    let chosen = chosen.or_else(|| cached.first().copied());
    let work = led.work.entry(id).or_default();
    let Some(slot) = chosen else {
        // Each node has refused or holds a copy. Later there may be room.
        work.rest_until = Some(cx.now.after_ms(REPAIR_REST_MS));
        return 0;
    };
    work.missing.insert(slot);
    commit::ask_holders(led, cx, id);
    if cached.contains(&slot) { 0 } else { bytes }
}

/// Bytes that may be moved: a bucket that fills with time and holds what a second brings.
#[derive(Debug)]
pub(super) struct Bucket {
    bytes_per_s: u64,
    /// May be below zero: an object is moved as a whole.
    bytes: i64,
    filled: Mono,
}

impl Bucket {
    pub(super) fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s, bytes: 0, filled: Mono(0) }
    }

    pub(super) fn fill(&mut self, now: Mono) {
        let passed_us = now.0.saturating_sub(self.filled.0).min(1_000_000);
        let more = u128::from(self.bytes_per_s) * u128::from(passed_us) / 1_000_000;
        let most = i64::try_from(self.bytes_per_s).unwrap_or(i64::MAX);
        if more > 0 || passed_us == 0 {
            self.filled = now;
        }
        self.bytes = self.bytes.saturating_add(i64::try_from(more).unwrap_or(most)).min(most);
    }

    pub(super) fn has_some(&self) -> bool {
        self.bytes > 0
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_one_object_through_and_then_waits_for_its_bytes() {
        let mut bucket = Bucket::new(1000);
        bucket.fill(Mono(2_000_000));
        assert!(bucket.has_some());
        bucket.take(1500);
        bucket.fill(Mono(2_400_000));
        assert!(!bucket.has_some());
        bucket.fill(Mono(2_600_000));
        assert!(bucket.has_some());
        bucket.fill(Mono(60_000_000));
        bucket.take(1000);
        assert!(!bucket.has_some(), "it holds what one second brings");
    }
}
