//! Regions: objects under construction on this node that all nodes write.
//!
//! They are created, sealed and given up as those of any client, with ids that have this node as
//! their home. So the store ends them with this process, and has them committed when they are
//! sealed.

use std::os::fd::OwnedFd;

use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::{Durability, PoolAttributes, Sizes, Traits};
use plasmon_proto::{Attributes, Code, ObjectId};

use super::connection::Purpose;
use super::reader::Reader;
use crate::store::{AllocationRequest, StoreEvent};

/// How long the seal of a region waits for the pool to accept the object.
const ACCEPTED_WITHIN_MS: u64 = 60_000;

/// Asks for the memory of a region.
pub(super) fn create(request: &AllocationRequest) -> Request {
    let attributes = attributes(request).len() as u64;
    let sizes = Sizes { data: request.bytes, metadata: 0, attributes };
    Request::Create { id: request.id, sizes, traits: Traits::default(), strict: false }
}

/// What lies after the data. An object that is kept on its own node alone needs none.
fn attributes(request: &AllocationRequest) -> Vec<u8> {
    let AllocationRequest { copies, copies_min, .. } = *request;
    if copies == 1 {
        return Vec::new();
    }
    let class = Durability::Memory;
    // Its id is never used again, so no serial tells it from others.
    let pool = PoolAttributes {
        copies,
        copies_min,
        class,
        origin: None,
        serial: 0,
        ..PoolAttributes::ONE
    };
    Attributes { pool: Some(pool), ..Attributes::default() }.encode()
}

/// Why the store did not do it; what is no answer to that is a fault.
fn refusal(reply: &Reply) -> Code {
    match reply {
        Reply::Failed(failure) => failure.code,
        _ => Code::Io,
    }
}

impl Reader {
    /// The memory of a region came, or the store refuses.
    pub(super) fn allocated(
        &mut self,
        request: &AllocationRequest,
        reply: Reply,
        fds: Vec<OwnedFd>,
    ) {
        let id = request.id;
        let Reply::Created(grant) = reply else {
            return self.events.push(StoreEvent::Allocated(id, Err(refusal(&reply))));
        };
        let memory = self.memory(&grant, fds, request.bytes, &attributes(request));
        let allocated = memory.map_err(|error| {
            tracing::error!(object = %id, %error, "the memory of a region is not there");
            self.connection.send(&Request::Abort { id }, Purpose::Abort);
            Code::Io
        });
        self.events.push(StoreEvent::Allocated(id, allocated));
    }

    /// A region was sealed, or could not be.
    pub(super) fn region_sealed(&mut self, id: ObjectId, settles: bool, reply: &Reply) {
        match reply {
            Reply::Done if settles => {
                let timeout_ms = Some(ACCEPTED_WITHIN_MS);
                let request = Request::Settle { ids: vec![id], timeout_ms };
                self.connection.send(&request, Purpose::Settle(id));
            }
            Reply::Done => {
                self.events.push(StoreEvent::RegionSealed { id, is_sealed: true, result: Ok(()) });
            }
            other => {
                tracing::warn!(object = %id, "a region cannot be sealed: {other:?}");
                self.connection.send(&Request::Abort { id }, Purpose::Abort);
                let result = Err(refusal(other));
                self.events.push(StoreEvent::RegionSealed { id, is_sealed: false, result });
            }
        }
    }

    /// The pool has accepted what was a region, or has not.
    pub(super) fn region_settled(&mut self, id: ObjectId, reply: &Reply) {
        let outcome = match reply {
            Reply::Outcomes(outcomes) => outcomes.first().copied().unwrap_or(Some(Code::Io)),
            other => Some(refusal(other)),
        };
        let (is_sealed, result) = match outcome {
            None => (true, Ok(())),
            // It is there, and the pool is still asked.
            Some(Code::TimedOut | Code::Unreachable) => (true, Err(Code::Unreachable)),
            // It was accepted, and a client has deleted it since.
            Some(Code::Deleted) => (true, Ok(())),
            Some(code) => (false, Err(code)),
        };
        self.events.push(StoreEvent::RegionSealed { id, is_sealed, result });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_says_how_many_copies_it_wants_when_there_are_several() {
        let id = ObjectId::pooled([1; 12], Some(2));
        let of = |copies| AllocationRequest { id, bytes: 7, copies, copies_min: 1 };
        let Request::Create { id: asked, sizes, traits, strict: false } = create(&of(1)) else {
            panic!("it is no creation");
        };
        assert_eq!((asked, sizes), (id, Sizes { data: 7, metadata: 0, attributes: 0 }));
        assert_eq!(traits, Traits::default());
        let encoded = attributes(&of(3));
        let Request::Create { sizes, .. } = create(&of(3)) else { panic!("it is no creation") };
        assert_eq!(sizes.attributes, encoded.len() as u64);
        let pool = Attributes::decode(&encoded).unwrap().pool.unwrap();
        assert_eq!((pool.copies, pool.copies_min, pool.origin), (3, 1, None));
    }
}
