//! The part of a primary when an operator has the pool compared: every node shows its copies in the
//! groups that this node leads once more, some groups at a time, and what differs is counted. It is
//! repaired as after every inventory.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{GroupNo, Slot};

use crate::directory::Directory;
use crate::directory::led::Led;
use crate::limits::{QUESTIONERS_MAX, VERIFY_BATCH_MS, VERIFY_GROUPS_AT_ONCE};
use crate::message::{Message, QuestionNo, Standing};
use crate::record::State;
use crate::time::Mono;
use crate::verify::{NodeTally, Tally};
use crate::view::Context;

/// What differed on one node since its group is being verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Copies that it was to keep, and has not.
    pub(super) missing: u64,
    /// Copies of which there is no record.
    pub(super) unrecorded: u64,
}

/// A verification that is under way, and those that are to follow.
#[derive(Debug, Default)]
pub(super) struct Verification {
    /// Nodes that wait for the one that is under way.
    askers: BTreeSet<(Slot, QuestionNo)>,
    /// Nodes that asked after it had begun.
    next: BTreeSet<(Slot, QuestionNo)>,
    /// Groups that are to be looked at.
    groups: Vec<GroupNo>,
    /// Groups whose copies the nodes were asked for.
    current: Vec<GroupNo>,
    /// When the copies in these groups are waited for no more.
    deadline: Mono,
    tally: Tally,
    nodes: BTreeMap<Slot, NodeTally>,
}

impl Directory {
    /// A node asks for a verification.
    pub(crate) fn verify(&mut self, cx: &mut Context<'_>, from: Slot, question: QuestionNo) {
        let verification = &mut self.verification;
        let asker = (from, question);
        let asked = verification.askers.len() + verification.next.len();
        if verification.askers.contains(&asker) || asked >= QUESTIONERS_MAX {
            return;
        }
        verification.next.insert(asker);
        self.go_on_verifying(cx);
    }

    /// Goes on with a verification as far as it can.
    pub(super) fn go_on_verifying(&mut self, cx: &mut Context<'_>) {
        if !cx.view.may_decide(cx.now) {
            return;
        }
        loop {
            if self.verification.askers.is_empty() && !self.begin_verifying() {
                return;
            }
            let is_late = self.verification.deadline <= cx.now;
            let current = std::mem::take(&mut self.verification.current);
            if !is_late && current.iter().any(|no| self.is_awaited(cx, *no)) {
                self.verification.current = current;
                return;
            }
            for no in current {
                if let Some(led) = self.led.get(&no).filter(|led| is_compared(led, cx)) {
                    count(led, cx, &mut self.verification);
                }
            }
            if self.verification.groups.is_empty() {
                self.end_verifying(cx);
            } else {
                self.survey_next(cx);
            }
        }
    }

    /// Begins what nodes asked for meanwhile, if they did.
    fn begin_verifying(&mut self) -> bool {
        let askers = std::mem::take(&mut self.verification.next);
        let groups = self.led.keys().copied().collect();
        let is_asked = !askers.is_empty();
        if is_asked {
            self.verification = Verification { askers, groups, ..Verification::default() };
        }
        is_asked
    }

    /// Whether nodes have yet to show their copies in a group. A group of which this node does not
    /// know all records is not waited for.
    fn is_awaited(&self, cx: &Context<'_>, no: GroupNo) -> bool {
        let led = self.led.get(&no).filter(|led| led.is_active() && led.complete);
        led.is_some_and(|led| !is_compared(led, cx))
    }

    /// Asks every node for its copies in the next groups.
    fn survey_next(&mut self, cx: &Context<'_>) {
        let groups = &mut self.verification.groups;
        let rest = groups.split_off(groups.len().min(VERIFY_GROUPS_AT_ONCE));
        let current = std::mem::replace(groups, rest);
        for no in &current {
            let Some(led) = self.led.get_mut(no) else { continue };
            led.findings.clear();
            let known: Vec<Slot> = led.surveyed.keys().copied().collect();
            known.into_iter().for_each(|slot| led.survey_again(slot));
        }
        self.verification.current = current;
        self.verification.deadline = cx.now.after_ms(VERIFY_BATCH_MS);
        self.rounds.set(super::Round::Groups, cx.now);
    }

    fn end_verifying(&mut self, cx: &mut Context<'_>) {
        let Verification { askers, next, mut tally, nodes, .. } =
            std::mem::take(&mut self.verification);
        tally.nodes = nodes.into_values().collect();
        for (slot, question) in askers {
            cx.send(slot, Message::Verified { question, tally: tally.clone() });
        }
        self.verification.next = next;
    }

    /// Whether groups wait to be looked at.
    pub(super) fn is_verifying(&self) -> bool {
        !self.verification.askers.is_empty()
    }
}

/// Whether every node has shown its copies in a group that is whole.
fn is_compared(led: &Led, cx: &Context<'_>) -> bool {
    led.is_active() && led.complete && led.unsurveyed(cx).is_empty()
}

impl Led {
    /// A node has a copy of which there is no record.
    pub(super) fn note_unrecorded(&mut self, from: Slot, standing: Standing) {
        if matches!(standing, Standing::Committed | Standing::Held) {
            self.findings.entry(from).or_default().unrecorded += 1;
        }
    }
}

/// Counts what the records of a group say, and what was found wrong.
fn count(led: &Led, cx: &Context<'_>, verification: &mut Verification) {
    let Verification { tally, nodes, .. } = verification;
    tally.groups += 1;
    for (slot, findings) in &led.findings {
        let node = nodes.entry(*slot).or_insert_with(|| NodeTally::of(*slot));
        node.missing += findings.missing;
        node.unrecorded += findings.unrecorded;
    }
    for (id, stored) in &led.kept.records {
        let record = &stored.record;
        match record.state {
            State::Live => tally.objects += 1,
            State::Lost => {
                tally.lost += 1;
                continue;
            }
            State::Pending | State::Dead | State::Withdrawn => continue,
        }
        let live = record.holders.iter().filter(|slot| cx.view.is_live(**slot));
        if led.sources(cx, id).is_empty() {
            tally.unreachable += 1;
        } else if live.count() < usize::from(record.copies) {
            tally.short += 1;
        }
        for slot in &record.holders {
            let node = nodes.entry(*slot).or_insert_with(|| NodeTally::of(*slot));
            node.copies += 1;
            node.bytes = node.bytes.saturating_add(record.content.bytes());
        }
    }
}
