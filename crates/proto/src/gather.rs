//! Parts of many pooled objects in one request: what a program asks its pool daemon for, and what
//! it gets.
//!
//! The pool daemon brings the spans of objects that it reads from one node together, as the data of
//! few local objects; the reply says for each object that was asked for where its spans begin. From
//! there on they lie one after the other, with nothing between. The local objects are like those of
//! [`crate::parts`].

use serde::{Deserialize, Serialize};

use crate::id::ObjectId;
use crate::limits::{GATHER_BYTES_MAX, GATHER_READS_MAX, GATHER_SPANS_MAX, OBJECT_BYTES_MAX};
use crate::parts::{ReadFailure, Span, bytes_of};

/// What is wanted of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherRead {
    /// The object, of a pool.
    pub id: ObjectId,
    /// What is wanted of its data ([`bytes_of`]). What is beyond its end is left out.
    pub spans: Vec<Span>,
    /// The data has at least so many bytes, or the read fails.
    pub end: u64,
}

/// Asks for parts of several objects. What does not exist is not waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherRequest {
    /// What is wanted, in the order of the reply.
    pub reads: Vec<GatherRead>,
}

impl GatherRequest {
    /// Whether it keeps the limits.
    pub fn is_valid(&self) -> bool {
        if self.reads.is_empty() || self.reads.len() > GATHER_READS_MAX {
            return false;
        }
        let (mut spans, mut bytes) = (0, 0_u64);
        for read in &self.reads {
            let Some(more) = read.bytes() else { return false };
            spans += read.spans.len();
            bytes = bytes.saturating_add(more);
        }
        spans <= GATHER_SPANS_MAX && bytes <= GATHER_BYTES_MAX
    }
}

impl GatherRead {
    /// The bytes of its spans; `None` for what no request may have.
    pub fn bytes(&self) -> Option<u64> {
        let is_valid = self.id.is_pooled()
            && self.end <= OBJECT_BYTES_MAX
            && self.spans.len() <= GATHER_SPANS_MAX
            && self.spans.last().is_none_or(|last| last.end() <= OBJECT_BYTES_MAX);
        if is_valid { bytes_of(&self.spans) } else { None }
    }
}

/// What became of a [`GatherRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherReply {
    /// The local objects.
    pub objects: Vec<ObjectId>,
    /// What became of each read.
    pub reads: Vec<Gathered>,
}

/// What became of a [`GatherRead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gathered {
    /// The spans are here.
    Parts {
        /// In which of the local objects; of no meaning where there are no bytes.
        object: u16,
        /// Where in its data they begin.
        offset: u64,
        /// How many bytes the data of the whole object has.
        data_bytes: u64,
    },
    /// The object is in the store of this node: it is read there.
    Here,
    /// There are no parts.
    Failed(ReadFailure),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::pool_admin::{Reply, Request};

    fn id() -> ObjectId {
        ObjectId::pooled([1; 12], None)
    }

    fn read(spans: &[(u64, u64)]) -> GatherRead {
        let spans: Vec<Span> =
            spans.iter().map(|&(offset, bytes)| Span { offset, bytes }).collect();
        let end = spans.last().map_or(0, Span::end);
        GatherRead { id: id(), spans, end }
    }

    fn is_valid(reads: Vec<GatherRead>) -> bool {
        GatherRequest { reads }.is_valid()
    }

    #[test]
    fn requests_at_and_past_their_limits() {
        assert!(!is_valid(Vec::new()));
        assert!(is_valid(vec![read(&[])]));
        assert!(is_valid(vec![read(&[(5, 1)]); GATHER_READS_MAX]));
        assert!(!is_valid(vec![read(&[(5, 1)]); GATHER_READS_MAX + 1]));
        assert!(is_valid(vec![read(&[(0, 1), (5, 1)]); GATHER_SPANS_MAX / 2]));
        let mut spans = vec![read(&[(0, 1), (5, 1)]); GATHER_SPANS_MAX / 2];
        spans[0] = read(&[(0, 1), (5, 1), (7, 1)]);
        assert!(!is_valid(spans));
        assert!(is_valid(vec![read(&[(9, GATHER_BYTES_MAX / 2)]); 2]));
        assert!(!is_valid(vec![
            read(&[(9, GATHER_BYTES_MAX / 2)]),
            read(&[(0, 16 << 20), (u64::from(u32::MAX), 1)])
        ]));
        for wrong in [&[(0, 0)][..], &[(4, 1), (0, 1)], &[(0, 4), (3, 1)], &[(u64::MAX, 1)]] {
            assert!(!is_valid(vec![read(&[(0, 1)]), read(wrong)]), "{wrong:?}");
        }
        assert!(is_valid(vec![read(&[(OBJECT_BYTES_MAX - 1, 1)])]));
        assert!(!is_valid(vec![read(&[(OBJECT_BYTES_MAX, 1)])]));
        assert!(!is_valid(vec![GatherRead { end: u64::MAX, ..read(&[]) }]));
        assert!(!is_valid(vec![GatherRead { id: ObjectId::new([1; 20]), ..read(&[]) }]));
    }

    #[test]
    fn the_largest_request_and_its_reply_fit_frames() {
        let id = ObjectId::pooled([0xff; 12], Some(0xfffe));
        let far = OBJECT_BYTES_MAX - (1 << 30);
        let spans = |at: u64| Span { offset: far + at * (1 << 21), bytes: 1 << 14 };
        let per_read = (GATHER_SPANS_MAX / GATHER_READS_MAX) as u64;
        let one =
            GatherRead { id, spans: (0..per_read).map(spans).collect(), end: OBJECT_BYTES_MAX };
        let request = GatherRequest { reads: vec![one; GATHER_READS_MAX] };
        assert!(request.is_valid());
        let request = Request::Gather(request);
        let bytes = frame::encode_admin_request(u64::MAX, &request).unwrap();
        assert_eq!(frame::decode_admin_request(&bytes), Ok((u64::MAX, request)));
        let (object, offset, data_bytes) = (u16::MAX, OBJECT_BYTES_MAX, OBJECT_BYTES_MAX);
        let reads = vec![Gathered::Parts { object, offset, data_bytes }; GATHER_READS_MAX];
        let reply = GatherReply { objects: vec![id; GATHER_READS_MAX], reads };
        let reply = Reply::Gather(reply);
        let bytes = frame::encode_admin_reply(u64::MAX, &reply).unwrap();
        assert_eq!(frame::decode_admin_reply(&bytes), Ok((u64::MAX, reply)));
    }

    #[test]
    fn requests_and_replies_are_a_format() {
        let hex =
            |bytes: &[u8]| bytes[16..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let text = "010101010101010101010101ffff40706f6f6c00";
        let request = Request::Gather(GatherRequest { reads: vec![read(&[(300, 2)]), read(&[])] });
        let bytes = frame::encode_admin_request(1, &request).unwrap();
        assert_eq!(hex(&bytes), format!("0a02{text}01ac0202ae02{text}0000"));
        assert_eq!(frame::decode_admin_request(&bytes), Ok((1, request)));
        let reads = vec![
            Gathered::Parts { object: 0, offset: 64, data_bytes: 300 },
            Gathered::Here,
            Gathered::Failed(ReadFailure::Absent),
        ];
        let reply = Reply::Gather(GatherReply { objects: vec![id()], reads });
        let bytes = frame::encode_admin_reply(1, &reply).unwrap();
        assert_eq!(hex(&bytes), format!("0901{text}03000040ac02010200"));
        assert_eq!(frame::decode_admin_reply(&bytes), Ok((1, reply)));
    }
}
