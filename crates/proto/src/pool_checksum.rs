//! Checksums of the copies that the nodes of a pool have, so that those of an object are compared.
//!
//! ```text
//!   program ── node, query ──►  pool daemon ── query ──►  the node reads some of its copies,
//!           ◄── page ─────────              ◄── page ──   in the order of their ids
//! ```
//!
//! A page costs a node about a second at most: it may end within a large copy, and the next one
//! goes on from there. So nothing is kept between two pages. A checksum is the CRC32C of data and
//! metadata, one after the other.

use serde::{Deserialize, Serialize};

use crate::id::{Name, ObjectId};
use crate::limits::OBJECT_BYTES_MAX;
use crate::pool::Birth;

/// Copies in one page: with the longest names they fit a frame.
pub const CHECKSUMS_PER_PAGE: usize = 128;

/// Copies in one request to repair some.
pub const REPAIRS_MAX: usize = 1024;

/// Where a page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksumQuery {
    /// After this id; `None`: with the first copy.
    pub after: Option<ObjectId>,
    /// The copy that the page before ended within. Where its incarnation is gone, the page begins
    /// after it.
    pub begun: Option<BegunChecksum>,
    /// No copy after this id is read; `None`: all are.
    pub until: Option<ObjectId>,
}

/// A copy of which a part is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunChecksum {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// How many bytes are read.
    pub bytes: u64,
    /// Their checksum.
    pub crc: u32,
}

/// What was read of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyChecksum {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// Bytes of data and metadata.
    pub bytes: u64,
    /// Their checksum; `None` where they cannot be read.
    pub crc: Option<u32>,
    /// What it is called, if it has a name.
    pub name: Option<Name>,
    /// Whether the log of the node has these bytes, as the checksums say that were made when they
    /// were written there; `None`: it has no record of the copy, or that cannot be read now.
    pub logged: Option<bool>,
}

/// What is to be done about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRepair {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// What is wrong.
    pub fault: CopyFault,
}

/// What is wrong with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyFault {
    /// All of it: another node has what is right.
    Content,
    /// Its record in the log; the copy in memory is right.
    Record,
}

/// Some copies of a node in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksumPage {
    /// The copies, [`CHECKSUMS_PER_PAGE`] at most.
    pub copies: Vec<CopyChecksum>,
    /// Where the next page begins: every copy up to its `after` is in this page or in one before.
    /// `None`: there are no more copies.
    pub next: Option<ChecksumQuery>,
}

impl ChecksumQuery {
    /// Whether a page could begin there.
    pub fn keeps_limits(&self) -> bool {
        self.begun
            .is_none_or(|begun| Some(begun.id) > self.after && begun.bytes <= OBJECT_BYTES_MAX)
    }

    /// Whether a page can be an answer to this.
    pub fn is_answered_by(&self, page: &ChecksumPage) -> bool {
        let ids: Vec<ObjectId> = page.copies.iter().map(|copy| copy.id).collect();
        let begins = ids.first().is_none_or(|first| Some(*first) > self.after);
        // A page that says there are more goes on after it: else there would be no end.
        let goes_on = page.next.is_none_or(|next| {
            next.until == self.until
                && next.keeps_limits()
                && next.place() > self.place()
                && ids.last() <= next.after.as_ref()
        });
        page.keeps_limits() && begins && ids.is_sorted_by(|one, other| one < other) && goes_on
    }

    /// How far it is.
    fn place(&self) -> (Option<ObjectId>, Option<(ObjectId, u64)>) {
        (self.after, self.begun.map(|begun| (begun.id, begun.bytes)))
    }
}

