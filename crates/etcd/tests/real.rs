//! The client against a real etcd: what it must see, and what happens when etcd is away, hangs,
//! forgets, or refuses. Without an etcd on the machine the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::Instant;

use plasmon_etcd::{
    Change, Client, Condition, Credentials, Error, LeaseId, Operation, Options, Outcome, Seen,
};
use plasmon_testkit::{Etcd, TEST_TIMEOUT, until};
use serde_json::json;

fn client(etcd: &Etcd) -> Client {
    Client::new(Options::new(etcd.endpoints())).unwrap()
}

fn put(key: &str, value: &str) -> Operation {
    Operation::Put(key.into(), value.into(), None)
}

fn write(client: &mut Client, key: &str, value: &str) -> i64 {
    let outcome = client.transact(&[], &[put(key, value)]).unwrap();
    assert!(outcome.is_done);
    outcome.revision
}

/// Reads changes until so many have come.
fn changes(client: &mut Client, prefix: &str, from: i64, count: usize) -> Vec<Change> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut found = Vec::new();
    let mut next = from;
    while found.len() < count {
        assert!(Instant::now() < deadline, "waited too long for {count} changes: {found:?}");
        let mut watch = client.watch(prefix.as_bytes(), next).unwrap();
        while let Seen::Changes(revision, changes) = watch.next_changes().unwrap() {
            found.extend(changes);
            next = revision + 1;
            if found.len() >= count {
                break;
            }
        }
    }
    found
}

fn keys_of(changes: &[Change]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let key = |change: &Change| match change {
        Change::Put(kv) => format!("{}={}", text(&kv.key), text(&kv.value)),
        Change::Deleted(key) => format!("{} deleted", text(key)),
    };
    changes.iter().map(key).collect()
}

#[test]
fn keys_are_written_listed_and_deleted() {
    let Some(etcd) = Etcd::start() else { return };
    let mut client = client(&etcd);
    assert_eq!(client.get(b"/p/a"), Ok(None));
    let first = write(&mut client, "/p/a", "1");
    write(&mut client, "/p/b", "");
    write(&mut client, "/q", "not under the prefix");
    let listing = client.list(b"/p/").unwrap();
    assert!(listing.revision >= first + 2);
    let [a, b] = listing.kvs.as_slice() else { panic!("{listing:?}") };
    assert_eq!((a.key.as_slice(), a.value.as_slice()), (&b"/p/a"[..], &b"1"[..]));
    assert_eq!((a.create_revision, a.mod_revision, a.lease), (first, first, None));
    assert_eq!((b.key.as_slice(), b.value.as_slice()), (&b"/p/b"[..], &b""[..]));
    client.transact(&[], &[Operation::Delete(b"/p/a".to_vec())]).unwrap();
    assert_eq!(client.get(b"/p/a"), Ok(None));
}

#[test]
fn of_two_transactions_on_one_revision_one_is_carried_out() {
    let Some(etcd) = Etcd::start() else { return };
    let (mut one, mut other) = (client(&etcd), client(&etcd));
    let is_new = [Condition::Made(b"/k".to_vec(), 0)];
    assert!(one.transact(&is_new, &[put("/k", "one")]).unwrap().is_done);
    assert!(!other.transact(&is_new, &[put("/k", "other")]).unwrap().is_done);
    let seen = other.get(b"/k").unwrap().unwrap();
    let unchanged = [
        Condition::Written(b"/k".to_vec(), seen.mod_revision),
        Condition::Made(b"/k".to_vec(), seen.create_revision),
    ];
    let Outcome { is_done, revision } = one.transact(&unchanged, &[put("/k", "two")]).unwrap();
    assert!(is_done && revision > seen.mod_revision);
    assert!(!other.transact(&unchanged, &[put("/k", "three")]).unwrap().is_done);
    assert_eq!(one.get(b"/k").unwrap().unwrap().value, b"two");
}

#[test]
fn a_lease_lives_while_it_is_kept_alive_and_takes_its_keys_along() {
    let Some(etcd) = Etcd::start() else { return };
    let mut client = client(&etcd);
    let lease = client.grant(2).unwrap();
    let operation = Operation::Put(b"/l".to_vec(), b"v".to_vec(), Some(lease.id));
    let revision = client.transact(&[], &[operation]).unwrap().revision;
    assert_eq!(client.get(b"/l").unwrap().unwrap().lease, Some(lease.id));
    // Twice as long as it would live alone.
    let begun = Instant::now();
    while begun.elapsed().as_secs() < 2 * lease.ttl_s {
        assert_eq!(client.keep_alive(lease.id), Ok(lease.ttl_s));
    }
    assert!(client.get(b"/l").unwrap().is_some());
    let gone = changes(&mut client, "/l", revision + 1, 1);
    assert_eq!(keys_of(&gone), ["/l deleted"]);
    assert_eq!(client.keep_alive(lease.id), Ok(0));
    assert_eq!(client.revoke(lease.id), Err(Error::NoLease));

    let lease = client.grant(60).unwrap();
    client.transact(&[], &[Operation::Put(b"/l".to_vec(), vec![], Some(lease.id))]).unwrap();
    client.revoke(lease.id).unwrap();
    assert_eq!(client.get(b"/l"), Ok(None));
    let put = Operation::Put(b"/l".to_vec(), vec![], Some(LeaseId(lease.id.0)));
    assert_eq!(client.transact(&[], &[put]), Err(Error::NoLease));
}

