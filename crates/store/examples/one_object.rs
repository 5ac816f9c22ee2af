//! The life of one object in a store: what goes in, and what comes out.
//!
//! The store has no memory, sockets or clock. Here maps play the shared index, and the effects
//! are only looked at.

use plasmon_proto::message::{Access, Reply, Request};
use plasmon_proto::object::{Sizes, Traits};
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Attributes, ObjectId, ObjectState};
use plasmon_store::event::Peer;
use plasmon_store::{ClientNo, Config, Effect, Event, Store};
use plasmon_testkit::directory::TestDirectory;

/// Applies an event, gives the machine's memory wherever it is asked for, and returns the effects.
fn step(store: &mut Store<TestDirectory>, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    store.step(1_700_000_000_000, event, &mut effects);
    let mut at = 0;
    while let Some(effect) = effects.get(at) {
        if let Effect::Reserve { ticket, .. } = effect {
            let reserved = Event::Reserved(*ticket, true);
            store.step(1_700_000_000_000, reserved, &mut effects);
        }
        at += 1;
    }
    effects
}

fn main() {
    let mut store = Store::new(Config::new(64 << 20), TestDirectory::default());
    let client = ClientNo(1);
    let name = "example".to_owned();
    let peer = Peer { pid: 1, uid: 1, name, access: Access::ReadWrite, channel: true, session: 1 };
    step(&mut store, Event::Connect(client, peer));

    // The client leases memory, writes into it on its own, and submits what it wrote.
    let lease = Request::Lease { bytes_min: 4096, bytes_wanted: 65_536 };
    let effects = step(&mut store, Event::Request(client, 1, lease));
    let granted = effects.iter().find_map(|effect| match effect {
        Effect::Lease(_, 1, granted) => Some(*granted),
        _ => None,
    });
    let granted = granted.expect("a fresh store has memory");
    let id = ObjectId::new([7; 20]);
    let put = Submission::Put(Put {
        id,
        placement: granted.range.placement(),
        sizes: Sizes { data: 1000, ..Sizes::default() },
        traits: Traits::default(),
    });
    step(&mut store, Event::Submit(client, 0, put, Some(Attributes::default())));

    let states = |store: &mut Store<TestDirectory>| {
        let request = Event::Request(client, 2, Request::States { ids: vec![id] });
        step(store, request)
    };
    let sealed = Effect::Reply(client, 2, Reply::States(vec![ObjectState::Sealed]));
    assert_eq!(states(&mut store), [sealed]);

    // Deleted is not the same as never heard of.
    let delete = Request::Delete { ids: vec![id] };
    step(&mut store, Event::Request(client, 3, delete));
    let deleted = Effect::Reply(client, 2, Reply::States(vec![ObjectState::Deleted]));
    assert_eq!(states(&mut store), [deleted]);
}
