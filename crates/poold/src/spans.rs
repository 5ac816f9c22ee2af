//! Parts of a copy, as if they were an object of their own.

use plasmon_proto::parts::Span;

use crate::memory::{SharedSource, Source};

/// Spans of a source, one after the other.
pub(crate) struct Spans {
    source: SharedSource,
    spans: Vec<Span>,
    /// Where each of them begins here.
    starts: Vec<u64>,
    bytes: u64,
}

impl Spans {
    /// The spans must be a list that may be asked for ([`plasmon_proto::parts::bytes_of`]).
    pub(crate) fn new(source: SharedSource, spans: Vec<Span>) -> Self {
        let mut bytes = 0;
        let starts = spans.iter().map(|span| {
            bytes += span.bytes;
            bytes - span.bytes
        });
        let starts = starts.collect();
        Self { source, spans, starts, bytes }
    }

    /// What lies from there on: the first of the spans in question, and where in it that begins.
    fn find(&self, offset: u64) -> (usize, u64) {
        let at = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        (at, offset - self.starts.get(at).copied().unwrap_or(offset))
    }

    /// The pieces of so many bytes from there on: places in the source, and lengths.
    fn pieces(&self, offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
        let (first, mut skip) = self.find(offset);
        let mut left = bytes as u64;
        self.spans.iter().skip(first).map_while(move |span| {
            let count = span.bytes.checked_sub(skip)?.min(left);
            let piece = (span.offset + skip, count as usize);
            (left, skip) = (left - count, 0);
            (count > 0).then_some(piece)
        })
    }
}

impl Source for Spans {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        match self.pieces(offset, bytes).next() {
            Some((place, count)) if count == bytes => self.source.part(place, bytes),
            _ => &[],
        }
    }

    fn gather(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        let mut gathered = Vec::new();
        for (place, count) in self.pieces(offset, bytes) {
            let mut piece = self.source.part(place, count);
            if piece.len() != count && self.source.gather(place, count, &mut gathered) {
                piece = &gathered;
            }
            if piece.len() != count {
                return false;
            }
            into.extend_from_slice(piece);
        }
        into.len() == bytes
    }

    fn is_in_memory(&self) -> bool {
        self.source.is_in_memory()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plasmon_testkit::Random;

    use super::*;

    struct Bytes(Vec<u8>);

    impl Source for Bytes {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn part(&self, offset: u64, bytes: usize) -> &[u8] {
            self.0.get(offset as usize..).and_then(|from| from.get(..bytes)).unwrap_or_default()
        }
    }

    #[test]
    fn any_bytes_of_the_spans_are_those_of_the_source() {
        let mut dice = Random::new(7);
        for _ in 0..200 {
            let whole: Vec<u8> =
                (0..1 + dice.size_below(300)).map(|_| dice.below(256) as u8).collect();
            let (mut spans, mut at, mut wanted) = (Vec::new(), 0, Vec::new());
            while at < whole.len() {
                let offset = at + dice.size_below(9).min(whole.len() - at - 1);
                let bytes = 1 + dice.size_below((whole.len() - offset).min(20));
                spans.push(Span { offset: offset as u64, bytes: bytes as u64 });
                wanted.extend_from_slice(&whole[offset..offset + bytes]);
                at = offset + bytes;
            }
            let source = Spans::new(Arc::new(Bytes(whole)), spans);
            assert_eq!(source.bytes(), wanted.len() as u64);
            let mut gathered = vec![9];
            for from in 0..=wanted.len() {
                let bytes = dice.size_below(wanted.len() - from + 1);
                assert!(source.gather(from as u64, bytes, &mut gathered));
                assert_eq!(gathered, wanted[from..from + bytes]);
                let part = source.part(from as u64, bytes);
                assert!(part.is_empty() || *part == wanted[from..from + bytes]);
                let beyond = wanted.len() - from + 1;
                assert!(!source.gather(from as u64, beyond, &mut gathered));
                assert!(source.part(from as u64, beyond).is_empty());
            }
        }
    }

    /// A peer names what the copy does not have: nothing is sent of it.
    #[test]
    fn spans_beyond_the_source_give_nothing() {
        let spans = vec![Span { offset: 2, bytes: 2 }, Span { offset: 4, bytes: 100 }];
        let source = Spans::new(Arc::new(Bytes(vec![0; 10])), spans);
        assert!(!source.gather(0, 102, &mut Vec::new()));
        assert!(source.part(2, 100).is_empty());
        assert_eq!(source.part(0, 2), [0, 0]);
        let none = Spans::new(Arc::new(Bytes(vec![0; 10])), Vec::new());
        assert!(none.part(0, 1).is_empty() && none.gather(0, 0, &mut Vec::new()));
    }
}
