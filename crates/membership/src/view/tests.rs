//! Tests of what a node has seen in etcd.

use plasmon_cluster::adoption::Adopter;
use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
use plasmon_cluster::{Epoch, GroupNo, NodeUuid, ProtocolRange, Reach};

use super::*;

fn life(number: u8) -> Life {
    Life { uuid: NodeUuid([number; 16]), incarnation: 1 }
}

fn member(number: u8) -> Member {
    Member {
        uuid: life(number).uuid,
        name: format!("n{number}"),
        incarnation: 1,
        boot: 1,
        addresses: vec!["127.0.0.1:1".to_owned()],
        zone: String::new(),
        weight: 1,
        log: plasmon_cluster::NodeLog::Absent,
        protocol: ProtocolRange { min: 1, max: 1 },
    }
}

fn kv(key: Vec<u8>, value: Vec<u8>, revision: i64) -> KeyValue {
    let (create_revision, mod_revision) = (revision, revision);
    KeyValue { key, value, create_revision, mod_revision, lease: Some(LeaseId(revision)) }
}

#[test]
fn members_are_in_the_order_of_their_leases_and_maps_come_out() {
    let keys = Keys::new("p").unwrap();
    let seat = |number: u8, revision| {
        kv(keys.of(Key::Member(life(number))), member(number).encode().unwrap(), revision)
    };
    let kvs = vec![seat(1, 9), seat(2, 5), kv(b"/plasmon/p/later".to_vec(), vec![], 9)];
    let mut view = View::of(&keys, Listing { revision: 9, kvs });
    let members = view.members();
    assert_eq!(members, [member(2), member(1)]);
    assert_eq!(view.lease_of(life(1)), Some(LeaseId(9)));

    let map = Map::default();
    let seen = Observation {
        map: &map,
        members: &members,
        activations: &[],
        drained: &[],
        commands: &[],
        reach: Reach::default(),
    };
    let map = Leader::new(OUT_AFTER_MS).step(0, &seen).proposal.unwrap();
    let put = Change::Put(kv(keys.of(Key::Map), map.encode(), 10));
    assert_eq!(view.apply(&keys, &put).as_deref(), Some(&map));
    assert_eq!(view.map.as_ref().unwrap().revision, 10);

    let group = GroupNo::new(7).unwrap();
    let value = reports::encode(&Reports::from([(group, Epoch(1))]));
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Reports(life(2))), value, 11)));
    let expected = [Activation { primary: Slot(0), group, since: Epoch(1) }];
    assert_eq!(view.activations(&map), expected);

    let report = DrainReport {
        slot: Slot(1),
        since: Epoch(1),
        epoch: Epoch(1),
        left: plasmon_cluster::Left::default(),
    };
    for number in [2, 3] {
        let value = drains::encode(&[report]);
        view.apply(&keys, &Change::Put(kv(keys.of(Key::Drains(life(number))), value, 12)));
    }
    assert_eq!(view.drain_reports(&map), [(Slot(0), report)], "node 3 is not in the map");
    view.apply(&keys, &Change::Deleted(keys.of(Key::Drains(life(2)))));
    assert_eq!(view.drain_reports(&map), []);

    let suspect = Suspect { slot: Slot(1), incarnation: 1 };
    for number in [2, 3] {
        let value = suspects::encode(&[suspect]);
        view.apply(&keys, &Change::Put(kv(keys.of(Key::Suspects(life(number))), value, 13)));
    }
    let expected = [ReachReport { slot: Slot(0), suspects: vec![suspect] }];
    assert_eq!(view.reach_reports(&map), expected, "node 3 is not in the map");
    view.apply(&keys, &Change::Deleted(keys.of(Key::Suspects(life(2)))));
    assert_eq!(view.reach_reports(&map), []);
    let found = Encryption { data: true, not_after: 7 };
    let key = keys.of(Key::Encryption(life(2)));
    view.apply(&keys, &Change::Put(kv(key.clone(), encryption::encode(found), 13)));
    assert_eq!(view.encryption(&map), BTreeMap::from([(Slot(0), found)]));
    view.apply(&keys, &Change::Deleted(key));
    assert!(view.encryption(&map).is_empty());
    let (found, key) = (Fabric::default(), keys.of(Key::Fabric(life(2))));
    view.apply(&keys, &Change::Put(kv(key.clone(), fabric::encode(&found), 13)));
    assert_eq!(view.fabrics(&map), BTreeMap::from([(Slot(0), found)]));
    view.apply(&keys, &Change::Deleted(key));
    assert!(view.fabrics(&map).is_empty());
    let fenced = keys.of(Key::Fenced(life(1)));
    view.apply(&keys, &Change::Put(kv(fenced.clone(), vec![], 14)));
    assert_eq!(view.fenced_lease(life(1)), Some(LeaseId(14)));
    view.apply(&keys, &Change::Deleted(fenced));
    assert_eq!((view.fenced_lease(life(1)), view.waiting(&map).len()), (None, 0));

    view.apply(&keys, &Change::Deleted(keys.of(Key::Member(life(1)))));
    view.apply(&keys, &Change::Deleted(keys.of(Key::Reports(life(2)))));
    assert_eq!((view.members(), view.activations(&map)), (vec![member(2)], vec![]));
}