#[test]
fn a_watch_begins_in_the_past_and_goes_on() {
    let Some(etcd) = Etcd::start() else { return };
    let (mut one, mut other) = (client(&etcd), client(&etcd));
    let first = write(&mut one, "/w/a", "1");
    write(&mut one, "/w/a", "2");
    let writer = std::thread::spawn(move || {
        write(&mut one, "/x", "elsewhere");
        write(&mut one, "/w/b", "3");
        one.transact(&[], &[Operation::Delete(b"/w/a".to_vec())]).unwrap();
    });
    let found = changes(&mut other, "/w/", first, 4);
    assert_eq!(keys_of(&found), ["/w/a=1", "/w/a=2", "/w/b=3", "/w/a deleted"]);
    writer.join().unwrap();
}

#[test]
fn a_watch_of_a_compacted_revision_says_so() {
    let Some(etcd) = Etcd::start() else { return };
    let mut client = client(&etcd);
    let first = write(&mut client, "/c", "1");
    let last = write(&mut client, "/c", "2");
    client.call("kv/compaction", &json!({ "revision": last.to_string() })).unwrap();
    let mut watch = client.watch(b"/c", first).unwrap();
    assert_eq!(watch.next_changes(), Err(Error::Compacted { revision: last }));
    // A listing, and a watch from there on, see everything again.
    let revision = client.list(b"/c").unwrap().revision;
    write(&mut client, "/c", "3");
    assert_eq!(keys_of(&changes(&mut client, "/c", revision + 1, 1)), ["/c=3"]);
}

#[test]
fn an_etcd_that_was_killed_is_used_again_when_it_is_back() {
    let Some(mut etcd) = Etcd::start() else { return };
    let mut client = client(&etcd);
    let revision = write(&mut client, "/k", "kept");
    let mut watch = client.watch(b"/k", revision + 1).unwrap();
    etcd.kill(0);
    let error = client.get(b"/k").unwrap_err();
    let Error::Unavailable { tried } = error else { panic!("{error}") };
    assert!(tried.contains(&etcd.endpoints()[0]), "{tried}");
    assert_eq!(watch.next_changes(), Ok(Seen::End));
    etcd.restart(0);
    assert_eq!(client.get(b"/k").unwrap().unwrap().value, b"kept");
}

#[test]
fn an_etcd_that_hangs_ends_calls_and_watches_in_time() {
    let Some(etcd) = Etcd::start() else { return };
    let mut client = client(&etcd);
    let revision = write(&mut client, "/k", "1");
    let mut watch = client.watch(b"/k", revision + 1).unwrap();
    etcd.pause(0);
    assert!(matches!(client.get(b"/k"), Err(Error::Unavailable { .. })));
    assert_eq!(watch.next_changes(), Ok(Seen::End));
    etcd.resume(0);
    until("etcd answers again", || client.get(b"/k").is_ok());
}

#[test]
fn another_endpoint_answers_when_one_is_killed_or_hangs() {
    let Some(mut etcd) = Etcd::start_with(3, &[]) else { return };
    let mut client = client(&etcd);
    write(&mut client, "/k", "1");
    etcd.kill(0);
    // The others may have to elect a leader first.
    until("another member answers", || client.get(b"/k").is_ok());
    etcd.restart(0);
    etcd.pause(1);
    until("a member that does not hang answers", || client.get(b"/k").is_ok());
    etcd.resume(1);
    // Without a majority there is no answer, and no wrong one.
    etcd.kill(1);
    etcd.kill(2);
    assert!(matches!(client.get(b"/k"), Err(Error::Unavailable { .. })));
}

#[test]
fn users_are_authenticated_and_others_refused() {
    let Some(etcd) = Etcd::start() else { return };
    let mut open = client(&etcd);
    for (call, question) in [
        ("auth/user/add", json!({ "name": "root", "password": "right" })),
        ("auth/role/add", json!({ "name": "root" })),
        ("auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("auth/enable", json!({})),
    ] {
        open.call(call, &question).unwrap();
    }
    assert!(matches!(open.get(b"/k"), Err(Error::Denied { .. })));
    let user = |password: &str| {
        let credentials = Credentials { user: "root".into(), password: password.into() };
        let credentials = Some(credentials);
        Client::new(Options { credentials, ..Options::new(etcd.endpoints()) }).unwrap()
    };
    let error = user("wrong").get(b"/k").unwrap_err();
    assert!(matches!(&error, Error::Denied { .. }), "{error}");
    let mut known = user("right");
    let revision = write(&mut known, "/k", "1");
    let lease = known.grant(5).unwrap();
    assert_eq!(known.keep_alive(lease.id), Ok(5));
    assert_eq!(keys_of(&changes(&mut known, "/k", revision, 1)), ["/k=1"]);
    // A change of the users ends all tokens, and the client gets another one.
    let more = json!({ "name": "reader", "password": "p" });
    known.call("auth/user/add", &more).unwrap();
    write(&mut known, "/k", "2");
    let reader = Credentials { user: "reader".into(), password: "p".into() };
    let options = Options { credentials: Some(reader), ..Options::new(etcd.endpoints()) };
    let error = Client::new(options).unwrap().get(b"/k").unwrap_err();
    assert!(matches!(&error, Error::Denied { .. }), "{error}");
}

#[test]
fn an_etcd_without_its_gateway_is_named() {
    let Some(etcd) = Etcd::start_with(1, &["--enable-grpc-gateway=false"]) else { return };
    let error = client(&etcd).get(b"/k").unwrap_err();
    assert!(matches!(&error, Error::NoGateway { .. }), "{error}");
    assert!(error.to_string().contains("--enable-grpc-gateway"), "{error}");
}
