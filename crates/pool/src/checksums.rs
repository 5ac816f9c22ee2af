//! Checksums of the copies of a node, for an operator who has the contents of a pool compared.
//!
//! ```text
//!   Checksum ──► the node that is named ── ReadCopies ──► its pool daemon reads them
//!                                       ◄── CopiesRead ──
//!   page  ◄── Checksummed ──┘
//! ```
//!
//! A question that is not answered is asked again until its time is over, or its node is lost for
//! longer than it takes to start a pool daemon again. The other side is in `serving.rs`.

mod serving;

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery};

pub(crate) use self::serving::ChecksumServes;
use crate::event::Effect;
use crate::limits::{CHECKSUM_AGAIN_MS, CHECKSUM_LOST_MS, CHECKSUM_MS, CHECKSUMS_MAX};
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
    /// Until when a node that is not live is waited for.
    lost: Option<Mono>,
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
        self.asked.insert(no, Asked { number, node, query, deadline, lost: None });
        self.go_on(cx, no);
    }

    /// Asks once more, unless there is no use in it.
    fn go_on(&mut self, cx: &mut Context<'_>, no: QuestionNo) {
        let Some(asked) = self.asked.get_mut(&no) else { return };
        let is_live = cx.view.is_live(asked.node);
        asked.lost = match is_live {
            true => None,
            false => asked.lost.or(Some(cx.now.after_ms(CHECKSUM_LOST_MS))),
        };
        let Asked { node, query, deadline, lost, .. } = *asked;
        let deadline = lost.map_or(deadline, |lost| lost.min(deadline));
        if deadline <= cx.now || cx.view.is_out(node) {
            return self.end(cx, no, None);
        }
        self.timers.set(no, cx.now.after_ms(CHECKSUM_AGAIN_MS).min(deadline));
        if is_live {
            cx.send(node, Message::Checksum { question: no, query });
        }
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

    /// Nodes were lost, or are back.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        for no in self.asked.keys().copied().collect::<Vec<_>>() {
            self.go_on(cx, no);
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
