//! Local objects with parts of objects of other nodes.
//!
//! They are objects as those of any client: created, sealed and deleted by requests of their own.
//! One that no program takes deletes itself after some time, or is evicted before.

use plasmon_proto::Attributes;
use plasmon_proto::message::Request;
use plasmon_proto::object::{Policy, Sizes, Traits};
use plasmon_proto::parts::PARTS_TTL_MS;

use crate::store::LandingRequest;

/// Whether a landing is one of parts: copies have ids of the pool.
pub(super) fn is_parts(request: &LandingRequest) -> bool {
    !request.id.is_pooled()
}

/// What lies after the bytes of a landing and does not come from elsewhere.
pub(super) fn tail_of(request: &LandingRequest) -> Vec<u8> {
    let attributes = Attributes { ttl_ms: Some(PARTS_TTL_MS), ..Attributes::default() };
    if is_parts(request) { attributes.encode() } else { Vec::new() }
}

/// Asks for the memory of parts.
pub(super) fn create(request: &LandingRequest) -> Request {
    let attributes = tail_of(request).len() as u64;
    let sizes = Sizes { data: request.content.bytes(), metadata: 0, attributes };
    let traits = Traits { policy: Policy::Cache, ..Traits::default() };
    Request::Create { id: request.id, sizes, traits, strict: false }
}