impl ChecksumPage {
    /// Whether it is as short as a page has to be.
    pub fn keeps_limits(&self) -> bool {
        let is_right = |copy: &CopyChecksum| {
            copy.bytes <= OBJECT_BYTES_MAX && copy.name.as_ref().is_none_or(|it| it.check().is_ok())
        };
        self.copies.len() <= CHECKSUMS_PER_PAGE && self.copies.iter().all(is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::{NAME_BYTES_MAX, NAMESPACE_BYTES_MAX};
    use crate::pool::Slot;
    use crate::pool_admin::{Reply, Request};

    const BIRTH: Birth = Birth { slot: Slot(3), boot: 4, serial: 300 };

    fn id(number: u8) -> ObjectId {
        ObjectId::pooled([number; 12], None)
    }

    fn copy(number: u8) -> CopyChecksum {
        let (bytes, crc, logged) = (5, Some(300), None);
        CopyChecksum { id: id(number), birth: BIRTH, bytes, crc, name: None, logged }
    }

    fn begun(number: u8, bytes: u64) -> Option<BegunChecksum> {
        Some(BegunChecksum { id: id(number), birth: BIRTH, bytes, crc: 7 })
    }

    #[test]
    fn a_page_is_in_order_and_goes_on() {
        let query = ChecksumQuery { after: Some(id(3)), begun: begun(4, 100), until: None };
        let page = |numbers: &[u8], next| ChecksumPage {
            copies: numbers.iter().map(|number| copy(*number)).collect(),
            next,
        };
        let next =
            |after, begun| Some(ChecksumQuery { after: Some(id(after)), begun, until: None });
        for right in [
            page(&[], None),
            page(&[4, 6], None),
            page(&[4, 6], next(6, None)),
            page(&[4, 6], next(7, begun(9, 1))),
            page(&[], next(3, begun(4, 101))),
            page(&[], next(4, None)),
        ] {
            assert!(query.is_answered_by(&right), "{right:?}");
        }
        for wrong in [
            page(&[3], None),
            page(&[6, 4], None),
            page(&[4, 4], None),
            page(&[4, 6], next(5, None)),
            // There is no end to these.
            page(&[], next(3, begun(4, 100))),
            page(&[], next(3, None)),
            page(&[], next(2, begun(9, 100))),
            page(&[4], next(4, begun(4, 1))),
            page(&[], Some(ChecksumQuery { begun: begun(9, 1), ..ChecksumQuery::default() })),
            page(&[], Some(ChecksumQuery { until: Some(id(9)), ..query })),
            page(&[], next(4, begun(9, OBJECT_BYTES_MAX + 1))),
        ] {
            assert!(!query.is_answered_by(&wrong), "{wrong:?}");
        }
        let first = ChecksumQuery::default();
        let begins = Some(ChecksumQuery { begun: begun(4, 1), ..first });
        assert!(first.is_answered_by(&page(&[], begins)));
        assert!(!first.is_answered_by(&page(&[], Some(first))));
    }

    #[test]
    fn the_largest_page_fits_a_frame_and_more_is_refused() {
        let longest = |number: u8| {
            let name = Name {
                namespace: format!("@{}", "n".repeat(NAMESPACE_BYTES_MAX - 1)),
                text: "t".repeat(NAME_BYTES_MAX),
            };
            let birth = Birth { slot: Slot(u16::MAX), boot: u64::MAX, serial: u64::MAX };
            let (bytes, crc) = (OBJECT_BYTES_MAX, Some(u32::MAX));
            let logged = Some(true);
            CopyChecksum { id: id(number), birth, bytes, crc, name: Some(name), logged }
        };
        let copies = (0..CHECKSUMS_PER_PAGE as u8).map(longest).collect();
        let mut page = ChecksumPage { copies, next: None };
        let (after, begun) = (Some(id(200)), begun(201, 1));
        page.next = Some(ChecksumQuery { after, begun, until: None });
        assert!(ChecksumQuery::default().is_answered_by(&page));
        let reply = Reply::Checksums(Some(page.clone()));
        let bytes = frame::encode_admin_reply(u64::MAX, &reply).unwrap();
        assert_eq!(frame::decode_admin_reply(&bytes), Ok((u64::MAX, reply)));
        page.copies.push(longest(128));
        assert!(!ChecksumQuery::default().is_answered_by(&page));
        page.copies = vec![longest(1)];
        page.copies[0].name.as_mut().unwrap().text.push('t');
        assert!(!page.keeps_limits());
    }

    #[test]
    fn requests_and_replies_are_a_format() {
        let hex =
            |bytes: &[u8]| bytes[16..].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let text = |number: u8| format!("{}ffff40706f6f6c00", format!("{number:02x}").repeat(12));
        let query = ChecksumQuery { after: Some(id(1)), begun: begun(2, 300), until: None };
        let (birth, fault) = (BIRTH, CopyFault::Record);
        let repair = CopyRepair { id: id(1), birth, fault };
        let asked = |query| Request::Checksums { node: Slot(300), query };
        for (request, golden) in [
            (asked(ChecksumQuery::default()), "0cac02000000".to_owned()),
            (asked(query), format!("0cac0201{}01{}0304ac02ac020700", text(1), text(2))),
            (
                Request::Repair { node: Slot(300), copies: vec![repair] },
                format!("0eac0201{}0304ac0201", text(1)),
            ),
        ] {
            let bytes = frame::encode_admin_request(1, &request).unwrap();
            assert_eq!(hex(&bytes), golden, "{request:?}");
            assert_eq!(frame::decode_admin_request(&bytes), Ok((1, request)));
        }
        let name = Some(Name { namespace: "@p".to_owned(), text: "x".to_owned() });
        let copies = vec![CopyChecksum { name, ..copy(1) }, CopyChecksum { crc: None, ..copy(2) }];
        let page = ChecksumPage { copies, next: Some(query) };
        for (reply, golden) in [
            (Reply::Checksums(None), "0b00".to_owned()),
            (Reply::Repairing, "0d".to_owned()),
            (
                Reply::Checksums(Some(page)),
                format!(
                    "0b0102{}0304ac020501ac0201024070017800{}0304ac020500000001{}",
                    text(1),
                    text(2),
                    format_args!("01{}01{}0304ac02ac020700", text(1), text(2)),
                ),
            ),
        ] {
            let bytes = frame::encode_admin_reply(1, &reply).unwrap();
            assert_eq!(hex(&bytes), golden, "{reply:?}");
            assert_eq!(frame::decode_admin_reply(&bytes), Ok((1, reply)));
        }
    }
}
