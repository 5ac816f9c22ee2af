//! Properties of every request: which clients may make it, what it may cost and which limits it
//! keeps.
//!
//! Each question is one match over all requests, without a rest: a new [`Request`] does not compile
//! until it has answered all of them here. The daemon and the store ask here and keep no lists of
//! their own.

use crate::code::Code;
use crate::id::ObjectId;
use crate::limits::{
    ADOPTIONS_TOLD_MAX, CALLS_MAX, FRAME_FDS_MAX, LIST_PAGE_MAX, NAME_BYTES_MAX,
    NAMESPACE_BYTES_MAX, REQUEST_IDS_MAX,
};
use crate::message::{Failure, Filter, Landing, Request};
use crate::pool_adoption::AdoptionTold;

/// Which clients may make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Every client.
    Read,
    /// Clients that may write.
    Write,
    /// Clients of the user who owns the store.
    Owner,
}

/// What the daemon may have to do before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing that takes long, or the request says itself how long it waits.
    Light,
    /// Wait for the kernel or for a disk.
    Slow,
    /// Find memory, and evict or spill objects for it; that is slow, too.
    Memory,
}

impl Request {
    /// Which clients may make it.
    pub fn class(&self) -> Class {
        match self {
            Self::Hello(_)
            | Self::Index
            | Self::Get { .. }
            | Self::Release { .. }
            | Self::Wait { .. }
            | Self::Cancel { .. }
            | Self::States { .. }
            | Self::Stat { .. }
            | Self::List { .. }
            | Self::ListNamespace(_)
            | Self::Touch { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe
            | Self::Status
            | Self::Clients { .. }
            | Self::Sync
            | Self::Slot { .. }
            | Self::OpenSpilled { .. }
            | Self::Settle { .. }
            | Self::Extents { write: false, .. } => Class::Read,
            Self::Extents { write: true, .. }
            | Self::Lease { .. }
            | Self::Create { .. }
            | Self::CreateGrowing { .. }
            | Self::Grow { .. }
            | Self::Seal { .. }
            | Self::SealGrown { .. }
            | Self::SealGrownPooled { .. }
            | Self::Replace { .. }
            | Self::Abort { .. }
            | Self::Delete { .. }
            | Self::DeleteUnused { .. }
            | Self::Evict { .. }
            | Self::Quota { .. }
            | Self::Share { .. }
            | Self::Scope { .. }
            | Self::EndScope { .. }
            | Self::Adopt { .. }
            | Self::EndAdoption { .. }
            | Self::PutDurable { .. }
            | Self::Demote { .. } => Class::Write,
            Self::Shutdown
            | Self::ShutdownUnused
            | Self::Agent { .. }
            | Self::Tell { .. }
            | Self::TellAdoptions { .. }
            | Self::Describe { .. }
            | Self::CheckLogged { .. }
            | Self::Land(_)
            | Self::SealLanded { .. } => Class::Owner,
        }
    }

    /// What it may cost the daemon.
    pub fn cost(&self) -> Cost {
        match self {
            Self::Lease { .. }
            | Self::Create { .. }
            | Self::CreateGrowing { .. }
            | Self::Grow { .. }
            | Self::Evict { .. }
            | Self::Land(_)
            | Self::Get { .. } => Cost::Memory,
            Self::Seal { .. }
            | Self::SealGrown { .. }
            | Self::SealGrownPooled { .. }
            | Self::Replace { .. }
            | Self::PutDurable { .. }
            | Self::OpenSpilled { .. }
            | Self::SealLanded { .. }
            | Self::Share { .. } => Cost::Slow,
            Self::Hello(_)
            | Self::Index
            | Self::Extents { .. }
            | Self::Abort { .. }
            | Self::Delete { .. }
            | Self::DeleteUnused { .. }
            | Self::Release { .. }
            | Self::Wait { .. }
            | Self::Cancel { .. }
            | Self::States { .. }
            | Self::Stat { .. }
            | Self::List { .. }
            | Self::ListNamespace(_)
            | Self::Touch { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe
            | Self::Status
            | Self::Clients { .. }
            | Self::Quota { .. }
            | Self::Sync
            | Self::Shutdown
            | Self::ShutdownUnused
            | Self::Scope { .. }
            | Self::EndScope { .. }
            | Self::Adopt { .. }
            | Self::EndAdoption { .. }
            | Self::Agent { .. }
            | Self::Tell { .. }
            | Self::TellAdoptions { .. }
            | Self::Settle { .. }
            | Self::Describe { .. }
            | Self::CheckLogged { .. }
            | Self::Demote { .. }
            | Self::Slot { .. } => Cost::Light,
        }
    }

    /// The objects that it is about, as far as it names them.
    pub fn ids(&self) -> &[ObjectId] {
        match self {
            Self::Delete { ids }
            | Self::DeleteUnused { ids }
            | Self::Get { ids }
            | Self::Wait { ids, .. }
            | Self::States { ids }
            | Self::Scope { ids, .. }
            | Self::Settle { ids, .. }
            | Self::Touch { ids }
            | Self::Demote { ids } => ids,
            Self::Create { id, .. }
            | Self::CreateGrowing { id, .. }
            | Self::Grow { id, .. }
            | Self::Seal { id }
            | Self::SealGrown { id, .. }
            | Self::Abort { id }
            | Self::Stat { id }
            | Self::Slot { id }
            | Self::OpenSpilled { id }
            | Self::SealLanded { id, .. }
            | Self::Describe { id, .. }
            | Self::CheckLogged { id, .. }
            | Self::Land(Landing { id, .. })
            // The id that it has until then is its creator's alone.
            | Self::SealGrownPooled { target: id, .. }
            | Self::PutDurable { target: id, .. }
            | Self::Replace { target: id, .. } => std::slice::from_ref(id),
            Self::Hello(_)
            | Self::Index
            | Self::Extents { .. }
            | Self::Lease { .. }
            | Self::Release { .. }
            | Self::Cancel { .. }
            | Self::List { .. }
            | Self::ListNamespace(_)
            | Self::Evict { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe
            | Self::Status
            | Self::Clients { .. }
            | Self::Quota { .. }
            | Self::Sync
            | Self::Shutdown
            | Self::ShutdownUnused
            | Self::Share { .. }
            | Self::Adopt { .. }
            | Self::EndAdoption { .. }
            | Self::EndScope { .. }
            | Self::Agent { .. }
            | Self::TellAdoptions { .. }
            | Self::Tell { .. } => &[],
        }
    }

    /// Whether it keeps the limits that the size of a frame alone does not enforce.
    pub fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Extents { extents, .. } => at_most("extents", extents.len(), FRAME_FDS_MAX),
            Self::Release { serials } => at_most("serials", serials.len(), REQUEST_IDS_MAX),
            Self::Delete { ids }
            | Self::DeleteUnused { ids }
            | Self::Get { ids }
            | Self::Wait { ids, .. }
            | Self::States { ids }
            | Self::Scope { ids, .. }
            | Self::Settle { ids, .. }
            | Self::Touch { ids }
            | Self::Demote { ids } => at_most("ids", ids.len(), REQUEST_IDS_MAX),
            Self::List { filter, limit, .. } => {
                at_most("objects", *limit as usize, LIST_PAGE_MAX)?;
                filter.check()
            }
            Self::Subscribe { filter } => filter.check(),
            Self::ListNamespace(query) if query.keeps_limits() => Ok(()),
            Self::ListNamespace(query) => {
                at_most("bytes of a namespace", query.namespace.len(), NAMESPACE_BYTES_MAX)?;
                at_most("bytes of a prefix", query.prefix.len(), NAME_BYTES_MAX)
            }
            Self::Tell { told } => at_most("answers", told.len(), CALLS_MAX),
            Self::TellAdoptions { told } => {
                at_most("answers", told.len(), ADOPTIONS_TOLD_MAX)?;
                let longest = told.iter().map(AdoptionTold::namespace_bytes).max();
                at_most("bytes of a namespace", longest.unwrap_or(0), NAMESPACE_BYTES_MAX)
            }
            Self::Adopt { namespace, .. } | Self::EndAdoption { namespace } => {
                at_most("bytes of a namespace", namespace.len(), NAMESPACE_BYTES_MAX)
            }
            // The handshake checks a hello; sizes and amounts are checked where memory is given.
            Self::Hello(_)
            | Self::Lease { .. }
            | Self::Create { .. }
            | Self::CreateGrowing { .. }
            | Self::Grow { .. }
            | Self::SealGrown { .. }
            | Self::SealGrownPooled { .. }
            | Self::PutDurable { .. }
            | Self::Evict { .. }
            | Self::Land(_)
            | Self::Quota { .. }
            | Self::Share { .. } => Ok(()),
            // Nothing in them can be large.
            Self::Index
            | Self::Seal { .. }
            | Self::Replace { .. }
            | Self::Abort { .. }
            | Self::Cancel { .. }
            | Self::Stat { .. }
            | Self::Unsubscribe
            | Self::Status
            | Self::Clients { .. }
            | Self::Sync
            | Self::Shutdown
            | Self::ShutdownUnused
            | Self::EndScope { .. }
            | Self::Slot { .. }
            | Self::Agent { .. }
            | Self::SealLanded { .. }
            | Self::Describe { .. }
            | Self::CheckLogged { .. }
            | Self::OpenSpilled { .. } => Ok(()),
        }
    }
}

impl Filter {
    /// Whether a name could match it at all.
    fn check(&self) -> Result<(), Failure> {
        let parts = [&self.namespace, &self.prefix];
        match parts.into_iter().flatten().find(|part| part.len() > NAME_BYTES_MAX) {
            None => Ok(()),
            Some(part) => Err(Failure::of(Code::LimitReached)
                .with_amounts(part.len() as u64, NAME_BYTES_MAX as u64)
                .with_detail("the filter is longer than any name, so it matches nothing")),
        }
    }
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), Failure> {
    if count <= limit {
        return Ok(());
    }
    Err(Failure::of(Code::LimitReached)
        .with_amounts(count as u64, limit as u64)
        .with_detail(format!("{count} {what} in one request; the limit is {limit}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::{ExtentId, Placement};
    use crate::object::{Sizes, Traits};
    use crate::pool::Slot;

    const ID: ObjectId = ObjectId::new([7; 20]);

    fn ids(count: usize) -> Vec<ObjectId> {
        vec![ID; count]
    }

    fn put_durable(id: ObjectId, target: ObjectId) -> Request {
        let placement = Placement { extent: ExtentId(1), offset: 64 };
        let (sizes, traits) = (Sizes::default(), Traits::default());
        Request::PutDurable { id, target, placement, sizes, traits }
    }

    #[test]
    fn reading_writing_and_ending_the_store_are_three_classes() {
        let traits = Traits::default();
        let cases = [
            (Request::Get { ids: ids(1) }, Class::Read, Cost::Memory),
            (Request::OpenSpilled { id: ID }, Class::Read, Cost::Slow),
            (Request::Status, Class::Read, Cost::Light),
            (Request::Settle { ids: ids(1), timeout_ms: None }, Class::Read, Cost::Light),
            (Request::Extents { extents: Vec::new(), write: false }, Class::Read, Cost::Light),
            (Request::Extents { extents: Vec::new(), write: true }, Class::Write, Cost::Light),
            (
                Request::Create { id: ID, sizes: Sizes::default(), traits, strict: false },
                Class::Write,
                Cost::Memory,
            ),
            (Request::SealGrown { id: ID, data: 1 }, Class::Write, Cost::Slow),
            (Request::Replace { id: ID, target: ID }, Class::Write, Cost::Slow),
            (put_durable(ID, ID), Class::Write, Cost::Slow),
            (Request::Delete { ids: ids(1) }, Class::Write, Cost::Light),
            (Request::Demote { ids: ids(1) }, Class::Write, Cost::Light),
            (Request::Shutdown, Class::Owner, Cost::Light),
            (Request::ShutdownUnused, Class::Owner, Cost::Light),
            (Request::Agent { token: 1, slot: Slot(2) }, Class::Owner, Cost::Light),
            (Request::Land(crate::pool::tests::landing()), Class::Owner, Cost::Memory),
        ];
        for (request, class, cost) in cases {
            assert_eq!((request.class(), request.cost()), (class, cost), "{request:?}");
        }
    }

    #[test]
    fn a_request_names_its_objects() {
        let other = ObjectId::new([8; 20]);
        let cases = [
            (Request::Get { ids: vec![ID, other] }, vec![ID, other]),
            (Request::Seal { id: ID }, vec![ID]),
            (Request::Replace { id: other, target: ID }, vec![ID]),
            (put_durable(other, ID), vec![ID]),
            (Request::Status, vec![]),
        ];
        for (request, ids) in cases {
            assert_eq!(request.ids(), ids, "{request:?}");
        }
    }

    #[test]
    fn a_request_at_its_limit_passes_and_one_past_it_names_both_amounts() {
        let filter = |bytes: usize| Filter { namespace: None, prefix: Some("x".repeat(bytes)) };
        let extents = |count| Request::Extents { extents: vec![ExtentId(0); count], write: false };
        let list = |limit| Request::List { filter: filter(0), cursor: 0, limit: limit as u32 };
        let adopt = |bytes| Request::Adopt { namespace: "x".repeat(bytes), bytes_max: 0 };
        let wait =
            |count| Request::Wait { ids: ids(count), count: 0, timeout_ms: None, beyond_end: true };
        let scope = |count| Request::Scope { scope: 1, ids: ids(count), again: false };
        let vouch = crate::pool::Told::Vouch { ms: 1 };
        let tell = |count| Request::Tell { told: vec![vouch; count] };
        let settle = |count| Request::Settle { ids: ids(count), timeout_ms: None };
        let cases: [(&dyn Fn(usize) -> Request, usize); 15] = [
            (&settle, REQUEST_IDS_MAX),
            (&tell, CALLS_MAX),
            (&scope, REQUEST_IDS_MAX),
            (&extents, FRAME_FDS_MAX),
            (&|count| Request::Release { serials: vec![1; count] }, REQUEST_IDS_MAX),
            (&|count| Request::Delete { ids: ids(count) }, REQUEST_IDS_MAX),
            (&|count| Request::DeleteUnused { ids: ids(count) }, REQUEST_IDS_MAX),
            (&|count| Request::Get { ids: ids(count) }, REQUEST_IDS_MAX),
            (&wait, REQUEST_IDS_MAX),
            (&|count| Request::States { ids: ids(count) }, REQUEST_IDS_MAX),
            (&|count| Request::Touch { ids: ids(count) }, REQUEST_IDS_MAX),
            (&|count| Request::Demote { ids: ids(count) }, REQUEST_IDS_MAX),
            (&list, LIST_PAGE_MAX),
            (&|bytes| Request::Subscribe { filter: filter(bytes) }, NAME_BYTES_MAX),
            (&adopt, NAMESPACE_BYTES_MAX),
        ];
        for (request, limit) in cases {
            assert_eq!(request(limit).check(), Ok(()), "{limit}");
            let failure = request(limit + 1).check().unwrap_err();
            let told = (failure.code, failure.wanted, failure.found);
            assert_eq!(told, (Code::LimitReached, limit as u64 + 1, limit as u64));
        }
        let long = Filter { namespace: Some("x".repeat(NAME_BYTES_MAX + 1)), prefix: None };
        let list = Request::List { filter: long, cursor: 0, limit: 1 };
        assert_eq!(list.check().unwrap_err().code, Code::LimitReached);
    }
}
