//! Listings of a namespace: every node says what its store has, and the pages are merged.
//!
//! ```text
//!   a program asks ──► List to each node that counts ──► its store ──► Listed
//!                        again and again, for a while                    │
//!   page, and the nodes that are missing ◄── merged by id ◄──────────────┘
//! ```
//!
//! Nothing is kept between two pages of a listing: each page is asked for with the id after which
//! it begins, and ends where the first of the nodes' pages ends. A node that counts and does not
//! answer is named: what it alone has is not in the page. Nodes that are out do not count; what
//! they alone had is lost.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{NodeState, Slot};
use plasmon_proto::ObjectId;
use plasmon_proto::limits::LIST_PAGE_MAX;
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};

use crate::event::Effect;
use crate::limits::{LIST_MS, LISTS_MAX, LISTS_PER_PEER_MAX, RETRY_MS};
use crate::message::{Message, QuestionNo};
use crate::time::{Mono, Timers};
use crate::view::{Context, View};

/// A page that is asked for.
#[derive(Debug)]
struct Asked {
    /// What the answer is given with.
    number: u64,
    query: ListQuery,
    /// Nodes that are not asked.
    without: BTreeSet<Slot>,
    /// Nodes that have not answered; `None` before the first question, which waits for the lease.
    waiting: Option<BTreeSet<Slot>>,
    missing: BTreeSet<Slot>,
    pages: Vec<ListedPage>,
    deadline: Mono,
}

/// The listings of this node, and its part in those of others.
#[derive(Debug)]
pub(crate) struct Listings {
    asked: BTreeMap<QuestionNo, Asked>,
    next: u64,
    timers: Timers<QuestionNo>,
    /// Questions that this node's store has not answered.
    served: BTreeSet<(Slot, QuestionNo)>,
}

impl Listings {
    /// No listings; questions are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { asked: BTreeMap::new(), next: first, timers: Timers::new(), served: BTreeSet::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Asks for a page; [`Effect::Listed`] answers.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        query: ListQuery,
        without: &[Slot],
    ) {
        if self.asked.len() >= LISTS_MAX || !query.keeps_limits() {
            let (page, missing) = (ListedPage::default(), vec![cx.view.me()]);
            return cx.out.effect(Effect::Listed { number, page, missing });
        }
        let no = QuestionNo(self.next);
        self.next = self.next.wrapping_add(1);
        let asked = Asked {
            number,
            query,
            without: without.iter().copied().collect(),
            waiting: None,
            missing: BTreeSet::new(),
            pages: Vec::new(),
            deadline: cx.now.after_ms(LIST_MS),
        };
        self.asked.insert(no, asked);
        self.send(cx, no);
    }

    /// Asks the nodes that have not answered. A node without its lease may know an old map, and so
    /// too few nodes.
    fn send(&mut self, cx: &mut Context<'_>, no: QuestionNo) {
        self.timers.set(no, cx.now.after_ms(RETRY_MS));
        let Some(asked) = self.asked.get_mut(&no).filter(|_| cx.view.holds_lease(cx.now)) else {
            return;
        };
        asked.begin(cx.view);
        for slot in asked.waiting.iter().flatten() {
            let query = asked.query.clone();
            cx.send(*slot, Message::List { question: no, query });
        }
        self.end_if_complete(cx, no);
    }

    /// A node has answered.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        no: QuestionNo,
        page: ListedPage,
    ) {
        let Some(asked) = self.asked.get_mut(&no) else { return };
        if asked.waiting.as_mut().is_some_and(|waiting| waiting.remove(&from)) {
            if asked.query.is_answered_by(&page) {
                asked.pages.push(page);
            } else {
                asked.missing.insert(from);
            }
            self.end_if_complete(cx, no);
        }
    }

    /// The nodes that are not live any more do not answer.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        let numbers: Vec<_> = self.asked.keys().copied().collect();
        for no in numbers {
            if let Some(asked) = self.asked.get_mut(&no) {
                let waiting = asked.waiting.iter_mut().flat_map(std::mem::take);
                let (live, gone) = waiting.partition(|slot| cx.view.is_live(*slot));
                asked.missing.extend::<BTreeSet<_>>(gone);
                asked.waiting = asked.waiting.is_some().then_some(live);
                self.end_if_complete(cx, no);
            }
        }
    }

    /// Asks again, and ends what was not answered in time.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(no) = self.timers.pop(cx.now) {
            let Some(asked) = self.asked.get(&no) else { continue };
            if asked.deadline > cx.now {
                self.send(cx, no);
            } else if let Some(asked) = self.asked.remove(&no) {
                asked.end(cx);
            }
        }
    }

    fn end_if_complete(&mut self, cx: &mut Context<'_>, no: QuestionNo) {
        let is_complete = |asked: &Asked| asked.waiting.as_ref().is_some_and(BTreeSet::is_empty);
        if self.asked.get(&no).is_some_and(is_complete)
            && let Some(asked) = self.asked.remove(&no)
        {
            self.timers.clear(no);
            asked.end(cx);
        }
    }

    /// Another node, or this one, asks what is here. One that asks again waits already.
    pub(crate) fn serve(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        question: QuestionNo,
        query: ListQuery,
    ) {
        let of_peer = (from, QuestionNo(0))..=(from, QuestionNo(u64::MAX));
        let is_full = self.served.range(of_peer).count() >= LISTS_PER_PEER_MAX;
        if !is_full && self.served.insert((from, question)) {
            cx.out.effect(Effect::ListHere { peer: from, question, query });
        }
    }

    /// The store has answered; `None` when it cannot say what is here. Then it is asked again.
    pub(crate) fn served(
        &mut self,
        cx: &mut Context<'_>,
        peer: Slot,
        question: QuestionNo,
        page: Option<ListedPage>,
    ) {
        if self.served.remove(&(peer, question))
            && let Some(page) = page.filter(ListedPage::keeps_limits)
        {
            cx.send(peer, Message::Listed { question, page });
        }
    }
}

