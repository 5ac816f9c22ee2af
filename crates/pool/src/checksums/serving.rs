//! The side of the node whose copies are read.
//!
//! A page has what the node's clients can see: nothing else is sure to be complete. It is decided
//! here which bytes are read; the pool daemon reads them, one copy after the other.

use std::collections::BTreeMap;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::pool_checksum::{
    BegunChecksum, CHECKSUMS_PER_PAGE, ChecksumPage, ChecksumQuery, CopyChecksum,
};

use crate::copies::{Copies, Copy};
use crate::event::{CopyPart, CopyRead, Effect};
use crate::limits::{CHECKSUM_PAGE_BYTES, CHECKSUMS_SERVED_MAX};
use crate::message::{Message, QuestionNo};
use crate::view::Context;

/// What is read for a page, and where the next one begins.
#[derive(Debug)]
struct Plan {
    parts: Vec<CopyPart>,
    next: Option<ChecksumQuery>,
}

/// The pages that are being made.
#[derive(Debug, Default)]
pub(crate) struct ChecksumServes(BTreeMap<(Slot, QuestionNo), Plan>);

impl ChecksumServes {
    /// Another node, or this one, asks. One that asks again waits already.
    pub(crate) fn serve(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (from, question): (Slot, QuestionNo),
        query: ChecksumQuery,
    ) {
        let of = (from, question);
        if self.0.len() >= CHECKSUMS_SERVED_MAX || self.0.contains_key(&of) {
            return;
        }
        let plan = Plan::new(copies.seen_after(query.after), query);
        if plan.parts.is_empty() {
            let page = ChecksumPage { copies: Vec::new(), next: plan.next };
            return cx.send(from, Message::Checksummed { question, page });
        }
        let parts = plan.parts.clone();
        self.0.insert(of, plan);
        cx.out.effect(Effect::ReadCopies { peer: from, question, parts });
    }

    /// The copies are read, as far as they could be; `None` when nothing could be read now. Then
    /// the node asks again.
    pub(crate) fn read(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (peer, question): (Slot, QuestionNo),
        read: Option<Vec<Option<CopyRead>>>,
    ) {
        let plan = self.0.remove(&(peer, question));
        if let Some((plan, read)) = plan.zip(read) {
            let page = plan.page(copies, read);
            cx.send(peer, Message::Checksummed { question, page });
        }
    }
}

impl Plan {
    /// What is read of these copies, which are in the order of their ids.
    fn new<'a>(
        copies: impl Iterator<Item = (&'a ObjectId, &'a Copy)>,
        query: ChecksumQuery,
    ) -> Self {
        let (mut parts, mut last) = (Vec::new(), query.after);
        let mut left = CHECKSUM_PAGE_BYTES;
        for (id, copy) in copies {
            if query.until.is_some_and(|until| *id > until) {
                break;
            }
            let bytes = copy.content.data_bytes.saturating_add(copy.content.metadata_bytes.into());
            let (begin, crc) = match query.begun.filter(|begun| begun.id == *id) {
                Some(begun) if begun.birth != copy.birth || begun.bytes > bytes => {
                    // Another incarnation: there is nothing that it could be compared with.
                    last = Some(*id);
                    continue;
                }
                begun => begun.map_or((0, 0), |begun| (begun.bytes, begun.crc)),
            };
            if parts.len() == CHECKSUMS_PER_PAGE || left == 0 {
                let next = ChecksumQuery { after: last, begun: None, ..query };
                return Self { parts, next: Some(next) };
            }
            let end = bytes.min(begin.saturating_add(left));
            left -= end - begin;
            let (id, birth) = (*id, copy.birth);
            let is_logged = copy.logged && copy.content.durable.is_some();
            parts.push(CopyPart { id, birth, begin, end, bytes, crc, is_logged });
            if end < bytes {
                // The checksum up to there is not known yet.
                let begun = Some(BegunChecksum { id, birth, bytes: end, crc: 0 });
                return Self { parts, next: Some(ChecksumQuery { after: last, begun, ..query }) };
            }
            last = Some(id);
        }
        Self { parts, next: None }
    }

    /// The page, after the copies were read.
    fn page(self, copies: &Copies, read: Vec<Option<CopyRead>>) -> ChecksumPage {
        let Self { parts, mut next } = self;
        let mut page = Vec::new();
        for (part, read) in parts.into_iter().zip(read) {
            let CopyPart { id, birth, end, bytes, .. } = part;
            match read {
                Some(CopyRead { crc: Some(crc), .. }) if end < bytes => {
                    if let Some(begun) = next.as_mut().and_then(|next| next.begun.as_mut()) {
                        begun.crc = crc;
                    }
                }
                Some(CopyRead { crc: Some(crc), name, logged }) => {
                    page.push(CopyChecksum { id, birth, bytes, crc: Some(crc), name, logged });
                }
                unreadable => {
                    if end < bytes {
                        let after = Some(id);
                        next = next.map(|next| ChecksumQuery { after, begun: None, ..next });
                    }
                    // One that ended meanwhile is no copy any more.
                    if copies.of(&id, birth).is_some() {
                        let (name, logged) =
                            unreadable.map(|it| (it.name, it.logged)).unwrap_or_default();
                        page.push(CopyChecksum { id, birth, bytes, crc: None, name, logged });
                    }
                }
            }
        }
        ChecksumPage { copies: page, next }
    }
}