#[test]
fn commands_and_the_alarm_come_and_go() {
    let keys = Keys::new("p").unwrap();
    let mut view = View::default();
    let slot = Slot(3);
    let put = |entry: Entry, revision| {
        Change::Put(kv(keys.of(Key::Command(slot)), commands::encode(&entry), revision))
    };
    view.apply(&keys, &put(Entry::Asked(Order::Forget), 2));
    assert_eq!(view.commands().collect::<Vec<_>>(), [(2, slot, Order::Forget)]);
    let refused = Entry::Refused("it is up".to_owned());
    view.apply(&keys, &put(refused.clone(), 3));
    assert_eq!((view.commands().count(), view.command(slot)), (0, Some(&(3, refused))));
    view.apply(&keys, &Change::Deleted(keys.of(Key::Command(slot))));
    assert_eq!(view.command(slot), None);
    view.apply(&keys, &put(Entry::Asked(Order::Forget), 5));
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Command(slot)), b"?".to_vec(), 6)));
    assert_eq!(view.commands().count(), 0, "what replaced it cannot be read");
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Alarm), b"two".to_vec(), 4)));
    assert_eq!(view.alarm.as_deref(), Some("two"));
    view.apply(&keys, &Change::Deleted(keys.of(Key::Alarm)));
    assert_eq!(view.alarm, None);
}

#[test]
fn adoptions_come_and_go_and_a_change_of_one_is_another_allocation() {
    let keys = Keys::new("p").unwrap();
    let mut view = View::default();
    let put = |value: &[u8], revision| {
        Change::Put(kv(keys.of_namespace("@app"), value.to_vec(), revision))
    };
    let adopter = Adopter { node: life(1).uuid, boot: 2, session: 3 };
    let adopted = Adoption::Adopted { by: adopter, bytes_max: 9 };
    for (adoption, revision) in [(adopted, 4), (Adoption::Ended, 5)] {
        let before = view.adoptions.clone();
        view.apply(&keys, &put(&adoptions::encode(&adoption), revision));
        assert!(!Arc::ptr_eq(&before, &view.adoptions));
        assert_eq!(view.adoptions["@app"], SeenAdoption { adoption, revision });
    }
    let before = view.adoptions.clone();
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Alarm), b"two".to_vec(), 6)));
    assert!(Arc::ptr_eq(&before, &view.adoptions));
    view.apply(&keys, &put(b"?", 7));
    assert!(view.adoptions.is_empty());
    view.apply(&keys, &put(&adoptions::encode(&Adoption::Ended), 8));
    view.apply(&keys, &Change::Deleted(keys.of_namespace("@app")));
    assert!(view.adoptions.is_empty());

    let map = Map::default();
    let progress = adoptions::encode_progress(Progress { seen: 9, swept: 8 });
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Swept(life(1))), progress, 9)));
    assert!(view.progress(&map).is_empty(), "the node is not in the map");
}

#[test]
fn what_a_node_has_of_limited_namespaces_goes_with_its_key() {
    let keys = Keys::new("p").unwrap();
    let mut view = View::default();
    let usage = usage::Usage::from([("@app".to_owned(), 7)]);
    let value = usage::encode(&usage);
    let before = view.usage.clone();
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Usage(life(1))), value, 2)));
    assert!(!Arc::ptr_eq(&before, &view.usage));
    assert_eq!(*view.usage, UsageByLife::from([(life(1), usage)]));
    view.apply(&keys, &Change::Deleted(keys.of(Key::Usage(life(1)))));
    assert!(view.usage.is_empty());
}

#[test]
fn what_cannot_be_read_changes_nothing_but_is_known() {
    let keys = Keys::new("p").unwrap();
    let mut view = View::default();
    let wrong = keys.of(Key::Member(life(1)));
    let member_of_another = member(2).encode().unwrap();
    view.apply(&keys, &Change::Put(kv(wrong.clone(), b"?".to_vec(), 2)));
    view.apply(&keys, &Change::Put(kv(wrong, member_of_another, 3)));
    assert!(view.members().is_empty());
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Map), b"?".to_vec(), 4)));
    assert!(view.map.is_none() && view.bad_map.is_some());
    view.apply(&keys, &Change::Put(kv(keys.of(Key::Map), Map::default().encode(), 5)));
    assert!(view.map.is_some() && view.bad_map.is_none());
}
