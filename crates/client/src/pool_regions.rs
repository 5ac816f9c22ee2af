//! Regions: memory of the pool that is allocated on one node, written by address from any, and an
//! object once it is sealed.

mod doors;

use std::ops::Range;
use std::time::Duration;

use plasmon_proto::limits::{COPIES_MAX, NODE_NAME_BYTES_MAX, OBJECT_BYTES_MAX};
use plasmon_proto::pool_admin::{ObjectPlace, Standing};
use plasmon_proto::region::{
    Address, AllocateRequest, RegionFailure, RegionReply, RegionRequest, is_region,
};
use plasmon_proto::{Code, ObjectId};

pub(crate) use self::doors::RegionDoors;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::parts::Piece;
use crate::pool;

const ALLOCATING: &str = "allocating memory of the pool";
const WRITING: &str = "writing to region";
const READING: &str = "reading region";
const SEALING: &str = "sealing region";
const FREEING: &str = "freeing region";

/// How a region is made.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// How many nodes shall have the sealed object; 0: one.
    pub copies: u8,
    /// With how many the seal is content where the pool has no more live nodes; 0: half of the
    /// copies, rounded up.
    pub copies_min: u8,
    /// The name of the node where it is; `None`: this one.
    pub node: Option<String>,
}

/// Memory of the pool by address.
impl Client {
    /// Allocates memory for so many bytes on a node of the pool. Programs on all nodes write to it
    /// by its address until one of them seals it. What is not sealed ends with this client, with
    /// its process, and with the pool daemon of either node. Bytes that were not written may be
    /// any.
    pub fn pool_allocate(&self, bytes: u64, options: &RegionOptions) -> Result<Address> {
        let request = allocation(bytes, options)?;
        let doors = &self.process()?.regions;
        let allocated = doors.allocate(self.socket(), &request, ALLOCATING)?;
        allocated.map(Address::new).map_err(|failure| match failure {
            RegionFailure::NoNode => {
                let name = options.node.as_deref().unwrap_or_default();
                let detail = format!("the pool has no node {name:?}: `plasmon pool nodes` names");
                Error::new(Code::BadRequest, ALLOCATING).with_detail(detail + " those it has")
            }
            RegionFailure::Lost | RegionFailure::Unreachable | RegionFailure::Interrupted => {
                let detail = "the node where the memory was to be does not answer";
                Error::new(Code::Unreachable, ALLOCATING).with_detail(detail)
            }
            RegionFailure::Refused(code) => {
                let detail = "the store of the node where the memory was to be refused it";
                Error::new(code, ALLOCATING).with_detail(detail)
            }
            RegionFailure::Busy => {
                let detail = "the node has as many regions under construction as it may";
                Error::new(Code::LimitReached, ALLOCATING).with_detail(detail)
            }
            _ => Error::new(Code::Unreachable, ALLOCATING)
                .with_detail("the region ended as soon as it was made: allocate another one"),
        })
    }

    /// Writes bytes into a region. They are all within it, or nothing is written. Of several writes
    /// of the same bytes the one that was begun after the others had returned counts. One that
    /// fails in the middle may have written some of its bytes.
    pub fn pool_write(&self, to: Address, bytes: &[u8]) -> Result<()> {
        let id = checked(to.id, WRITING)?;
        let Some(to) = to.plus(bytes.len() as u64).map(|_| to) else {
            return Err(beyond(WRITING, id, u64::MAX, 0));
        };
        let doors = &self.process()?.regions;
        let written = doors.write(self.socket(), (id, to.offset), bytes, WRITING)?;
        written.map_err(|failure| match failure {
            RegionFailure::Beyond { bytes: found } => {
                beyond(WRITING, id, to.offset + bytes.len() as u64, found)
            }
            failure => error_of(WRITING, id, failure),
        })
    }

