//! Parts of a pooled object that is on other nodes: what a program asks its pool daemon for, and
//! what it gets.
//!
//! The bytes of an object are numbered through data and metadata. A request names *spans* of them;
//! the pool daemon brings these here as the data of one local object, one span after the other with
//! nothing between, so that both sides know where each lies. That object has no name and deletes
//! itself after [`PARTS_TTL_MS`]; a program pins it and deletes it at once.

use serde::{Deserialize, Serialize};

use crate::id::ObjectId;
use crate::limits::{PARTS_SPANS_MAX, SEGMENT_BYTES, SEGMENTS_MAX};
use crate::pool::{Birth, Content};

/// How long a local object with parts lives.
pub const PARTS_TTL_MS: u64 = 60_000;

/// Bytes of an object, from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Where they begin.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Span {
    /// Where the span ends, without overflow.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// The bytes of all spans, if they are a list that may be asked for: so many at most, none empty,
/// in order and without overlap.
pub fn bytes_of(spans: &[Span]) -> Option<u64> {
    if spans.len() > PARTS_SPANS_MAX {
        return None;
    }
    let (mut at, mut sum) = (0, 0_u64);
    for span in spans {
        if span.bytes == 0 || span.offset < at {
            return None;
        }
        at = span.offset.checked_add(span.bytes)?;
        // No overflow: the spans do not overlap.
        sum += span.bytes;
    }
    (sum <= SEGMENT_BYTES * SEGMENTS_MAX).then_some(sum)
}

/// What there is of these spans in an object whose data ends at `data_bytes`.
pub fn within(spans: &[Span], data_bytes: u64) -> Vec<Span> {
    let cut = |span: &Span| Span {
        offset: span.offset,
        bytes: span.end().min(data_bytes).saturating_sub(span.offset),
    };
    spans.iter().map(cut).filter(|span| span.bytes > 0).collect()
}

/// Asks for parts of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// The object, of a pool.
    pub id: ObjectId,
    /// The incarnation that earlier parts are of; another one counts as deleted.
    pub birth: Option<Birth>,
    /// What is wanted of the data ([`bytes_of`]). What is beyond its end is left out.
    pub spans: Vec<Span>,
    /// The data has at least so many bytes, or the request is refused.
    pub end: u64,
    /// Whether the metadata is wanted, too: it follows the other spans.
    pub metadata: bool,
    /// How long to wait for an object that does not exist; 0 does not wait.
    pub timeout_ms: u64,
}

impl ReadRequest {
    /// Whether it keeps the limits.
    pub fn is_valid(&self) -> bool {
        // The metadata is one more.
        let has_room = !self.metadata || self.spans.len() < PARTS_SPANS_MAX;
        self.id.is_pooled() && has_room && bytes_of(&self.spans).is_some()
    }

    /// The spans that are read of an object with this content.
    pub fn spans_of(&self, content: &Content) -> Vec<Span> {
        let mut spans = within(&self.spans, content.data_bytes);
        if self.metadata && content.metadata_bytes > 0 {
            let bytes = content.metadata_bytes.into();
            spans.push(Span { offset: content.data_bytes, bytes });
        }
        spans
    }
}

/// What became of a [`ReadRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadReply {
    /// The parts are here.
    Parts(Parts),
    /// The object is in the store of this node: it is read there.
    Here,
    /// There are no parts.
    Failed(ReadFailure),
}

/// Parts that are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The local object whose data they are; `None` where there are no bytes.
    pub object: Option<ObjectId>,
    /// The incarnation that they are of.
    pub birth: Birth,
    /// What the whole object has.
    pub content: Content,
}

