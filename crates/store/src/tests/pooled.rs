//! Objects of a pool, in a store that belongs to none.

use plasmon_proto::message::Request;
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, Name, ObjectId};

use super::{Put, World, id, sizes};

const MIB: u64 = 1 << 20;

#[test]
fn without_a_pool_every_request_for_such_an_object_says_what_to_start() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let pooled = Name::new("", "@prod:sales").unwrap().id();
    let ids = || vec![id(1), pooled];
    let (size, traits) = (sizes(10), Put::new(1, 10).traits);
    let requests = [
        Request::Create { id: pooled, sizes: size, traits, strict: false },
        Request::CreateGrowing { id: pooled, traits, bytes: 1, open_ended: false },
        Request::Get { ids: ids() },
        Request::Wait { ids: ids(), count: 0, timeout_ms: Some(0), beyond_end: false },
        Request::States { ids: ids() },
        Request::Stat { id: pooled },
        Request::Delete { ids: ids() },
        Request::DeleteUnused { ids: ids() },
        Request::Replace { id: id(1), target: pooled },
        Request::Scope { scope: 1, ids: ids(), again: false },
    ];
    for request in requests {
        let failure = world.ask_for_failure(client, request.clone());
        assert_eq!((failure.code, failure.id), (Code::Unsupported, Some(pooled)), "{request:?}");
        assert!(failure.detail.contains("choose another name"), "{}", failure.detail);
    }
}

#[test]
fn an_id_with_the_mark_of_a_pool_is_refused_on_the_ring_and_its_memory_comes_back() {
    let mut world = World::with_capacity(16 * MIB);
    let client = world.connect(1);
    let pooled = ObjectId::pooled([7; 12], Some(0));
    let announce = Submission::Announce { id: pooled };
    assert_eq!(world.submit(client, announce), Err(Code::Unsupported));
    let put = Put { id: pooled, ..Put::new(1, 10) };
    let granted = world.lease(client, 64).unwrap();
    assert_eq!(world.put_at(client, put, granted.range), Err(Code::Unsupported));
    assert_eq!(world.status().leased_bytes, granted.range.bytes - 64);
}
