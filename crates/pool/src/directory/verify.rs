//! The part of a primary when an operator has the pool compared: every node shows its copies in the
//! groups that this node leads once more, some groups at a time, and what differs is counted. It is
//! repaired as after every inventory.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{GroupNo, Slot};

use crate::directory::counted;
use crate::directory::led::{Groups, Led};
use crate::limits::{QUESTIONERS_MAX, VERIFY_BATCH_MS, VERIFY_GROUPS_AT_ONCE};
use crate::message::{Message, QuestionNo, Standing};
use crate::record::State;
use crate::tally::{NodeTally, Tally};
use crate::time::Mono;
use crate::view::Context;

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

impl Verification {
    /// A node asks for a verification. Whether one may have to begin.
    pub(super) fn ask(&mut self, from: Slot, question: QuestionNo) -> bool {
        let asker = (from, question);
        let asked = self.askers.len() + self.next.len();
        !self.askers.contains(&asker) && asked < QUESTIONERS_MAX && self.next.insert(asker)
    }

    /// Goes on as far as it can. Whether every node is to be asked for its copies in some groups.
    pub(super) fn go_on(&mut self, groups: &mut Groups, cx: &mut Context<'_>) -> bool {
        let mut is_asked = false;
        while cx.view.may_decide(cx.now) {
            if self.askers.is_empty() && !self.begin(groups) {
                break;
            }
            let is_late = self.deadline <= cx.now;
            let awaits = |no: &GroupNo| groups.get(no).is_some_and(|led| is_awaited(led, cx));
            if !is_late && self.current.iter().any(awaits) {
                break;
            }
            for no in std::mem::take(&mut self.current) {
                if let Some(led) = groups.get(&no).filter(|led| is_compared(led, cx)) {
                    count(led, cx, self);
                }
            }
            if self.groups.is_empty() {
                self.end(cx);
            } else {
                self.survey_next(groups, cx);
                is_asked = true;
            }
        }
        is_asked
    }

    /// Begins what nodes asked for meanwhile, if they did.
    fn begin(&mut self, groups: &Groups) -> bool {
        let askers = std::mem::take(&mut self.next);
        let is_asked = !askers.is_empty();
        if is_asked {
            let groups = groups.keys().copied().collect();
            *self = Self { askers, groups, ..Self::default() };
        }
        is_asked
    }

    /// Has every node asked for its copies in the next groups.
    fn survey_next(&mut self, groups: &mut Groups, cx: &Context<'_>) {
        let rest = self.groups.split_off(self.groups.len().min(VERIFY_GROUPS_AT_ONCE));
        self.current = std::mem::replace(&mut self.groups, rest);
        for no in &self.current {
            let Some(led) = groups.get_mut(no) else { continue };
            led.findings.clear();
            let known: Vec<Slot> = led.surveyed.keys().copied().collect();
            known.into_iter().for_each(|slot| led.survey_again(slot));
        }
        self.deadline = cx.now.after_ms(VERIFY_BATCH_MS);
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        let Self { askers, next, mut tally, nodes, .. } = std::mem::take(self);
        tally.nodes = nodes.into_values().collect();
        for (slot, question) in askers {
            cx.send(slot, Message::Verified { question, tally: tally.clone() });
        }
        self.next = next;
    }

    /// Whether groups wait to be looked at.
    pub(super) fn is_under_way(&self) -> bool {
        !self.askers.is_empty()
    }
}

/// Whether nodes have yet to show their copies in a group. A group of which this node does not
/// know all records is not waited for.
fn is_awaited(led: &Led, cx: &Context<'_>) -> bool {
    led.is_active() && led.complete && !is_compared(led, cx)
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
        let origin = counted::uncounted_origin(record);
        let live = record.holders.iter().filter(|slot| cx.view.is_live(**slot));
        let live = live.filter(|slot| origin != Some(**slot) && !led.is_damaged(id, **slot));
        if led.sources(cx, id).is_empty() && !led.has_damaged(id) {
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
