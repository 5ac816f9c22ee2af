//! Pages of checksums, with a store whose bytes are their numbers.

use std::collections::BTreeSet;

use plasmon_proto::ObjectId;
use plasmon_proto::pool_checksum::{BegunChecksum, CHECKSUMS_PER_PAGE};
use plasmon_testkit::Random;

use super::*;
use crate::config::Config;
use crate::copies::{Copies, Copy};
use crate::event::{CopyPart, CopyRead};
use crate::limits::{CHECKSUM_PAGE_BYTES, CHECKSUMS_SERVED_MAX};
use crate::outbox::Outbox;
use crate::record::{Birth, Content};
use crate::view::View;

fn birth(serial: u64) -> Birth {
    Birth { slot: Slot(0), boot: 1, serial }
}

fn copy(serial: u64, data_bytes: u64) -> Copy {
    let content = Content { data_bytes, metadata_bytes: 3, ..Content::default() };
    Copy { birth: birth(serial), content, visible: true, kept: true, logged: false }
}

/// A checksum that is the same however the bytes are divided, and another one where some are left
/// out, or are of another copy.
fn crc(part: &CopyPart) -> u32 {
    let up_to = |end: u64| end.wrapping_mul(end ^ part.birth.serial);
    part.crc.wrapping_add(up_to(part.end).wrapping_sub(up_to(part.begin)) as u32)
}

struct Here {
    view: View,
    out: Outbox,
    copies: Copies,
    serves: ChecksumServes,
}

impl Here {
    fn new() -> Self {
        let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
        let (out, copies) = (Outbox::default(), Copies::default());
        Self { view, out, copies, serves: ChecksumServes::default() }
    }

