//! The parts of one object before it has a place: its checked options and its bytes.

use std::time::Duration;

use plasmon_proto::limits::{ATTRIBUTES_BYTES_MAX, MEMBERS_MAX, OBJECT_BYTES_MAX};
use plasmon_proto::message::Placement;
use plasmon_proto::object::{Attributes, Sizes, Traits};
use plasmon_proto::ring::Put;
use plasmon_proto::{Code, ObjectId};

use crate::error::{Error, Result};
use crate::options::PutOptions;

/// The parts of an object in the order in which they lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) metadata: &'a [u8],
    pub(crate) attributes: &'a [u8],
}

impl<'a> Payload<'a> {
    /// The pieces that have bytes, each with its distance from the object's start.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let tail = [self.metadata, self.attributes];
        let mut at = 0;
        self.data.iter().copied().chain(tail).filter(|piece| !piece.is_empty()).map(move |piece| {
            let start = at;
            at += piece.len();
            (start, piece)
        })
    }
}

/// Options that were checked, with what follows from them.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The id that the caller chose, by itself or by a name; `None` leaves it to the client.
    pub(crate) chosen: Option<ObjectId>,
    /// Whether an object that has this id is replaced.
    pub(crate) replace: bool,
    pub(crate) traits: Traits,
    pub(crate) attributes: Vec<u8>,
    pub(crate) sizes: Sizes,
    /// The bytes that the object takes, with its padding.
    pub(crate) footprint: u64,
}

impl Plan {
    /// The object when it has this id and lies there.
    #[inline]
    pub(crate) fn put(&self, id: ObjectId, placement: Placement) -> Put {
        Put { id, placement, sizes: self.sizes, traits: self.traits }
    }

    /// Checks the options for an object with so much data.
    pub(crate) fn new(doing: &'static str, data: u64, options: &PutOptions) -> Result<Self> {
        let chosen = chosen_id(doing, options)?;
        let attributes = attributes(doing, options)?;
        let sizes = Sizes {
            data,
            metadata: options.metadata.len() as u64,
            attributes: attributes.len() as u64,
        };
        let footprint = sizes.footprint().ok_or_else(|| {
            let error = Error::new(Code::TooLarge, doing).with_amounts(data, OBJECT_BYTES_MAX);
            chosen.into_iter().fold(error, Error::with_id)
        })?;
        let traits = Traits { policy: options.policy, tag: options.tag, owned: options.owned };
        Ok(Self { chosen, replace: options.replace, traits, attributes, sizes, footprint })
    }
}

fn chosen_id(doing: &'static str, options: &PutOptions) -> Result<Option<ObjectId>> {
    let Some(name) = &options.name else {
        return Ok(options.id);
    };
    let wrong = |detail: String| Error::new(Code::BadRequest, doing).with_detail(detail);
    name.check().map_err(|bad| wrong(bad.to_string()))?;
    let id = name.id();
    match options.id {
        Some(other) if other != id => {
            Err(wrong(format!("the name \"{name}\" does not have this id")).with_id(other))
        }
        _ => Ok(Some(id)),
    }
}

fn attributes(doing: &'static str, options: &PutOptions) -> Result<Vec<u8>> {
    let PutOptions { name, ttl, members, .. } = options;
    if name.is_none() && ttl.is_none() && members.is_empty() {
        return Ok(Vec::new());
    }
    if members.len() > MEMBERS_MAX {
        return Err(Error::new(Code::LimitReached, doing)
            .with_amounts(members.len() as u64, MEMBERS_MAX as u64)
            .with_detail("members of one object"));
    }
    let ttl_ms = ttl.map(|ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let (name, members) = (name.clone(), members.clone());
    let attributes = Attributes { name, ttl_ms, members, pool: None };
    let encoded = attributes.encode();
    if encoded.len() > ATTRIBUTES_BYTES_MAX {
        return Err(Error::new(Code::LimitReached, doing)
            .with_amounts(encoded.len() as u64, ATTRIBUTES_BYTES_MAX as u64)
            .with_detail("bytes of attributes"));
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::Name;

    #[test]
    fn pieces_follow_each_other_and_empty_ones_vanish() {
        let data: [&[u8]; 4] = [b"ab", b"", b"c", b""];
        let payload = Payload { data: &data, metadata: b"", attributes: b"xyz" };
        let pieces: Vec<_> = payload.pieces().collect();
        assert_eq!(pieces, [(0, &b"ab"[..]), (2, b"c"), (3, b"xyz")]);
    }

    #[test]
    fn a_name_is_its_id_and_no_other() {
        let name = Name::new("", "prices").unwrap();
        let named = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
        assert_eq!(Plan::new("putting", 1, &named).unwrap().chosen, Some(name.id()));
        let both = PutOptions { id: Some(name.id()), ..named.clone() };
        assert!(Plan::new("putting", 1, &both).is_ok());
        let clash = PutOptions { id: Some(ObjectId::new([1; 20])), ..named };
        assert_eq!(Plan::new("putting", 1, &clash).unwrap_err().code(), Code::BadRequest);
    }

    #[test]
    fn sizes_at_and_past_their_limits() {
        let plain = PutOptions::default();
        assert_eq!(Plan::new("putting", 0, &plain).unwrap().footprint, 64);
        assert!(Plan::new("putting", OBJECT_BYTES_MAX, &plain).is_ok());
        for bytes in [OBJECT_BYTES_MAX + 1, 1 << 63, u64::MAX] {
            assert_eq!(Plan::new("putting", bytes, &plain).unwrap_err().code(), Code::TooLarge);
        }
        let members = |count| PutOptions {
            members: vec![ObjectId::new([7; 20]); count],
            ..PutOptions::default()
        };
        assert!(Plan::new("putting", 0, &members(MEMBERS_MAX)).is_ok());
        let error = Plan::new("putting", 0, &members(MEMBERS_MAX + 1)).unwrap_err();
        assert_eq!((error.code(), error.found()), (Code::LimitReached, MEMBERS_MAX as u64));
    }
}
