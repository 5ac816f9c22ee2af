//! Parts of several copies that are put together for another node.
//!
//! What is wanted of each copy is copied as soon as the store has opened it, and the copy is let
//! go: all parts together are one segment at most. So a node with a slow connection pins nothing.
//! Parts of spilled copies are read before (`loader.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_pool::Birth;
use plasmon_pool::event::Assembled;
use plasmon_pool::limits::INLINE_BYTES_MAX;
use plasmon_pool::message::{InlineBytes, ObjectParts, SegmentRange, TransferNo};
use plasmon_pool::object_parts::{bytes_of, next_start};
use plasmon_proto::ObjectId;
use plasmon_proto::parts::Span;

use crate::memory::{SharedSource, Source};
use crate::movers::Serve;

/// Copies that the store is asked for at a time, for one transfer.
const OPENED_AT_ONCE: usize = 16;

/// A copy that the store is to open, and the number of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToOpen {
    pub(super) number: u64,
    pub(super) id: ObjectId,
    pub(super) birth: Birth,
}

/// What is to be done once all copies were opened.
pub(super) enum Ready {
    /// A mover sends it.
    Serve(Serve),
    /// The node is told.
    Tell(Slot, TransferNo, Assembled),
}

/// One transfer.
#[derive(Debug)]
struct Assembly {
    bytes: Vec<u8>,
    /// What the store was not asked for yet: the place in the list, and where its parts begin.
    waiting: VecDeque<(u16, u64, ObjectParts)>,
    /// How many answers of the store are missing.
    asked: usize,
    missing: Vec<u16>,
}

#[derive(Debug)]
struct Question {
    of: (Slot, TransferNo),
    place: u16,
    start: u64,
    spans: Vec<Span>,
}

/// The transfers that are put together.
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    under_way: BTreeMap<(Slot, TransferNo), Assembly>,
    questions: BTreeMap<u64, Question>,
}

/// Bytes that were put together.
struct Bytes(Vec<u8>);

impl Source for Bytes {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        let from = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        from.and_then(|from| from.get(..bytes)).unwrap_or_default()
    }
}

impl Assembly {
    fn new(parts: Vec<ObjectParts>) -> Self {
        let bytes = bytes_of(&parts).unwrap_or_default();
        let mut end = 0;
        let places = (0_u16..).zip(parts).map(|(place, parts)| {
            let start = next_start(end);
            end = start.saturating_add(parts.bytes());
            (place, start, parts)
        });
        let waiting = places.collect();
        Self { bytes: vec![0; bytes as usize], waiting, asked: 0, missing: Vec::new() }
    }

    /// Copies the spans of an object to where they belong; whether all of them are there.
    fn put(&mut self, start: u64, spans: &[Span], source: &SharedSource) -> bool {
        let mut into = self.bytes.get_mut(start as usize..).unwrap_or_default();
        for Span { offset, bytes } in spans {
            let Ok(length) = usize::try_from(*bytes) else { return false };
            let part = source.part(*offset, length);
            let Some((first, rest)) = std::mem::take(&mut into).split_at_mut_checked(length) else {
                return false;
            };
            if part.len() != length {
                return false;
            }
            first.copy_from_slice(part);
            into = rest;
        }
        true
    }

    fn ready(self, (peer, transfer): (Slot, TransferNo)) -> Ready {
        let Self { bytes, missing, .. } = self;
        if !missing.is_empty() {
            return Ready::Tell(peer, transfer, Assembled::Missing(missing));
        }
        if bytes.len() as u64 <= INLINE_BYTES_MAX {
            return Ready::Tell(peer, transfer, Assembled::Whole(InlineBytes(bytes)));
        }
        let (source, ranges) = (Arc::new(Bytes(bytes)), vec![SegmentRange { first: 0, count: 1 }]);
        Ready::Serve(Serve { peer, transfer, source, ranges })
    }
}

impl Assemblies {
    /// Parts are to be put together for a transfer; `number` numbers the questions to the store. It
    /// takes the place of an earlier one for the same transfer.
    pub(super) fn begin(
        &mut self,
        of: (Slot, TransferNo),
        parts: Vec<ObjectParts>,
        mut number: impl FnMut() -> u64,
    ) -> Vec<ToOpen> {
        self.end(of);
        self.under_way.insert(of, Assembly::new(parts));
        std::iter::from_fn(|| self.next(of, &mut number)).collect()
    }

    /// The next copy that the store is to open.
    fn next(&mut self, of: (Slot, TransferNo), number: &mut impl FnMut() -> u64) -> Option<ToOpen> {
        let assembly = self.under_way.get_mut(&of)?;
        if assembly.asked >= OPENED_AT_ONCE {
            return None;
        }
        let (place, start, ObjectParts { id, birth, spans }) = assembly.waiting.pop_front()?;
        assembly.asked += 1;
        let number = number();
        self.questions.insert(number, Question { of, place, start, spans });
        Some(ToOpen { number, id, birth })
    }

    /// Whether a question to the store is of this kind.
    pub(super) fn has(&self, number: u64) -> bool {
        self.questions.contains_key(&number)
    }

    /// The parts that are wanted of a copy.
    pub(super) fn spans(&self, number: u64) -> Option<&[Span]> {
        self.questions.get(&number).map(|question| question.spans.as_slice())
    }

    /// The store has opened a copy, or does not have it any more.
    pub(super) fn opened(
        &mut self,
        number: u64,
        source: Option<SharedSource>,
        mut next: impl FnMut() -> u64,
    ) -> (Option<ToOpen>, Option<Ready>) {
        let Some(Question { of, place, start, spans }) = self.questions.remove(&number) else {
            return (None, None);
        };
        let Some(assembly) = self.under_way.get_mut(&of) else { return (None, None) };
        assembly.asked -= 1;
        if !source.is_some_and(|source| assembly.put(start, &spans, &source)) {
            assembly.missing.push(place);
        }
        if assembly.asked > 0 || !assembly.waiting.is_empty() {
            return (self.next(of, &mut next), None);
        }
        (None, self.under_way.remove(&of).map(|assembly| assembly.ready(of)))
    }

