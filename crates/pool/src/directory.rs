//! The directory: which objects exist, and which nodes have them.
//!
//! The ids are divided into groups. Each group has up to three acting nodes in the map, and the
//! first, its primary, decides alone. Two tables: `led` has the groups that this node leads, `kept`
//! those whose records it keeps for another primary.

mod commit;
mod counted;
mod damaged;
mod drain;
mod early;
mod end;
mod find;
mod holders;
mod inventory;
mod kept;
mod led;
mod repair;
mod replacement;
mod tombstones;
mod verify;

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{DrainReport, Epoch, GroupNo, Map, Slot};
use plasmon_proto::ObjectId;

use crate::event::Effect;
use crate::limits::{EARLY_MS, INVENTORY_ENTRIES_MAX, RETRY_MS};
use crate::message::{CopyEntry, Message, QuestionNo};
use crate::record::{Birth, State};
use crate::time::{Mono, Timers};
use crate::view::Context;

use drain::Drains;
use kept::Kept;
use led::{Groups, Led};
use repair::Bucket;
use verify::Verification;

/// So often a repair that waits for bytes looks whether there are some.
const REPAIR_EVERY_MS: u64 = 50;

/// The part of the directory that is on this node.
#[derive(Debug)]
pub(crate) struct Directory {
    led: Groups,
    kept: BTreeMap<GroupNo, Kept>,
    /// When to go on with an object.
    timers: Timers<ObjectId>,
    /// When to ask earlier primaries, nodes and the leader again.
    rounds: Timers<Round>,
    /// Objects that need another copy, those with the fewest first.
    repairs: BTreeSet<(usize, ObjectId)>,
    bucket: Bucket,
    drains: Drains,
    verification: Verification,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Yield, Survey and Report.
    Groups,
    Repair,
    /// Reports about draining nodes.
    Drains,
    /// Copies of objects without a record.
    Early,
}

impl Directory {
    pub(crate) fn new(repair_bytes_per_s: u64) -> Self {
        Self {
            led: BTreeMap::new(),
            kept: BTreeMap::new(),
            timers: Timers::new(),
            rounds: Timers::new(),
            repairs: BTreeSet::new(),
            bucket: Bucket::new(repair_bytes_per_s),
            drains: Drains::default(),
            verification: Verification::default(),
        }
    }

