//! Checksums of the copies of a node, for an operator who has the contents of a pool compared.
//!
//! ```text
//!   Checksum ──► the node that is named ── ReadCopies ──► its pool daemon reads them
//!                                       ◄── CopiesRead ──
//!   page  ◄── Checksummed ──┘
//! ```
//!
//! A question that is not answered is asked again until its node is lost, or its time is over. The
//! other side is in `serving.rs`.

mod serving;

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery};

pub(crate) use self::serving::ChecksumServes;
use crate::event::Effect;
use crate::limits::{CHECKSUM_AGAIN_MS, CHECKSUM_MS, CHECKSUMS_MAX};
use crate::message::{Message, QuestionNo};
use crate::time::{Mono, Timers};
use crate::view::Context;

/// A page that is asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// What the answer is given with.
    number: u64,
    node: Slot,
    query: ChecksumQuery,
    deadline: Mono,
}

/// The questions of this node.
#[derive(Debug)]
pub(crate) struct Checksums {
    asked: BTreeMap<QuestionNo, Asked>,
    next: u64,
    timers: Timers<QuestionNo>,
}

impl Checksums {
    /// No questions; they are numbered from `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { asked: BTreeMap::new(), next: first, timers: Timers::new() }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Asks a node; [`Effect::Checksummed`] answers.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        (node, query): (Slot, ChecksumQuery),
    ) {
        if self.asked.len() >= CHECKSUMS_MAX || !query.keeps_limits() {
            return cx.out.effect(Effect::Checksummed { number, page: None });
        }
        let no = QuestionNo(self.next);
        self.next = self.next.wrapping_add(1);
        let deadline = cx.now.after_ms(CHECKSUM_MS);
        self.asked.insert(no, Asked { number, node, query, deadline });
        self.go_on(cx, no);
    }

    /// Asks once more, unless there is no use in it.
    fn go_on(&mut self, cx: &mut Context<'_>, no: QuestionNo) {
        let Some(Asked { node, query, deadline, .. }) = self.asked.get(&no).copied() else {
            return;
        };
        if deadline <= cx.now || !cx.view.is_live(node) {
            return self.end(cx, no, None);
        }
        self.timers.set(no, cx.now.after_ms(CHECKSUM_AGAIN_MS).min(deadline));
        cx.send(node, Message::Checksum { question: no, query });
    }

    /// A node has answered. What is no answer to the question counts as none.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        from: Slot,
        no: QuestionNo,
        page: ChecksumPage,
    ) {
        let asked = self.asked.get(&no).filter(|asked| asked.node == from);
        if let Some(Asked { query, .. }) = asked.copied() {
            self.end(cx, no, Some(page).filter(|page| query.is_answered_by(page)));
        }
    }

    /// The nodes that are not live any more do not answer.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        let is_lost = |asked: &Asked| !cx.view.is_live(asked.node);
        let lost = self.asked.iter().filter(|(_, asked)| is_lost(asked));
        for no in lost.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.end(cx, no, None);
        }
    }

    /// Asks again, and ends what was not answered in time.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) {
        while let Some(no) = self.timers.pop(cx.now) {
            self.go_on(cx, no);
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, no: QuestionNo, page: Option<ChecksumPage>) {
        self.timers.clear(no);
        if let Some(Asked { number, .. }) = self.asked.remove(&no) {
            cx.out.effect(Effect::Checksummed { number, page });
        }
    }
}

#[cfg(test)]
mod tests;
