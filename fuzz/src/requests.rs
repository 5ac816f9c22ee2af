//! Requests that mean something: what a client might ask, with borders where there are any.

use plasmon_proto::extent::{ExtentId, Placement};
use plasmon_proto::message::{Filter, Landing, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::pool::{Birth, Fate, Refusal, Slot, Told};
use plasmon_proto::pool_adoption::{AdoptionRefusal, AdoptionTold, NamespaceState};
use plasmon_proto::pool_listing::ListQuery;
use plasmon_proto::{Attributes, Name, ObjectId, Policy};

use crate::Input;

/// How many ids there are: few, so that clients meet.
pub const IDS: usize = 12;

/// One of the ids.
pub fn id(number: usize) -> ObjectId {
    ObjectId::new([number as u8 + 1; 20])
}

/// Any request but a hello and those that end the daemon. `serials` are what a client without a
/// channel pins.
pub fn any(input: &mut Input<'_>, serials: &[u64]) -> Request {
    let ids: Vec<ObjectId> = (0..input.below(4)).map(|_| id(input.below(IDS))).collect();
    let one = id(input.below(IDS));
    match input.below(29) {
        0 | 1 => Request::Lease { bytes_min: input.word(), bytes_wanted: input.word() },
        2 | 3 => {
            let (sizes, _) = parts(input, 1 << 20);
            let strict = input.below(4) == 0;
            Request::Create { id: one, sizes, traits: traits(input), strict }
        }
        4 => match input.below(2) {
            0 => Request::Seal { id: one },
            _ => Request::Replace { id: one, target: id(input.below(IDS)) },
        },
        5 => Request::Abort { id: one },
        6 => Request::Delete { ids },
        7 => Request::Get { ids },
        8 => {
            let mut serials = serials.to_vec();
            serials.extend((0..input.below(2)).map(|_| input.word()));
            Request::Release { serials }
        }
        9 | 10 => {
            let timeout_ms = [None, Some(0), Some(1000)][input.below(3)];
            let (count, beyond_end) = (u32::from(input.byte() % 4), input.byte() % 2 == 0);
            Request::Wait { ids, count, timeout_ms, beyond_end }
        }
        11 => Request::Cancel { request: input.byte().into() },
        12 => Request::Evict { bytes: input.word() },
        13 => Request::Touch { ids },
        14 => Request::Subscribe { filter: Filter::default() },
        15 => Request::Unsubscribe,
        16 => Request::Quota { bytes: input.word() },
        17 => {
            let filter = Filter { namespace: Some("ns".to_owned()), prefix: None };
            Request::List { filter, cursor: input.word(), limit: input.byte().into() }
        }
        18 => Request::States { ids },
        19 => Request::Stat { id: one },
        20 => Request::Index,
        21 => {
            let extents = (0..input.below(20)).map(|_| ExtentId(input.word())).collect();
            Request::Extents { extents, write: input.byte() % 2 == 0 }
        }
        22 => Request::Clients { skip: input.byte().into() },
        23 => Request::CreateGrowing {
            id: one,
            traits: traits(input),
            bytes: input.word(),
            open_ended: input.byte() % 2 == 0,
        },
        24 => match input.below(2) {
            0 => Request::Grow { id: one, bytes: input.word() },
            _ => Request::SealGrown { id: one, data: input.word() },
        },
        25 => {
            let namespace = ["ns", "@ns"][input.below(2)].to_owned();
            Request::Adopt { namespace, bytes_max: input.byte().into() }
        }
        26 => Request::Slot { id: one },
        27 => Request::OpenSpilled { id: one },
        _ => rare(input, ids),
    }
}

fn rare(input: &mut Input<'_>, ids: Vec<ObjectId>) -> Request {
    match input.below(19) {
        0 => Request::Status,
        1 => Request::Sync,
        2 => Request::DeleteUnused { ids },
        3 => {
            let (scope, again) = (input.byte().into(), input.byte() % 2 == 0);
            Request::Scope { scope, ids, again }
        }
        4 => Request::EndScope { scope: input.byte().into(), publish: input.byte() % 2 == 0 },
        5 => Request::Agent { token: input.word(), slot: Slot(input.byte().into()) },
        6 => Request::Tell { told: (0..input.below(4)).map(|_| told(input)).collect() },
        7 => Request::Land(Landing {
            id: pooled_id(input),
            birth: birth(input),
            sizes: parts(input, 1 << 20).0,
            traits: traits(input),
            growing: input.byte() % 2 == 0,
        }),
        8 => Request::SealLanded {
            id: pooled_id(input),
            birth: birth(input),
            visible: input.byte() % 2 == 0,
            keep: input.byte() % 2 == 0,
        },
        9 => {
            let timeout_ms = [None, Some(0), Some(1000)][input.below(3)];
            let ids = ids.into_iter().chain([pooled_id(input), pooled_id(input)]).collect();
            Request::Settle { ids, timeout_ms }
        }
        10 => Request::ListNamespace(ListQuery {
            namespace: ["ns", "@ns", ""][input.below(3)].to_owned(),
            prefix: ["", "a"][input.below(2)].to_owned(),
            after: (input.byte() % 2 == 0).then(|| pooled_id(input)),
        }),
        11 => Request::Describe { id: pooled_id(input), birth: birth(input) },
        12 => Request::EndAdoption { namespace: ["ns", "@ns"][input.below(2)].to_owned() },
        13 => {
            let told = (0..input.below(4)).map(|_| told_of_adoptions(input)).collect();
            Request::TellAdoptions { told }
        }
        14 => Request::SealGrownPooled {
            id: id(input.below(8)),
            target: pooled_id(input),
            data: input.word(),
            attributes: input.below(64) as u32,
        },
        15 => Request::Demote { ids },
        16 => Request::PutDurable {
            id: id(input.below(IDS)),
            target: id(input.below(IDS)),
            placement: Placement { extent: ExtentId(input.byte().into()), offset: input.word() },
            sizes: parts(input, 1 << 16).0,
            traits: traits(input),
        },
        17 => Request::CheckLogged { id: pooled_id(input), birth: birth(input) },
        _ => Request::Share { bytes: input.word() },
    }
}

/// One of a few ids in a pool.
pub fn pooled_id(input: &mut Input<'_>) -> ObjectId {
    let home = [None, Some(0), Some(1)][input.below(3)];
    ObjectId::pooled([input.below(4) as u8; 12], home)
}

fn birth(input: &mut Input<'_>) -> Birth {
    let (slot, boot) = (Slot(input.below(3) as u16), input.below(2) as u64);
    Birth { slot, boot, serial: input.byte().into() }
}

/// What the pool daemon might say of namespaces.
fn told_of_adoptions(input: &mut Input<'_>) -> AdoptionTold {
    match input.below(4) {
        0 => {
            let states = [
                NamespaceState::Free,
                NamespaceState::AdoptedHere(input.byte().into()),
                NamespaceState::AdoptedElsewhere,
                NamespaceState::Ended,
            ];
            let state = states[input.below(4)];
            AdoptionTold::Namespace { namespace: "@ns".to_owned(), state }
        }
        1 => AdoptionTold::Revision(input.byte().into()),
        2 => {
            let [bytes_max, elsewhere_bytes] = [input.byte(), input.byte()].map(u64::from);
            AdoptionTold::Quota { namespace: "@ns".to_owned(), bytes_max, elsewhere_bytes }
        }
        _ => {
            let result = [Ok(()), Err(AdoptionRefusal::Exists)][input.below(2)].clone();
            AdoptionTold::Answer { number: input.byte().into(), result }
        }
    }
}

/// What the pool daemon might answer.
pub fn told(input: &mut Input<'_>) -> Told {
    let (id, birth) = (pooled_id(input), birth(input));
    match input.below(16) {
        0 => {
            use Fate::{Absent, Damaged, Deleted, Lost, NoRoom, Unreachable};
            let fates = [Absent, Deleted, Lost, Unreachable, NoRoom, Damaged];
            Told::Sought { id, number: input.byte().into(), fate: fates[input.below(6)] }
        }
        1 => {
            let results = [Ok(()), Err(Refusal::Exists), Err(Refusal::InUse(Slot(1)))];
            Told::Committed { id, serial: birth.serial, result: results[input.below(3)] }
        }
        2 => Told::Deleted { id, number: input.byte().into() },
        3 => Told::DeleteUnreachable { id, number: input.byte().into() },
        4 => Told::Drop { id, birth },
        5 => Told::Publish { id, birth },
        6 => Told::Keep { id, birth },
        7 => Told::Look { id, number: input.byte().into() },
        8 => Told::Verified { id, number: input.byte().into(), known: input.byte() & 1 == 1 },
        9 => Told::Release { id, birth },
        10 => Told::Log { id, birth },
        11 => Told::AddTombstone { id, birth },
        12 => Told::RemoveTombstone { id, birth },
        13 => Told::Discard { id, birth },
        14 => Told::Relog { id, birth },
        _ => Told::Vouch { ms: input.word() },
    }
}

/// Any policy, mostly not owned.
pub fn traits(input: &mut Input<'_>) -> Traits {
    let bits = input.byte();
    let policy = if bits & 1 == 0 { Policy::Keep } else { Policy::Cache };
    Traits { policy, tag: 0, owned: bits & 6 == 6 }
}

/// Sizes that mostly fit `bytes`, and attributes that mostly have the size they should.
pub fn parts(input: &mut Input<'_>, bytes: u64) -> (Sizes, Option<Attributes>) {
    let attributes = match input.below(8) {
        0 => Attributes { ttl_ms: Some(input.word()), ..Attributes::default() },
        1 => {
            let members = (0..input.below(4)).map(|_| id(input.below(IDS))).collect();
            Attributes { members, ..Attributes::default() }
        }
        2 => Attributes { name: Name::new("ns", "name").ok(), ..Attributes::default() },
        3 => Attributes { durable: true, ..Attributes::default() },
        _ => Attributes::default(),
    };
    let data = match input.below(4) {
        0 => input.word(),
        1 => bytes,
        _ => input.word() % (bytes / 2).max(1),
    };
    let sizes = Sizes {
        data,
        metadata: u64::from(input.byte() / 8),
        attributes: attributes.encode().len() as u64,
    };
    (sizes, (input.below(16) != 0).then_some(attributes))
}