    /// Takes a new map. After maps were missed, this node may have lost a group in between.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>, missed: bool) {
        let is_known = cx.view.is_known();
        for (no, group) in cx.view.map().groups() {
            let place = group.acting.iter().position(|slot| *slot == cx.view.me());
            let place = place.filter(|_| is_known);
            match place {
                None => self.give_up(no),
                Some(0) => self.lead(cx, no, missed),
                Some(place) => self.keep(no, group.since, place < usize::from(group.in_sync)),
            }
        }
        self.look_at_all(cx);
        self.rounds.set(Round::Groups, cx.now);
        self.rounds.set(Round::Drains, cx.now);
    }

    fn give_up(&mut self, no: GroupNo) {
        self.led.remove(&no);
        self.kept.remove(&no);
    }

    fn lead(&mut self, cx: &Context<'_>, no: GroupNo, missed: bool) {
        let group = cx.view.group(no);
        if let Some(led) = self.led.get_mut(&no).filter(|_| !missed) {
            if led.kept.since == group.since {
                led.prior = led.prior.and(group.prior);
            } else {
                led.renew(cx);
            }
            return;
        }
        let led = self.led.remove(&no).map(|led| led.kept);
        let kept = led.or_else(|| self.kept.remove(&no)).filter(|_| group.in_sync > 0);
        let mut kept = kept.unwrap_or_else(|| Kept::new(group.since));
        kept.since = group.since;
        self.led.insert(no, Led::new(cx, no, kept));
    }

    fn keep(&mut self, no: GroupNo, since: Epoch, in_sync: bool) {
        let led = self.led.remove(&no).map(|led| led.kept);
        let kept = led.or_else(|| self.kept.remove(&no));
        let mut kept = kept.unwrap_or_else(|| Kept::new(since));
        if kept.since != since && !in_sync {
            kept = Kept::new(since);
        }
        kept.since = since;
        self.kept.insert(no, kept);
    }

    /// Goes on with everything that the new map may concern.
    fn look_at_all(&mut self, cx: &mut Context<'_>) {
        let mut ids = Vec::new();
        for led in self.led.values_mut() {
            led.watchers.retain(|_, slots| {
                slots.retain(|slot, _| cx.view.is_live(*slot));
                !slots.is_empty()
            });
            led.early.look(cx);
            led.note_failed_logs(cx);
            ids.extend(led.busy());
            for (id, stored) in &led.kept.records {
                let record = &stored.record;
                self.drains.note(led, cx, *id);
                let is_lost =
                    |slot: &Slot| cx.view.is_out(*slot) || !counted::counts(cx, record, *slot);
                let is_short = record.holders.len() < usize::from(record.copies)
                    || record.holders.iter().any(is_lost);
                if record.state == State::Live && is_short && !led.work.contains_key(id) {
                    ids.push(*id);
                }
            }
        }
        for id in ids {
            self.timers.set(id, cx.now);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next().into_iter().chain(self.rounds.next()).min()
    }

    /// The connection to a node was made: what was sent before may be lost.
    pub(crate) fn link_up(&mut self, now: Mono, peer: Slot) {
        for led in self.led.values_mut() {
            led.survey_again(peer);
            for id in led.busy() {
                self.timers.set(id, now);
            }
        }
        self.rounds.set(Round::Groups, now);
    }

    /// The connection to a node was lost; it asks again what it waits for.
    pub(crate) fn link_down(&mut self, peer: Slot) {
        for led in self.led.values_mut() {
            led.pages.remove(&peer);
            led.watchers.retain(|_, slots| {
                slots.remove(&peer);
                !slots.is_empty()
            });
        }
    }

    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(id) = self.timers.pop(cx.now) {
            self.send_again(cx, id);
            self.advance(cx, id);
        }
        while let Some(round) = self.rounds.pop(cx.now) {
            match round {
                Round::Groups => {
                    self.ask_for_groups(cx);
                    self.go_on_verifying(cx);
                }
                Round::Repair => self.repair(cx),
                Round::Drains => {
                    if let Some(ms) = drain::report(&mut self.drains, &self.led, cx) {
                        self.rounds.set(Round::Drains, cx.now.after_ms(ms));
                    }
                }
                Round::Early => self.look_at_early_copies(cx),
            }
        }
    }

    fn send_again(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let Some(led) = self.led.get_mut(&Map::group_of(&id)) else { return };
        led.send_again(cx, id);
        if !led.is_active() || !cx.view.may_decide(cx.now) {
            return;
        }
        match led.record(&id).map(|record| record.state) {
            Some(State::Pending | State::Live) => commit::ask_holders(led, cx, id),
            Some(State::Dead | State::Withdrawn) => end::ask_to_drop(led, cx, id),
            Some(State::Lost) | None => {}
        }
    }

    /// Decides what can be decided about an object.
    fn advance(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        let Some(led) = self.led.get_mut(&Map::group_of(&id)) else { return };
        if led.is_active() && cx.view.may_decide(cx.now) {
            match led.record(&id).map(|record| record.state) {
                Some(State::Pending) => commit::advance(led, cx, id),
                Some(State::Live) if led.record(&id).is_some_and(counted::is_cache) => {
                    end::advance_cache(led, cx, id);
                }
                Some(State::Live) => repair::advance(led, cx, id),
                Some(State::Dead | State::Withdrawn) => end::advance(led, cx, id),
                Some(State::Lost) | None => {
                    led.work.remove(&id);
                }
            }
            if let Some(copies) = repair::shortage(led, cx, &id) {
                self.repairs.insert((copies, id));
                self.rounds.set_if_clear(Round::Repair, cx.now.after_ms(REPAIR_EVERY_MS));
            }
        }
        self.drains.note(led, cx, id);
        if led.is_busy(&id) {
            self.timers.set_if_clear(id, cx.now.after_ms(RETRY_MS));
        }
    }

    fn look_at_early_copies(&mut self, cx: &mut Context<'_>) {
        let may_decide = cx.view.may_decide(cx.now);
        let mut waits = false;
        for led in self.led.values_mut() {
            if led.is_active() && may_decide {
                led.early.look(cx);
            }
            waits |= !led.early.is_empty();
        }
        if waits {
            self.rounds.set(Round::Early, cx.now.after_ms(EARLY_MS));
        }
    }

    fn repair(&mut self, cx: &mut Context<'_>) {
        self.bucket.fill(cx.now);
        while self.bucket.has_some() && cx.view.may_decide(cx.now) {
            let Some((_, id)) = self.repairs.pop_first() else { return };
            if let Some(led) = self.led.get_mut(&Map::group_of(&id)) {
                self.bucket.take(repair::begin(led, cx, id));
            }
        }
        if !self.repairs.is_empty() {
            self.rounds.set(Round::Repair, cx.now.after_ms(REPAIR_EVERY_MS));
        }
    }

    /// What is to be reported of draining nodes now.
    pub(crate) fn take_drain_reports(&mut self) -> Option<Vec<DrainReport>> {
        self.drains.take_reports()
    }

    /// Asks earlier primaries whether they stopped, nodes for their copies, and reports.
    fn ask_for_groups(&mut self, cx: &mut Context<'_>) {
        let mut yields: BTreeMap<Slot, Vec<(GroupNo, Epoch)>> = BTreeMap::new();
        let mut surveys = yields.clone();
        let mut waits = false;
        for (no, led) in &mut self.led {
            let since = led.kept.since;
            led.count_in_sync(cx);
            if let Some(prior) = led.prior {
                yields.entry(prior).or_default().push((*no, since));
                continue;
            }
            for slot in led.unsurveyed(cx) {
                surveys.entry(slot).or_default().push((*no, since));
            }
            if led.is_unreported(cx) {
                cx.out.effect(Effect::Report { group: *no, since });
            }
            waits |= led.send_unheard(cx);
            waits |= led.in_sync < cx.view.group(*no).acting.len() || led.is_unreported(cx);
        }
        waits |= !yields.is_empty() || !surveys.is_empty() || self.verification.is_under_way();
        for (slot, groups) in yields {
            cx.send(slot, Message::Yield { groups });
        }
        for (slot, groups) in surveys {
            for page in groups.chunks(INVENTORY_ENTRIES_MAX) {
                cx.send(slot, Message::Survey { groups: page.to_vec() });
            }
        }
        if waits {
            self.rounds.set(Round::Groups, cx.now.after_ms(RETRY_MS));
        }
    }

    /// A node that led these groups before has stopped.
    pub(crate) fn yielded(&mut self, now: Mono, from: Slot, groups: &[(GroupNo, Epoch)]) {
        for (no, since) in groups {
            if let Some(led) = self.led.get_mut(no)
                && led.kept.since == *since
                && led.prior == Some(from)
            {
                led.prior = None;
                for id in led.busy() {
                    self.timers.set(id, now);
                }
                self.rounds.set(Round::Groups, now);
            }
        }
    }

    /// A page of a node's inventory.
    pub(crate) fn inventory(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        groups: &[(GroupNo, Epoch)],
        copies: &[CopyEntry],
        more: bool,
    ) {
        let mut by_group: BTreeMap<GroupNo, Vec<CopyEntry>> = BTreeMap::new();
        for copy in copies {
            by_group.entry(Map::group_of(&copy.id)).or_default().push(*copy);
        }
        for (no, since) in groups {
            let Some(led) = self.led.get_mut(no).filter(|led| led.kept.since == *since) else {
                continue;
            };
            let copies = by_group.remove(no).unwrap_or_default();
            for id in inventory::received(led, cx, from, &copies, more) {
                self.timers.set(id, cx.now);
            }
            self.rounds.set_if_clear(Round::Groups, cx.now.after_ms(RETRY_MS));
        }
        if self.verification.is_under_way() {
            self.go_on_verifying(cx);
        }
    }

    /// A node asks for a verification.
    pub(crate) fn verify(&mut self, cx: &mut Context<'_>, from: Slot, question: QuestionNo) {
        if self.verification.ask(from, question) {
            self.go_on_verifying(cx);
        }
    }

    /// The log of this node notes that an incarnation was deleted.
    pub(crate) fn tombstone_added(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
        tombstones::recorded(&self.kept, cx, id, birth);
        self.advance(cx, id);
    }

    /// That need not be noted any more, unless this node still has the record that says it.
    pub(crate) fn remove_tombstone(&mut self, cx: &mut Context<'_>, id: ObjectId, birth: Birth) {
        let no = Map::group_of(&id);
        let led = self.led.get(&no).map(|led| &led.kept);
        let mut kept = led.into_iter().chain(self.kept.get(&no));
        if !kept.any(|kept| tombstones::is_wanted(kept, &id, birth)) {
            tombstones::remove(cx, id, birth);
        }
    }

    fn go_on_verifying(&mut self, cx: &mut Context<'_>) {
        if self.verification.go_on(&mut self.led, cx) {
            self.rounds.set(Round::Groups, cx.now);
        }
    }

    /// A message about one object, of a node in its current life in the map.
    pub(crate) fn message(&mut self, cx: &mut Context<'_>, from: Slot, message: Message) {
        match message {
            Message::Record { since, id, version, record } => {
                let no = Map::group_of(&id);
                let is_since = self.kept.get(&no).is_some_and(|kept| kept.since == since);
                if is_since
                    && cx.view.group(no).primary() == Some(from)
                    && tombstones::update(&mut self.kept, cx, no, (id, version, record))
                {
                    cx.send(from, Message::Recorded { since, id, version });
                }
            }
            Message::Recorded { since, id, version } => {
                let led = self.led.get_mut(&Map::group_of(&id));
                if let Some(led) = led.filter(|led| led.kept.since == since) {
                    led.recorded(from, id, version);
                    // As long as another acting node has not, nothing can follow from it.
                    if led.is_recorded(cx, &id) {
                        self.advance(cx, id);
                    }
                }
            }
            Message::Unheard { group, since, version, nodes } => {
                let kept = self.kept.get_mut(&group).filter(|kept| kept.since == since);
                if let Some(kept) = kept
                    && cx.view.group(group).primary() == Some(from)
                {
                    kept.update_unheard(version, nodes);
                    cx.send(from, Message::UnheardRecorded { group, since, version });
                }
            }
            Message::UnheardRecorded { group, since, version } => {
                let led = self.led.get_mut(&group);
                if let Some(led) = led.filter(|led| led.kept.since == since) {
                    led.unheard_recorded(from, version);
                    for id in led.busy() {
                        self.timers.set(id, cx.now);
                    }
                    self.rounds.set(Round::Groups, cx.now);
                }
            }
            Message::Gone { id, birth } => {
                let led = self.led.get_mut(&Map::group_of(&id));
                if let Some(led) = led.filter(|led| led.is_active()) {
                    end::gone(led, cx, from, id, birth);
                    self.advance(cx, id);
                }
            }
            Message::Missing { id, birth, holder } => {
                let led = self.led.get_mut(&Map::group_of(&id));
                if let Some(led) = led.filter(|led| led.is_holder(&id, birth, holder)) {
                    led.survey_again(holder);
                    self.rounds.set(Round::Groups, cx.now);
                }
            }
            Message::Unwatch { id } => {
                if let Some(led) = self.led.get_mut(&Map::group_of(&id))
                    && let Some(slots) = led.watchers.get_mut(&id)
                {
                    slots.remove(&from);
                    if slots.is_empty() {
                        led.watchers.remove(&id);
                    }
                }
            }
            other => self.decide(cx, from, other),
        }
    }

    /// A message that the primary of its id decides about while it holds its lease.
    fn decide(&mut self, cx: &mut Context<'_>, from: Slot, message: Message) {
        let id = match &message {
            Message::Commit { id, birth, .. } if birth.slot == from => *id,
            Message::Find { id, .. } | Message::Delete { id, .. } | Message::Held { id, .. } => *id,
            Message::Where { id, .. } | Message::Locate { id, .. } => *id,
            _ => return,
        };
        let may_decide = cx.view.may_decide(cx.now);
        let led = self.led.get_mut(&Map::group_of(&id));
        let Some(led) = led.filter(|led| led.is_active() && may_decide) else { return };
        match message {
            Message::Commit { id, birth, content, copies, copies_min } => {
                let request = commit::Request { id, birth, content, copies, copies_min };
                commit::received(led, cx, request);
            }
            Message::Find { id, question, watch } => {
                find::received(led, cx, from, id, question, watch);
            }
            Message::Where { id, question } => find::told(led, cx, from, id, question),
            Message::Locate { id, question } => find::located(led, cx, from, id, question),
            Message::Delete { id, birth } => end::received(led, cx, from, id, birth),
            Message::Held { id, birth, outcome } => {
                commit::held(led, cx, from, id, birth, outcome);
                if !led.early.is_empty() {
                    self.rounds.set_if_clear(Round::Early, cx.now.after_ms(EARLY_MS));
                }
            }
            _ => {}
        }
        self.advance(cx, id);
    }
}