/// Why parts cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadFailure {
    /// There is no object of this id.
    Absent,
    /// It was deleted.
    Deleted,
    /// No node has a copy of it.
    Lost,
    /// It could not be found out in time, or no node that has it could be read from.
    Unreachable,
    /// There is no room for the parts in this node's store.
    NoRoom,
    /// The data ends before what was asked for.
    Beyond {
        /// Where it ends.
        data_bytes: u64,
    },
    /// This node reads parts of too many objects.
    Busy,
    /// Every copy of it is damaged.
    Damaged,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::pool::Keeping;
    use crate::pool::Slot;
    use crate::pool_admin::{Reply, Request};

    fn spans(list: &[(u64, u64)]) -> Vec<Span> {
        list.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect()
    }

    #[test]
    fn spans_at_and_past_their_limits() {
        assert_eq!(bytes_of(&[]), Some(0));
        assert_eq!(bytes_of(&spans(&[(0, 4), (4, 1), (9, 2)])), Some(7));
        for wrong in [&[(0, 0)][..], &[(4, 1), (0, 1)], &[(0, 4), (3, 1)], &[(u64::MAX, 1)]] {
            assert_eq!(bytes_of(&spans(wrong)), None, "{wrong:?}");
        }
        let most = SEGMENT_BYTES * SEGMENTS_MAX;
        assert_eq!(bytes_of(&spans(&[(1, most)])), Some(most));
        assert_eq!(bytes_of(&spans(&[(1, most), (most + 2, 1)])), None);
        let many = |count: u64| (0..count).map(|at| Span { offset: at * 2, bytes: 1 });
        let count = PARTS_SPANS_MAX as u64;
        assert_eq!(bytes_of(&many(count).collect::<Vec<_>>()), Some(count));
        assert_eq!(bytes_of(&many(count + 1).collect::<Vec<_>>()), None);
    }

    #[test]
    fn spans_end_with_the_data() {
        let read = spans(&[(10, 5), (20, 100), (300, 7)]);
        assert_eq!(within(&read, 60), spans(&[(10, 5), (20, 40)]));
        assert_eq!(within(&read, 12), spans(&[(10, 2)]));
        assert_eq!(within(&read, 10), []);
    }

    #[test]
    fn the_largest_request_fits_a_frame() {
        let step = SEGMENT_BYTES * SEGMENTS_MAX / PARTS_SPANS_MAX as u64;
        let far = (1 << 46) - SEGMENT_BYTES * SEGMENTS_MAX;
        let spans: Vec<_> = (0..PARTS_SPANS_MAX as u64)
            .map(|at| Span { offset: far + at * step, bytes: step })
            .collect();
        let id = ObjectId::pooled([0xff; 12], Some(0xfffe));
        let birth = Some(Birth { slot: Slot(0xfffe), boot: u64::MAX, serial: u64::MAX });
        let (end, timeout_ms) = (u64::MAX, u64::MAX);
        let mut read = ReadRequest { id, birth, spans, end, metadata: true, timeout_ms };
        assert!(!read.is_valid(), "the metadata is one span more");
        read.metadata = false;
        assert!(read.is_valid());
        let request = Request::Read(read);
        let bytes = frame::encode_admin_request(u64::MAX, &request).unwrap();
        assert_eq!(frame::decode_admin_request(&bytes), Ok((u64::MAX, request)));
        let other = ReadRequest {
            id: ObjectId::new([1; 20]),
            birth,
            spans: Vec::new(),
            end,
            metadata: false,
            timeout_ms,
        };
        assert!(!other.is_valid(), "not of a pool");
    }

    #[test]
    fn requests_and_replies_are_a_format() {
        let hex =
            |bytes: &[u8]| bytes[16..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = ObjectId::pooled([1; 12], None);
        let birth = Birth { slot: Slot(2), boot: 3, serial: 4 };
        let content = Content {
            data_bytes: 5,
            metadata_bytes: 6,
            attributes_bytes: 8,
            tag: 9,
            table_crc: 7,
            keeping: Keeping::Spread,
            durable: None,
        };
        let read = ReadRequest {
            id,
            birth: Some(birth),
            spans: spans(&[(300, 2)]),
            end: 302,
            metadata: true,
            timeout_ms: 0,
        };
        let text = "010101010101010101010101ffff40706f6f6c00";
        let requests = [
            (Request::Read(read), format!("06{text}0102030401ac0202ae020100")),
            (Request::Prefetch(vec![id]), format!("0701{text}")),
        ];
        for (request, golden) in requests {
            let bytes = frame::encode_admin_request(1, &request).unwrap();
            assert_eq!(hex(&bytes), golden, "{request:?}");
            assert_eq!(frame::decode_admin_request(&bytes), Ok((1, request)));
        }
        let parts = Parts { object: Some(id), birth, content };
        let failed = |failure| Reply::Read(ReadReply::Failed(failure));
        let replies = [
            (Reply::Read(ReadReply::Parts(parts)), format!("050001{text}02030405060809070100")),
            (Reply::Read(ReadReply::Here), "0501".to_owned()),
            (failed(ReadFailure::Beyond { data_bytes: 300 }), "050205ac02".to_owned()),
            (failed(ReadFailure::Busy), "050206".to_owned()),
            (failed(ReadFailure::Damaged), "050207".to_owned()),
            (Reply::Prefetching, "06".to_owned()),
        ];
        for (reply, golden) in replies {
            let bytes = frame::encode_admin_reply(1, &reply).unwrap();
            assert_eq!(hex(&bytes), golden, "{reply:?}");
            assert_eq!(frame::decode_admin_reply(&bytes), Ok((1, reply)));
        }
    }
}