    /// Ranges from an address on, once the region is sealed: see [`Client::pool_read`]. Before that
    /// the read fails with [`Code::NotSealed`], or waits for the seal up to `timeout`, without a
    /// limit for `None`.
    pub fn pool_read_at(
        &self,
        from: Address,
        ranges: &[Range<u64>],
        timeout: Option<Duration>,
    ) -> Result<Vec<Piece>> {
        let id = checked(from.id, READING)?;
        let shifted =
            |range: &Range<u64>| Some(from.plus(range.start)?.offset..from.plus(range.end)?.offset);
        let ranges: Option<Vec<_>> = ranges.iter().map(shifted).collect();
        let ranges = ranges.ok_or_else(|| beyond(READING, id, u64::MAX, 0))?;
        let error = match self.pool_read(&id, &ranges, timeout) {
            Err(error) if is_unclear(error.code()) => error,
            read => return read,
        };
        match self.ask_region(RegionRequest::Look { id }, READING) {
            Ok(RegionReply::Open { .. }) if error.code() == Code::TimedOut => {
                Err(error.with_detail("the region has not been sealed"))
            }
            Ok(RegionReply::Open { .. }) => Err(Error::new(Code::NotSealed, READING)
                .with_id(id)
                .with_detail("a region is read once it is sealed")),
            // In this moment.
            Ok(RegionReply::Failed(RegionFailure::Sealed)) => self.pool_read(&id, &ranges, timeout),
            Ok(RegionReply::Failed(RegionFailure::Unknown)) | Err(_) => Err(error),
            Ok(RegionReply::Failed(failure)) => Err(error_of(READING, id, failure)),
            Ok(_) => Err(Error::unexpected(READING)),
        }
    }

    /// Seals a region: it is an object of the pool from then on, with the id of its address, that
    /// nothing changes any more. The writes that had returned before are in it. With several copies
    /// it returns when the pool has accepted the object.
    pub fn pool_seal(&self, region: &ObjectId) -> Result<()> {
        let id = checked(*region, SEALING)?;
        match self.ask_region(RegionRequest::Seal { id }, SEALING)? {
            RegionReply::Done => Ok(()),
            RegionReply::Failed(RegionFailure::Refused(Code::Unreachable)) => {
                let detail = "the object is on its home, and the pool has not said yet whether it \
                              accepts it: get it, or delete it";
                Err(Error::new(Code::Unreachable, SEALING).with_id(id).with_detail(detail))
            }
            RegionReply::Failed(failure) => Err(error_of(SEALING, id, failure)),
            _ => Err(Error::unexpected(SEALING)),
        }
    }

    /// Frees a region, and deletes the object where it is sealed.
    pub fn pool_free(&self, region: &ObjectId) -> Result<()> {
        let id = checked(*region, FREEING)?;
        let failure =
            match self.ask_region(RegionRequest::Free { id, is_abandoned: false }, FREEING)? {
                RegionReply::Done => return Ok(()),
                RegionReply::Failed(failure) => failure,
                _ => return Err(Error::unexpected(FREEING)),
            };
        let is_object = match failure {
            RegionFailure::Sealed => true,
            // The object may outlive its home.
            RegionFailure::Unknown | RegionFailure::Lost | RegionFailure::Unreachable => {
                let ObjectPlace { standing, .. } = pool::place(self.socket(), id)?;
                matches!(standing, Standing::Live | Standing::Pending | Standing::Lost)
            }
            _ => false,
        };
        if !is_object {
            return Err(error_of(FREEING, id, failure));
        }
        match self.delete(&[id])?.first() {
            Some(Some(code)) => Err(Error::new(*code, FREEING).with_id(id)),
            _ => Ok(()),
        }
    }

    fn ask_region(&self, request: RegionRequest, doing: &'static str) -> Result<RegionReply> {
        let id = request.id();
        let doors = &self.process()?.regions;
        doors.ask(self.socket(), request, doing).map_err(|error| error.about(id))
    }
}

/// Whether a read may have failed because the region is not sealed.
fn is_unclear(code: Code) -> bool {
    matches!(
        code,
        Code::Absent
            | Code::TimedOut
            | Code::NotSealed
            | Code::CreatorDied
            | Code::Deleted
            | Code::Unreachable
    )
}