    /// The transfer ended.
    pub(super) fn end(&mut self, of: (Slot, TransferNo)) {
        if self.under_way.remove(&of).is_some() {
            self.questions.retain(|_, question| question.of != of);
        }
    }

    /// The connection to a node ended, and its transfers with it.
    pub(super) fn end_peer(&mut self, peer: Slot) {
        self.under_way.retain(|(other, _), _| *other != peer);
        self.questions.retain(|_, question| question.of.0 != peer);
    }
}

#[cfg(test)]
mod tests {
    use plasmon_testkit::Random;

    use super::*;

    const OF: (Slot, TransferNo) = (Slot(1), TransferNo(7));

    fn parts(number: u8, spans: &[(u64, u64)]) -> ObjectParts {
        let birth = Birth { slot: Slot(0), boot: 1, serial: 1 };
        let spans = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
        ObjectParts { id: ObjectId::pooled([number; 12], None), birth, spans }
    }

    fn source(bytes: &[u8]) -> Option<SharedSource> {
        Some(Arc::new(Bytes(bytes.to_vec())))
    }

    /// Answers of the store in any order; what is made of the parts of these objects.
    fn run(dice: &mut Random, parts: &[ObjectParts], objects: &[Option<Vec<u8>>]) -> Ready {
        let mut assemblies = Assemblies::default();
        let mut last = 0;
        let mut number = || {
            last += 1;
            last
        };
        let mut asked = assemblies.begin(OF, parts.to_vec(), &mut number);
        loop {
            assert!(!asked.is_empty() && asked.len() <= OPENED_AT_ONCE);
            let ToOpen { number: question, id, .. } = asked.remove(dice.size_below(asked.len()));
            assert!(assemblies.has(question));
            let object = &objects[usize::from(id.as_bytes()[0])];
            let source = object.as_deref().and_then(source);
            let (more, ready) = assemblies.opened(question, source, &mut number);
            asked.extend(more);
            if let Some(ready) = ready {
                assert!(asked.is_empty() && assemblies.under_way.is_empty());
                assert!(assemblies.questions.is_empty());
                return ready;
            }
        }
    }

    #[test]
    fn parts_of_many_objects_lie_where_both_sides_expect_them() {
        let mut dice = Random::new(3);
        for round in 0..60 {
            let longest = [50, 2000][round % 2];
            let objects: Vec<Option<Vec<u8>>> = (0..1 + dice.size_below(100))
                .map(|_| (0..1 + dice.size_below(longest)).map(|_| dice.below(256) as u8).collect())
                .map(Some)
                .collect();
            let (mut list, mut wanted) = (Vec::new(), Vec::new());
            for (number, object) in objects.iter().enumerate() {
                let object = object.as_deref().unwrap();
                let from = dice.size_below(object.len());
                let middle = from + 1 + dice.size_below(object.len() - from);
                let mut spans = vec![(from as u64, (middle - from) as u64)];
                wanted.resize(next_start(wanted.len() as u64) as usize, 0);
                wanted.extend_from_slice(&object[from..middle]);
                if middle < object.len() {
                    spans.push((middle as u64, (object.len() - middle) as u64));
                    wanted.extend_from_slice(&object[middle..]);
                }
                list.push(parts(number as u8, &spans));
            }
            match run(&mut dice, &list, &objects) {
                Ready::Serve(serve) => {
                    assert!(wanted.len() as u64 > INLINE_BYTES_MAX);
                    assert_eq!(serve.source.part(0, wanted.len()), wanted);
                    assert_eq!(serve.source.bytes(), wanted.len() as u64);
                }
                Ready::Tell(peer, transfer, outcome) => {
                    assert_eq!((peer, transfer), OF);
                    assert_eq!(outcome, Assembled::Whole(InlineBytes(wanted)));
                }
            }
        }
    }

    #[test]
    fn what_is_gone_or_shorter_is_named_and_nothing_is_sent() {
        let mut dice = Random::new(4);
        let objects = [Some(vec![1; 10]), None, Some(vec![2; 5]), Some(vec![3; 10])];
        let list: Vec<_> = (0..4).map(|number| parts(number, &[(0, 2), (5, 1)])).collect();
        let Ready::Tell(_, _, Assembled::Missing(mut missing)) = run(&mut dice, &list, &objects)
        else {
            panic!("two of them are missing")
        };
        missing.sort_unstable();
        assert_eq!(missing, [1, 2]);
    }

    #[test]
    fn a_transfer_that_has_ended_is_not_served() {
        let mut assemblies = Assemblies::default();
        let mut last = 0;
        let mut number = || {
            last += 1;
            last
        };
        let begin = |assemblies: &mut Assemblies, of, number: &mut _| {
            assemblies.begin(of, vec![parts(1, &[(0, 1)])], number)[0].number
        };
        let first = begin(&mut assemblies, OF, &mut number);
        let again = begin(&mut assemblies, OF, &mut number);
        let other = begin(&mut assemblies, (Slot(2), OF.1), &mut number);
        assert!(!assemblies.has(first), "another took its place");
        assemblies.end_peer(Slot(2));
        assert!(!assemblies.has(other));
        assemblies.end(OF);
        let (more, ready) = assemblies.opened(again, source(&[1]), &mut number);
        assert!(more.is_none() && ready.is_none());
        assert!(assemblies.under_way.is_empty() && assemblies.questions.is_empty());
    }
}
