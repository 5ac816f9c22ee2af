//! Repairing copies of a pool that are not right.
//!
//! ```text
//!   compared --> what is right? --> Repair to the nodes of the others --> read again --> right,
//!                     |                      ^------------------------------- not yet --'  as many
//!                     `-> nothing says so: undecided; no copy is: it stays
//! ```
//!
//! Which copies are right is decided by the checksums of the logs, which were made when the copies
//! were written there; where no log has one, by the majority of the copies. It is never guessed. A
//! copy that is not right is ended by its primary once a holder is known to have what is right, and
//! is made again from that.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::ObjectId;
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::pool_checksum::{ChecksumQuery, CopyFault, CopyRepair, REPAIRS_MAX};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool;
use crate::pool_contents::{
    ContentComparison, ContentCopy, ContentDifference, ContentOutcome, live_nodes,
};

const REPAIRING: &str = "having copies of the pool repaired";

/// For so long no object has to become right before the others are given up.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The pause before objects are read again.
const PAUSE: Duration = Duration::from_millis(100);

/// What copies of an object say together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    /// It is known what is right, and what is wrong with these copies.
    Known(Vec<(Slot, CopyFault)>),
    /// Copies differ, and nothing says which is right.
    Undecided,
    /// No copy can be read.
    NoneRight,
}

fn judge(copies: &[ContentCopy]) -> Judgement {
    let value = |copy: &ContentCopy| Some((copy.crc?, copy.bytes));
    let read: Vec<_> = copies.iter().filter_map(value).collect();
    if read.is_empty() {
        return Judgement::NoneRight;
    }
    let is_checked = |copy: &&ContentCopy| copy.logged == Some(true);
    let checked: Vec<_> = copies.iter().filter(is_checked).filter_map(value).collect();
    let votes = if checked.is_empty() { &read } else { &checked };
    let has_majority = |one: &(u32, u64)| {
        let count = votes.iter().filter(|other| *other == one).count();
        2 * count > votes.len()
    };
    let Some(right) = votes.iter().find(|one| has_majority(one)) else {
        return Judgement::Undecided;
    };
    let fault = |copy: &ContentCopy| match value(copy) {
        found if found != Some(*right) => Some(CopyFault::Content),
        _ if copy.logged == Some(false) => Some(CopyFault::Record),
        _ => None,
    };
    Judgement::Known(copies.iter().filter_map(|copy| Some((copy.slot, fault(copy)?))).collect())
}

impl Client {
    /// Has the copies repaired that a comparison found not to be right, and waits until they are.
    /// What becomes of each object is in its [`ContentDifference::outcome`]. An object of which no
    /// copy is right stays as it is. [`Code::TimedOut`] when it takes longer than `within`, which
    /// may be [`Duration::MAX`].
    pub fn pool_repair(&self, found: &mut ContentComparison, within: Duration) -> Result<()> {
        let (deadline, mut stalled) = (Deadline::after(within), Deadline::after(STALLED_AFTER));
        for object in &mut found.differences {
            object.outcome = match judge(&object.copies) {
                Judgement::Known(_) => ContentOutcome::Unfinished,
                Judgement::Undecided => ContentOutcome::Undecided,
                Judgement::NoneRight => ContentOutcome::NoneRight,
            };
        }
        while found.differences.iter().any(is_unfinished) {
            interrupt::check(REPAIRING)?;
            if deadline.is_past() {
                return Err(Error::new(Code::TimedOut, REPAIRING));
            }
            if stalled.is_past() {
                return Ok(());
            }
            self.order_repairs(&found.differences)?;
            edge::sleep(interrupt::pause(PAUSE, deadline));
            let nodes = live_nodes(&self.pool_nodes()?);
            for object in found.differences.iter_mut().filter(|object| is_unfinished(object)) {
                object.copies = read_again(self.socket(), &nodes, object)?;
                object.outcome = self.outcome_of(object)?;
                if !is_unfinished(object) {
                    found.repaired += u64::from(object.outcome == ContentOutcome::Repaired);
                    // What was deleted meanwhile is not damaged any more.
                    found.damaged -= u64::from(object.outcome == ContentOutcome::Ended);
                    stalled = Deadline::after(STALLED_AFTER);
                }
            }
        }
        Ok(())
    }

    /// Tells the nodes which of their copies are not right.
    fn order_repairs(&self, objects: &[ContentDifference]) -> Result<()> {
        let mut orders: BTreeMap<Slot, Vec<CopyRepair>> = BTreeMap::new();
        for object in objects.iter().filter(|object| is_unfinished(object)) {
            let ContentDifference { id, birth, .. } = *object;
            let Judgement::Known(faults) = judge(&object.copies) else { continue };
            for (slot, fault) in faults {
                orders.entry(slot).or_default().push(CopyRepair { id, birth, fault });
            }
        }
        for (node, copies) in orders {
            for copies in copies.chunks(REPAIRS_MAX) {
                let request = Request::Repair { node, copies: copies.to_vec() };
                match pool::ask(self.socket(), REPAIRING, &request)? {
                    Reply::Repairing => {}
                    _ => return Err(Error::unexpected(REPAIRING)),
                }
            }
        }
        Ok(())
    }

