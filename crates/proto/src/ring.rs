//! The records of a client's two rings.
//!
//! A record is eight 64-bit words. The client submits; the daemon completes. A submission is known
//! by its position in the ring; the daemon has applied every submission before the ring's head.
//! Byte tables: `docs/formats/shared-memory.md`.

use crate::code::Code;
use crate::extent::{ExtentId, Placement, Range};
use crate::id::ObjectId;
use crate::object::{Policy, Sizes, Traits};

/// One record as it lies in the ring.
pub type Record = [u64; 8];

const OP_ANNOUNCE: u8 = 1;
const OP_PUT: u8 = 2;
const OP_ABORT: u8 = 3;
const OP_DELETE: u8 = 4;
const OP_LEASE_WANTED: u8 = 5;
const OP_LEASE_RETURN: u8 = 6;

const OP_REFUSED: u8 = 65;
const OP_LEASE: u8 = 66;
const OP_EXTENT_GONE: u8 = 67;

const BIT_CACHE: u8 = 1;
const BIT_OWNED: u8 = 2;

/// What a client submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The client is creating this object in memory leased to it.
    Announce {
        /// The id.
        id: ObjectId,
    },
    /// The object is complete: publish it. It need not have been announced.
    Put(Put),
    /// The announced object will not come.
    Abort {
        /// The id.
        id: ObjectId,
    },
    /// Delete a sealed object.
    Delete {
        /// The id.
        id: ObjectId,
    },
    /// The lease runs out soon; answered by [`Completion::Lease`] or a refusal.
    LeaseWanted {
        /// The least that helps.
        bytes_min: u64,
        /// What would be best.
        bytes_wanted: u64,
    },
    /// A leased range is no longer needed.
    LeaseReturn(Range),
}

/// An object whose bytes are complete, in memory leased to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// The id.
    pub id: ObjectId,
    /// Where its parts start.
    pub placement: Placement,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
}

impl Put {
    /// The memory of the object, `None` when a size exceeds its limit.
    #[inline]
    pub fn range(&self) -> Option<Range> {
        self.placement.range(&self.sizes)
    }
}

/// What the daemon answers through the completion ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A submission failed.
    Refused {
        /// The position of the submission.
        position: u64,
        /// Why.
        code: Code,
        /// Which object it was about, zeroes when none.
        id: ObjectId,
    },
    /// A leased range, the answer to the submission at this position.
    Lease {
        /// The position of the submission.
        position: u64,
        /// The range.
        range: Range,
    },
    /// An extent was dropped: unmap it.
    ExtentGone(ExtentId),
}

/// A record that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring record with operation {op} and fields out of bounds or unknown")]
pub struct BadRecord {
    /// The operation byte.
    pub op: u8,
}

#[inline]
fn head(op: u8, traits: Traits, metadata: u64) -> u64 {
    let mut bits = 0;
    if traits.policy == Policy::Cache {
        bits |= BIT_CACHE;
    }
    if traits.owned {
        bits |= BIT_OWNED;
    }
    u64::from(op) | u64::from(traits.tag) << 8 | u64::from(bits) << 16 | metadata << 32
}

impl Submission {
    /// The record of this submission. Sizes must be within their limits.
    #[inline]
    pub fn encode(&self) -> Record {
        let plain = Traits::default();
        match self {
            Self::Announce { id } => with_id(head(OP_ANNOUNCE, plain, 0), id),
            Self::Abort { id } => with_id(head(OP_ABORT, plain, 0), id),
            Self::Delete { id } => with_id(head(OP_DELETE, plain, 0), id),
            Self::Put(Put { id, placement, sizes, traits }) => {
                let mut record = with_id(head(OP_PUT, *traits, sizes.metadata), id);
                record[4] = placement.offset;
                record[5] = sizes.data;
                record[6] = sizes.attributes;
                record[7] = placement.extent.0;
                record
            }
            Self::LeaseWanted { bytes_min, bytes_wanted } => {
                [head(OP_LEASE_WANTED, plain, 0), 0, 0, 0, *bytes_min, *bytes_wanted, 0, 0]
            }
            Self::LeaseReturn(range) => with_range(head(OP_LEASE_RETURN, plain, 0), range, 0),
        }
    }

    /// The id in a record of an object, for a look ahead; without meaning in any other record.
    #[inline]
    pub fn id_in(record: &Record) -> ObjectId {
        ObjectId::from_words([record[1], record[2], record[3]])
    }