    fn serve(&mut self, question: u64, query: ChecksumQuery) -> Option<Vec<CopyPart>> {
        let of = (Slot(0), QuestionNo(question));
        let cx = &mut Context { now: Mono(0), view: &self.view, out: &mut self.out };
        self.serves.serve(cx, &self.copies, of, query);
        match self.out.effects.pop() {
            Some(Effect::ReadCopies { peer: Slot(0), question: no, parts }) if no == of.1 => {
                Some(parts)
            }
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, question: u64, read: Option<Vec<Option<CopyRead>>>) -> Option<ChecksumPage> {
        let of = (Slot(0), QuestionNo(question));
        let cx = &mut Context { now: Mono(0), view: &self.view, out: &mut self.out };
        self.serves.read(cx, &self.copies, of, read);
        self.sent()
    }

    fn sent(&mut self) -> Option<ChecksumPage> {
        match self.out.to_self.pop_front()? {
            Message::Checksummed { page, .. } => Some(page),
            other => panic!("{other:?}"),
        }
    }

    /// A page where everything can be read but these objects.
    fn page(&mut self, query: ChecksumQuery, unreadable: &BTreeSet<ObjectId>) -> ChecksumPage {
        let Some(parts) = self.serve(1, query) else { return self.sent().expect("a page") };
        assert!(parts.len() <= CHECKSUMS_PER_PAGE);
        let bytes: u64 = parts.iter().map(|part| part.end - part.begin).sum();
        assert!(bytes <= CHECKSUM_PAGE_BYTES);
        let read = |part: &CopyPart| {
            let found = CopyRead { crc: Some(crc(part)), name: None, logged: None };
            (!unreadable.contains(&part.id)).then_some(found)
        };
        let page = self.read(1, Some(parts.iter().map(read).collect())).expect("a page");
        assert!(query.is_answered_by(&page), "{query:?} {page:?}");
        page
    }
}

/// Every copy that clients see is in the pages once, whatever its size, with the checksum of all of
/// its bytes.
#[test]
fn the_pages_have_every_copy_once() {
    for seed in 0..60 {
        let mut dice = Random::new(seed);
        let mut here = Here::new();
        let mut expected = Vec::new();
        let mut unreadable = BTreeSet::new();
        for number in 0..dice.below(400) {
            let mut identity = [0; 12];
            identity.iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
            let id = ObjectId::pooled(identity, None);
            let bytes = match dice.below(20) {
                0 => dice.below(4 * CHECKSUM_PAGE_BYTES),
                1 => CHECKSUM_PAGE_BYTES,
                2 => 0,
                _ => dice.below(1 << 22),
            };
            let visible = dice.below(10) > 0;
            let copy = Copy { visible, ..copy(number, bytes) };
            here.copies.insert(id, copy);
            if !visible {
                continue;
            }
            let is_readable = dice.below(10) > 0;
            if !is_readable {
                unreadable.insert(id);
            }
            let (begin, bytes) = (0, bytes + 3);
            let (birth, is_logged) = (copy.birth, false);
            let whole = CopyPart { id, birth, begin, end: bytes, bytes, crc: 0, is_logged };
            expected.push((id, is_readable.then(|| crc(&whole))));
        }
        expected.sort_unstable();
        let (mut query, mut found) = (Some(ChecksumQuery::default()), Vec::new());
        while let Some(next) = query {
            let page = here.page(next, &unreadable);
            found.extend(page.copies.into_iter().map(|copy| (copy.id, copy.crc)));
            query = page.next;
        }
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// A copy that is larger than a page is read on where the page before ended.
#[test]
fn a_large_copy_takes_several_pages() {
    let mut here = Here::new();
    let id = ObjectId::pooled([5; 12], None);
    let bytes = 2 * CHECKSUM_PAGE_BYTES + (7 << 20);
    here.copies.insert(id, copy(9, bytes - 3));
    let none = BTreeSet::new();
    let first = here.page(ChecksumQuery::default(), &none);
    let begun = first.next.and_then(|next| next.begun).unwrap();
    assert_eq!((first.copies.len(), begun.bytes), (0, CHECKSUM_PAGE_BYTES));
    let second = here.page(first.next.unwrap(), &none);
    let third = here.page(second.next.unwrap(), &none);
    let (begin, end, is_logged) = (0, bytes, false);
    let whole = CopyPart { id, birth: birth(9), begin, end, bytes, crc: 0, is_logged };
    assert_eq!(third.copies[0].crc, Some(crc(&whole)));
    assert_eq!((third.copies[0].bytes, third.next), (bytes, None));

    // It was deleted and made again meanwhile.
    here.copies.insert(id, copy(10, bytes));
    assert_eq!(here.page(second.next.unwrap(), &none), ChecksumPage::default());
    // One that cannot be read any more does not hold the others up.
    let other = ObjectId::pooled([6; 12], None);
    here.copies.insert(other, copy(3, 1));
    let page = here.page(ChecksumQuery::default(), &BTreeSet::from([id]));
    assert_eq!((page.copies[0].id, page.copies[0].crc), (id, None));
    let page = here.page(page.next.unwrap(), &none);
    assert_eq!(page.copies[0].id, other);
}

/// One object alone is read again, and what the log has of it is said.
#[test]
fn a_page_may_end_with_an_id_and_says_what_logs_have() {
    let mut here = Here::new();
    let id = |number| ObjectId::pooled([number; 12], None);
    let durable = Some(plasmon_proto::pool::WantedCopies { copies: 1, copies_min: 1 });
    for number in 1..5 {
        let content = Content { data_bytes: 5, durable, ..Content::default() };
        let logged = number != 2;
        here.copies.insert(id(number), Copy { content, logged, ..copy(number.into(), 5) });
    }
    let query = ChecksumQuery { after: Some(id(1)), until: Some(id(3)), ..Default::default() };
    let parts = here.serve(1, query).unwrap();
    let found: Vec<_> = parts.iter().map(|part| (part.id, part.is_logged)).collect();
    assert_eq!(found, [(id(2), false), (id(3), true)]);
    let read = |crc, logged| Some(CopyRead { crc, name: None, logged });
    let page = here.read(1, Some(vec![read(Some(7), None), read(None, Some(false))])).unwrap();
    let found: Vec<_> = page.copies.iter().map(|copy| (copy.crc, copy.logged)).collect();
    assert_eq!((found, page.next), (vec![(Some(7), None), (None, Some(false))], None));
}

#[test]
fn what_ended_meanwhile_is_left_out_and_what_cannot_be_tried_is_asked_again() {
    let mut here = Here::new();
    let id = ObjectId::pooled([5; 12], None);
    here.copies.insert(id, copy(9, 5));
    assert!(here.serve(1, ChecksumQuery::default()).is_some());
    assert_eq!(here.serve(1, ChecksumQuery::default()), None, "it is being made");
    here.copies.remove(&id, birth(9));
    assert_eq!(here.read(1, Some(vec![None])), Some(ChecksumPage::default()));
    here.copies.insert(id, copy(9, 5));
    assert!(here.serve(1, ChecksumQuery::default()).is_some());
    assert_eq!(here.read(1, None), None);
    assert_eq!(here.read(1, Some(vec![None])), None, "it is not being made any more");
    for number in 0..CHECKSUMS_SERVED_MAX as u64 {
        assert!(here.serve(number, ChecksumQuery::default()).is_some());
    }
    assert_eq!(here.serve(99, ChecksumQuery::default()), None, "too many");
}

#[test]
fn a_node_that_is_not_in_the_pool_does_not_answer_and_wrong_questions_end() {
    let view = View::new(Config::new(Slot(0), 1, 1, 1 << 20));
    let mut out = Outbox::default();
    let mut checksums = Checksums::new(7);
    let cx = &mut Context { now: Mono(0), view: &view, out: &mut out };
    checksums.ask(cx, 3, (Slot(1), ChecksumQuery::default()));
    let begun =
        BegunChecksum { id: ObjectId::pooled([1; 12], None), birth: birth(1), bytes: 0, crc: 0 };
    let (after, begun) = (Some(ObjectId::pooled([2; 12], None)), Some(begun));
    let wrong = ChecksumQuery { after, begun, until: None };
    checksums.ask(cx, 4, (Slot(1), wrong));
    let none = |number| Effect::Checksummed { number, page: None };
    assert_eq!(out.effects, [none(3), none(4)]);
    assert_eq!(checksums.next_deadline(), None);
}