    /// How far an object is whose copies were read again.
    fn outcome_of(&self, object: &ContentDifference) -> Result<ContentOutcome> {
        let place = pool::place(self.socket(), object.id)?;
        let found = place.found.filter(|found| found.birth == object.birth);
        let Some(found) = found else {
            // A group that has no primary now knows of nothing.
            let is_gone = object.copies.is_empty();
            return Ok(if is_gone { ContentOutcome::Ended } else { ContentOutcome::Unfinished });
        };
        Ok(match judge(&object.copies) {
            Judgement::Known(faults)
                if faults.is_empty() && found.holders.len() >= usize::from(found.copies) =>
            {
                ContentOutcome::Repaired
            }
            Judgement::Undecided => ContentOutcome::Undecided,
            // Copies that are on their way are not read.
            Judgement::Known(_) | Judgement::NoneRight => ContentOutcome::Unfinished,
        })
    }
}

fn is_unfinished(object: &ContentDifference) -> bool {
    object.outcome == ContentOutcome::Unfinished
}

/// Reads the copies of one object on all nodes. One that does not answer has none.
fn read_again(
    store: &Path,
    nodes: &[Slot],
    object: &ContentDifference,
) -> Result<Vec<ContentCopy>> {
    let (mut copies, id) = (Vec::new(), object.id);
    for slot in nodes.iter().copied() {
        let mut next = Some(ChecksumQuery { after: before(id), begun: None, until: Some(id) });
        while let Some(query) = next {
            let request = Request::Checksums { node: slot, query };
            let Reply::Checksums(page) = pool::ask(store, REPAIRING, &request)? else {
                return Err(Error::unexpected(REPAIRING));
            };
            let Some(page) = page.filter(|page| query.is_answered_by(page)) else { break };
            let is_its = |copy: &&plasmon_proto::pool_checksum::CopyChecksum| {
                (copy.id, copy.birth) == (id, object.birth)
            };
            copies.extend(page.copies.iter().filter(is_its).map(|it| ContentCopy::of(slot, it)));
            next = page.next;
        }
    }
    Ok(copies)
}

/// The id before this one; `None` before the first.
fn before(id: ObjectId) -> Option<ObjectId> {
    let mut bytes = *id.as_bytes();
    for byte in bytes.iter_mut().rev() {
        let (less, is_borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !is_borrowed {
            return Some(ObjectId::new(bytes));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(found: &[(Option<u32>, Option<bool>)]) -> Vec<ContentCopy> {
        let copy = |(slot, (crc, logged)): (usize, &(Option<u32>, Option<bool>))| ContentCopy {
            slot: Slot(slot as u16),
            bytes: 5,
            crc: *crc,
            logged: *logged,
        };
        found.iter().enumerate().map(copy).collect()
    }

    #[test]
    fn what_is_right_is_decided_by_checksums_then_by_the_majority_and_never_guessed() {
        use CopyFault::{Content, Record};
        use Judgement::{Known, NoneRight, Undecided};
        let (yes, no) = (Some(true), Some(false));
        let slots = |faults: &[(u16, CopyFault)]| {
            Known(faults.iter().map(|(slot, fault)| (Slot(*slot), *fault)).collect())
        };
        for (found, expected) in [
            (copies(&[]), NoneRight),
            (copies(&[(None, None)]), NoneRight),
            (copies(&[(None, no), (None, yes)]), NoneRight),
            (copies(&[(Some(1), None), (Some(2), None)]), Undecided),
            (copies(&[(Some(1), yes), (Some(2), yes)]), Undecided),
            (copies(&[(Some(1), None), (Some(2), None), (Some(3), None)]), Undecided),
            (copies(&[(Some(1), yes), (Some(1), None)]), slots(&[])),
            (copies(&[(Some(1), None), (None, None)]), slots(&[(1, Content)])),
            (copies(&[(Some(1), None), (Some(2), None), (Some(1), None)]), slots(&[(1, Content)])),
            // One that its log vouches for is worth more than any others.
            (
                copies(&[(Some(1), yes), (Some(2), None), (Some(2), None)]),
                slots(&[(1, Content), (2, Content)]),
            ),
            (copies(&[(Some(1), no), (Some(2), yes)]), slots(&[(0, Content)])),
            (copies(&[(Some(1), no), (Some(1), yes)]), slots(&[(0, Record)])),
            (copies(&[(Some(1), no)]), slots(&[(0, Record)])),
            (copies(&[(None, no), (Some(1), yes)]), slots(&[(0, Content)])),
        ] {
            assert_eq!(judge(&found), expected, "{found:?}");
        }
    }

    #[test]
    fn ids_have_one_before_them() {
        let of = |last: [u8; 2]| {
            let mut bytes = [7; 20];
            bytes[18..].copy_from_slice(&last);
            ObjectId::new(bytes)
        };
        assert_eq!(before(of([1, 5])), Some(of([1, 4])));
        assert_eq!(before(of([1, 0])), Some(of([0, 255])));
        assert_eq!(before(ObjectId::new([0; 20])), None);
        assert!(before(of([0, 0])).unwrap() < of([0, 0]));
    }
}