fn allocation(bytes: u64, options: &RegionOptions) -> Result<AllocateRequest> {
    let RegionOptions { copies, copies_min, node } = options.clone();
    let copies = if copies == 0 { 1 } else { copies };
    let copies_min = if copies_min == 0 { copies - copies / 2 } else { copies_min };
    let wrong = |detail| Err(Error::new(Code::BadRequest, ALLOCATING).with_detail(detail));
    if copies > COPIES_MAX || copies_min > copies {
        return wrong(
            "an object of a pool has 1 to 8 copies, and copies_min is no more than those",
        );
    }
    if node.as_ref().is_some_and(|name| !(1..=NODE_NAME_BYTES_MAX).contains(&name.len())) {
        return wrong("a node has a name of 1 to 64 bytes");
    }
    if bytes > OBJECT_BYTES_MAX {
        let error = Error::new(Code::TooLarge, ALLOCATING);
        return Err(error.with_amounts(bytes, OBJECT_BYTES_MAX));
    }
    Ok(AllocateRequest { bytes, copies, copies_min, node })
}

fn checked(id: ObjectId, doing: &'static str) -> Result<ObjectId> {
    if is_region(&id) {
        return Ok(id);
    }
    let detail = "it is the id of no region: those come from allocating memory of the pool";
    Err(Error::new(Code::BadRequest, doing).with_id(id).with_detail(detail))
}

fn beyond(doing: &'static str, id: ObjectId, wanted: u64, found: u64) -> Error {
    Error::new(Code::BadRequest, doing)
        .with_id(id)
        .with_amounts(wanted, found)
        .with_detail("the bytes are not within the region")
}

/// Why something was not done with a region.
fn error_of(doing: &'static str, id: ObjectId, failure: RegionFailure) -> Error {
    let (code, detail) = match failure {
        RegionFailure::Beyond { bytes } => return beyond(doing, id, 0, bytes),
        RegionFailure::Sealed => (Code::AlreadySealed, "a region is written until it is sealed"),
        RegionFailure::Freed => (Code::Deleted, "the region was freed before it was sealed"),
        RegionFailure::AllocatorGone => (
            Code::CreatorDied,
            "the program that had allocated the region ended, or its node did, before it was \
             sealed: allocate another one",
        ),
        RegionFailure::Refused(code) => (
            code,
            "the store of the node that has the region, or the pool, refused it, and it has \
                    ended",
        ),
        RegionFailure::Unknown => (
            Code::Absent,
            "its node knows of no region under construction with this address: it was freed or \
             sealed long ago, or its pool daemon was started again",
        ),
        RegionFailure::NoNode => {
            (Code::Absent, "the pool has no node that could have made this address")
        }
        RegionFailure::Lost => (
            Code::Absent,
            "the node that had the region was given up, and what was not sealed is gone with it",
        ),
        RegionFailure::Unreachable | RegionFailure::Interrupted => {
            (Code::Unreachable, "the node that has the region does not answer")
        }
        RegionFailure::Busy => (Code::LimitReached, "too many requests are under way"),
    };
    Error::new(code, doing).with_id(id).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_checked_before_anything_is_asked() {
        let of = |copies, copies_min| {
            let options = RegionOptions { copies, copies_min, node: None };
            allocation(7, &options).map(|request| (request.copies, request.copies_min))
        };
        assert_eq!(of(0, 0).unwrap(), (1, 1));
        assert_eq!(of(3, 0).unwrap(), (3, 2));
        assert_eq!(of(8, 1).unwrap(), (8, 1));
        for wrong in [of(9, 1), of(1, 2)] {
            assert_eq!(wrong.unwrap_err().code(), Code::BadRequest);
        }
        let large = allocation(OBJECT_BYTES_MAX + 1, &RegionOptions::default()).unwrap_err();
        assert_eq!(large.code(), Code::TooLarge);
        for name in [String::new(), "n".repeat(65)] {
            let options = RegionOptions { node: Some(name), ..RegionOptions::default() };
            assert_eq!(allocation(7, &options).unwrap_err().code(), Code::BadRequest);
        }
    }

    #[test]
    fn ids_of_no_region_are_refused() {
        for id in [ObjectId::new([1; 20]), ObjectId::pooled([1; 12], None)] {
            assert_eq!(checked(id, WRITING).unwrap_err().code(), Code::BadRequest);
        }
        assert!(checked(ObjectId::pooled([1; 12], Some(3)), WRITING).is_ok());
    }
}