impl Asked {
    /// Which nodes are asked is decided once.
    fn begin(&mut self, view: &View) {
        if self.waiting.is_some() {
            return;
        }
        let counts = |slot: &Slot, state| state != NodeState::Out && !self.without.contains(slot);
        let nodes = view.map().nodes().filter(|(slot, node)| counts(slot, node.state));
        let (live, down): (Vec<_>, Vec<_>) = nodes.partition(|(_, node)| node.is_live());
        self.missing.extend(down.into_iter().map(|(slot, _)| slot));
        self.waiting = Some(live.into_iter().map(|(slot, _)| slot).collect());
    }

    fn end(self, cx: &mut Context<'_>) {
        let mut missing = self.missing;
        missing.extend(self.waiting.unwrap_or_else(|| BTreeSet::from([cx.view.me()])));
        let (number, page) = (self.number, merge(self.pages));
        let missing = missing.into_iter().collect();
        cx.out.effect(Effect::Listed { number, page, missing });
    }
}

/// One page of several, each of which is in order: up to where the first of them ends.
fn merge(pages: Vec<ListedPage>) -> ListedPage {
    let end = pages.iter().filter_map(|page| page.next).min();
    let mut by_id: BTreeMap<ObjectId, ListedObject> = BTreeMap::new();
    for object in pages.into_iter().flat_map(|page| page.objects) {
        if end.is_some_and(|end| object.id > end) {
            continue;
        }
        // A node counts its own copy alone.
        let copies = object.copies.min(1);
        match by_id.get_mut(&object.id) {
            Some(other) => other.copies += copies,
            None => _ = by_id.insert(object.id, ListedObject { copies, ..object }),
        }
    }
    let is_long = by_id.len() > LIST_PAGE_MAX;
    let objects: Vec<ListedObject> = by_id.into_values().take(LIST_PAGE_MAX).collect();
    let last = objects.last().map(|object| object.id);
    ListedPage { objects, next: if is_long { last } else { end } }
}

#[cfg(test)]
mod tests;