    /// Reads a record that another process wrote. Sizes are within their limits afterwards; whether
    /// the range lies in memory leased to the client is for the daemon to check.
    #[inline]
    pub fn decode(record: &Record) -> Result<Self, BadRecord> {
        let op = record[0].to_le_bytes()[0];
        let bad = BadRecord { op };
        let id = Self::id_in(record);
        match op {
            OP_ANNOUNCE => Ok(Self::Announce { id }),
            OP_ABORT => Ok(Self::Abort { id }),
            OP_DELETE => Ok(Self::Delete { id }),
            OP_LEASE_WANTED => {
                Ok(Self::LeaseWanted { bytes_min: record[4], bytes_wanted: record[5] })
            }
            OP_LEASE_RETURN => Ok(Self::LeaseReturn(range_of(record))),
            OP_PUT => {
                let [_, tag, bits, zero, ..] = record[0].to_le_bytes();
                let sizes =
                    Sizes { data: record[5], metadata: record[0] >> 32, attributes: record[6] };
                let known = zero == 0 && bits & !(BIT_CACHE | BIT_OWNED) == 0;
                let total = sizes.footprint().filter(|_| known).ok_or(bad)?;
                record[4].checked_add(total).ok_or(bad)?;
                let policy = if bits & BIT_CACHE == 0 { Policy::Keep } else { Policy::Cache };
                let traits = Traits { policy, tag, owned: bits & BIT_OWNED != 0 };
                let placement = Placement { extent: ExtentId(record[7]), offset: record[4] };
                Ok(Self::Put(Put { id, placement, sizes, traits }))
            }
            _ => Err(bad),
        }
    }
}

impl Completion {
    /// The record of this completion.
    pub fn encode(&self) -> Record {
        let plain = Traits::default();
        match self {
            Self::Refused { position, code, id } => {
                let code = u64::from(code.number());
                let mut record = with_id(head(OP_REFUSED, plain, code), id);
                record[7] = *position;
                record
            }
            Self::Lease { position, range } => {
                with_range(head(OP_LEASE, plain, 0), range, *position)
            }
            Self::ExtentGone(extent) => {
                let nothing = Range { extent: *extent, offset: 0, bytes: 0 };
                with_range(head(OP_EXTENT_GONE, plain, 0), &nothing, 0)
            }
        }
    }

    /// Reads a record back.
    pub fn decode(record: &Record) -> Result<Self, BadRecord> {
        let op = record[0].to_le_bytes()[0];
        let bad = BadRecord { op };
        match op {
            OP_REFUSED => {
                let number = u16::try_from(record[0] >> 32).map_err(|_| bad)?;
                let code = Code::from_number(number).ok_or(bad)?;
                let id = ObjectId::from_words([record[1], record[2], record[3]]);
                Ok(Self::Refused { position: record[7], code, id })
            }
            OP_LEASE => Ok(Self::Lease { position: record[7], range: range_of(record) }),
            OP_EXTENT_GONE => Ok(Self::ExtentGone(range_of(record).extent)),
            _ => Err(bad),
        }
    }
}

#[inline]
fn with_id(head: u64, id: &ObjectId) -> Record {
    let [a, b, c] = id.words();
    [head, a, b, c, 0, 0, 0, 0]
}

#[inline]
fn with_range(head: u64, range: &Range, position: u64) -> Record {
    [head, 0, 0, range.extent.0, range.offset, range.bytes, 0, position]
}

#[inline]
fn range_of(record: &Record) -> Range {
    Range { extent: ExtentId(record[3]), offset: record[4], bytes: record[5] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::METADATA_BYTES_MAX;
    use proptest::prelude::*;

    fn put(sizes: Sizes, offset: u64) -> Submission {
        let traits = Traits { policy: Policy::Cache, tag: 9, owned: true };
        let id = ObjectId::new([0xab; 20]);
        let placement = Placement { extent: ExtentId(u64::MAX), offset };
        Submission::Put(Put { id, placement, sizes, traits })
    }

    #[test]
    fn every_submission_comes_back() {
        let id = ObjectId::new(std::array::from_fn(|i| i as u8));
        let range = Range { extent: ExtentId::new(5, 6), offset: 64, bytes: 128 };
        let sizes = Sizes { data: 3, metadata: METADATA_BYTES_MAX, attributes: 4 };
        for submission in [
            Submission::Announce { id },
            put(sizes, 1 << 40),
            Submission::Abort { id },
            Submission::Delete { id },
            Submission::LeaseWanted { bytes_min: 1, bytes_wanted: u64::MAX },
            Submission::LeaseReturn(range),
        ] {
            assert_eq!(Submission::decode(&submission.encode()), Ok(submission));
        }
        for completion in [
            Completion::Refused { position: u64::MAX, code: Code::Exists, id },
            Completion::Lease { position: 3, range },
            Completion::ExtentGone(ExtentId(77)),
        ] {
            assert_eq!(Completion::decode(&completion.encode()), Ok(completion));
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let huge = Sizes { data: 1 << 63, ..Sizes::default() };
        assert!(Submission::decode(&put(huge, 0).encode()).is_err());
        let small = Sizes { data: 1, ..Sizes::default() };
        assert!(Submission::decode(&put(small, u64::MAX - 63).encode()).is_err());
        assert!(Submission::decode(&put(small, u64::MAX - 64).encode()).is_ok());
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read_back_alike(record: Record) {
            if let Ok(submission) = Submission::decode(&record) {
                prop_assert_eq!(Submission::decode(&submission.encode()), Ok(submission));
            }
            if let Ok(completion) = Completion::decode(&record) {
                prop_assert_eq!(Completion::decode(&completion.encode()), Ok(completion));
            }
        }
    }
}
