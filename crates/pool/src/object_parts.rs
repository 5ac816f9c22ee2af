//! Parts of several objects that travel together, as if they were one object of one segment.
//!
//! The spans of an object lie one after the other. Those of the next object begin at a multiple of
//! [`OBJECT_ALIGN`], so that what is aligned in an object is aligned where it comes to lie; the
//! bytes between are zero.

use plasmon_proto::ObjectId;
use plasmon_proto::limits::{GATHER_READS_MAX, GATHER_SPANS_MAX, OBJECT_ALIGN};
use plasmon_proto::parts::{self, Span};
use serde::{Deserialize, Serialize};

use crate::limits::SEGMENT_BYTES;
use crate::record::Birth;

/// Parts of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectParts {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// What is wanted of its data and metadata.
    pub spans: Vec<Span>,
}

impl ObjectParts {
    /// The bytes of its spans.
    pub fn bytes(&self) -> u64 {
        self.spans.iter().fold(0, |sum: u64, span| sum.saturating_add(span.bytes))
    }
}

/// Where the parts of the next object begin, after so many bytes.
pub fn next_start(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(OBJECT_ALIGN).unwrap_or(u64::MAX)
}

/// All bytes, with those between the objects; `None` for a list that no message may have.
pub fn bytes_of(parts: &[ObjectParts]) -> Option<u64> {
    let spans: usize = parts.iter().map(|parts| parts.spans.len()).sum();
    if parts.is_empty() || parts.len() > GATHER_READS_MAX || spans > GATHER_SPANS_MAX {
        return None;
    }
    let mut sum = 0;
    for ObjectParts { id, spans, .. } in parts {
        let bytes = parts::bytes_of(spans).filter(|bytes| *bytes > 0 && id.is_pooled())?;
        sum = next_start(sum).saturating_add(bytes);
    }
    (sum <= SEGMENT_BYTES).then_some(sum)
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;

    use super::*;

    fn parts(spans: &[(u64, u64)]) -> ObjectParts {
        let birth = Birth { slot: Slot(0), boot: 1, serial: 1 };
        let spans = spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
        ObjectParts { id: ObjectId::pooled([1; 12], None), birth, spans }
    }

    #[test]
    fn lists_at_and_past_their_limits() {
        assert_eq!(bytes_of(&[parts(&[(3, 5), (9, 1)])]), Some(6));
        assert_eq!(bytes_of(&[parts(&[(3, 5)]), parts(&[(0, 64)]), parts(&[(1, 1)])]), Some(129));
        assert_eq!(bytes_of(&[parts(&[(7, SEGMENT_BYTES)])]), Some(SEGMENT_BYTES));
        let half = parts(&[(0, SEGMENT_BYTES / 2 + 1)]);
        let wrong = [
            vec![],
            vec![parts(&[])],
            vec![parts(&[(0, 1)]), parts(&[])],
            vec![parts(&[(0, 2), (1, 2)])],
            vec![parts(&[(7, SEGMENT_BYTES + 1)])],
            vec![half.clone(), half],
            vec![parts(&[(u64::MAX, 1)])],
            vec![parts(&[(0, u64::MAX)]), parts(&[(0, u64::MAX)])],
            vec![parts(&[(0, 1)]); GATHER_READS_MAX + 1],
            vec![parts(&[(0, 1), (2, 1), (4, 1)]); GATHER_SPANS_MAX / 2],
            vec![ObjectParts { id: ObjectId::new([1; 20]), ..parts(&[(0, 1)]) }],
        ];
        for list in wrong {
            assert_eq!(bytes_of(&list), None, "{} objects", list.len());
        }
        assert!(bytes_of(&vec![parts(&[(0, 1), (2, 1)]); GATHER_SPANS_MAX / 2]).is_some());
    }
}
