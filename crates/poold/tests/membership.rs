//! Members of a pool in one process, against a real etcd: they join, lead, vanish, come back.
//! Without an etcd on the machine the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use plasmon_cluster::adoption::Progress;
use plasmon_cluster::{Epoch, Map, NodeLog, NodeState, ProtocolRange, Slot, Suspect};
use plasmon_etcd::{Client, Operation, Options};
use plasmon_membership::adoption_news::KnownAdoptions;
use plasmon_membership::adoptions::Adoption;
use plasmon_membership::commands::{Entry, Order, decode, encode};
use plasmon_membership::usage::{UsageByLife, elsewhere};
use plasmon_membership::{Key, Keys};
use plasmon_poold::clock::now_ms;
use plasmon_poold::identity::{self, Identity};
use plasmon_poold::membership::{Error, Event, Membership, Settings};
use plasmon_proto::pool_adoption::AdoptionRefusal;
use plasmon_testkit::{Etcd, TEST_TIMEOUT};
use tempfile::TempDir;

fn options(etcd: &Etcd) -> Options {
    let watch_timeout = Duration::from_millis(300);
    Options { watch_timeout, ..Options::new(etcd.endpoints()) }
}

/// A member, and what was told of it so far.
struct Node {
    membership: Membership,
    events: Receiver<Event>,
    map: Arc<Map>,
    lease_until_ms: Option<u64>,
    refusal: Option<String>,
    leads: bool,
    known: KnownAdoptions,
    usage: Arc<UsageByLife>,
    answers: BTreeMap<u64, Result<(), AdoptionRefusal>>,
    fenced: usize,
    waiting: BTreeSet<Slot>,
}

impl Node {
    fn start(etcd: &Etcd, folder: &Path, name: &str) -> Self {
        Self::try_start(etcd, folder, name).unwrap()
    }

    fn try_start(etcd: &Etcd, folder: &Path, name: &str) -> Result<Self, Error> {
        let settings = Settings {
            etcd: options(etcd),
            cluster: "test".to_owned(),
            ttl_ms: 2000,
            out_after_ms: 300,
            boot: 1,
            addresses: vec!["127.0.0.1:1".to_owned()],
            zone: String::new(),
            weight: 1,
            log: NodeLog::Open,
            protocol: ProtocolRange { min: 1, max: 1 },
        };
        let (sender, events) = channel();
        let sink = Arc::new(move |event| _ = sender.send(event));
        let membership = Membership::start(settings, Identity::open(folder, name)?, sink)?;
        let (map, lease_until_ms, refusal) = (Arc::new(Map::default()), None, None);
        let (known, answers) = (KnownAdoptions::default(), BTreeMap::new());
        let (leads, fenced, waiting) = (false, 0, BTreeSet::new());
        Ok(Self {
            membership,
            events,
            map,
            lease_until_ms,
            refusal,
            leads,
            known,
            usage: Arc::default(),
            answers,
            fenced,
            waiting,
        })
    }

    /// Takes what was told until something holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !holds(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|_| panic!("waited too long until {what}"));
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Lease { until_ms } => self.lease_until_ms = Some(until_ms),
            Event::LeaseLost => self.lease_until_ms = None,
            Event::Map(map) => {
                assert!(map.epoch() >= self.map.epoch(), "maps come in order");
                self.map = map;
            }
            Event::Fenced => {
                self.fenced += 1;
                self.lease_until_ms = None;
            }
            Event::Waiting(waiting) => self.waiting = waiting,
            Event::Refused(reason) => self.refusal = Some(reason),
            Event::Leads => self.leads = true,
            Event::Adoptions(known) => {
                assert!(known.revision > self.known.revision, "they come in order");
                self.known = known;
            }
            Event::Usage(usage) => self.usage = usage,
            Event::AdoptionAnswered { number, result } => {
                assert!(self.answers.insert(number, result).is_none(), "one answer");
            }
            // What does not work for now is seen by what follows from it.
            Event::Trouble(_) => {}
        }
    }

    /// What a node is, by the map that this one has.
    fn state_of(&self, other: &Membership) -> Option<NodeState> {
        self.map.node(self.map.slot_of(other.uuid())?).map(|node| node.state)
    }

    /// The start of another node, as one that this node does not reach.
    fn suspect(&self, other: &Membership) -> Suspect {
        let slot = self.map.slot_of(other.uuid()).unwrap();
        Suspect { slot, incarnation: other.incarnation() }
    }

    fn is_live(&self) -> bool {
        let slot = self.map.slot_of(self.membership.uuid());
        let node = slot.and_then(|slot| self.map.node(slot));
        let own = self.membership.incarnation();
        node.is_some_and(|node| node.is_live() && node.member.incarnation == own)
    }

    /// What is known of the namespace `@app`, and in which revision it was written.
    fn adoption(&self) -> Option<(Adoption, u64)> {
        let seen = self.known.adoptions.get("@app")?;
        Some((seen.adoption, seen.revision.unsigned_abs()))
    }

    /// Waits until the namespace has ended. In which revision it did.
    fn ended(&mut self) -> u64 {
        self.until("the adoption has ended", |node| {
            node.adoption().is_some_and(|(adoption, _)| adoption == Adoption::Ended)
        });
        self.adoption().unwrap().1
    }

    /// Says that its store goes by everything that is known, and has nothing of what has ended.
    fn sweep(&self) {
        let revision = self.known.revision.unsigned_abs();
        self.membership.swept(Progress { seen: revision, swept: revision });
    }

    /// The answer to an adoption.
    fn answer(&mut self, number: u64) -> Result<(), AdoptionRefusal> {
        self.until("the adoption is answered", |node| node.answers.contains_key(&number));
        self.answers.remove(&number).unwrap()
    }

    fn joined(&mut self) {
        self.until("the node takes part", |node| {
            node.is_live() && node.lease_until_ms.is_some_and(|until_ms| until_ms > now_ms())
        });
    }
}

fn folders(count: usize) -> Vec<TempDir> {
    (0..count).map(|_| tempfile::tempdir().unwrap()).collect()
}

#[test]
fn a_log_that_fails_is_in_the_map_and_its_node_keeps_its_lease() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    one.joined();
    two.joined();
    two.membership.log_failed();
    let uuid = two.membership.uuid();
    let since = |node: &Node| node.map.slot_of(uuid).map(|slot| node.map.node(slot).unwrap().since);
    one.until("both are in the map", |node| since(node).is_some());
    let before = since(&one);
    one.until("the map says that the log has failed", |node| {
        let slot = node.map.slot_of(uuid);
        let found = slot.and_then(|slot| node.map.node(slot));
        found.is_some_and(|found| found.is_live() && found.member.log == NodeLog::Failed)
    });
    assert_eq!(since(&one), before, "it did not start again");
    two.joined();
}

#[test]
fn members_join_vanish_are_given_up_and_come_back() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(3);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    one.joined();
    assert!(one.leads, "the first node leads");
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    let mut three = Node::start(&etcd, folders[2].path(), "three");
    two.joined();
    three.joined();
    assert_eq!(one.membership.cluster(), three.membership.cluster());
    let snapshot = plasmon_membership::snapshot(
        &mut Client::new(options(&etcd)).unwrap(),
        &Keys::new("test").unwrap(),
    )
    .unwrap();
    assert_eq!(snapshot.leader, Some(one.membership.uuid()));
    assert_eq!(snapshot.present.len(), 3);
    assert_eq!(snapshot.map.map(|map| map.nodes().count()), Some(3));

    // All lead groups; their reports settle what joined later.
    one.until("all are in the map", |node| node.map.nodes().count() == 3);
    report_until_settled(&mut [&mut one, &mut two, &mut three]);

    // The second one vanishes, as a process that is killed does: the lease ends by itself.
    let lost = two.map.slot_of(two.membership.uuid()).unwrap();
    let led: Vec<_> = one.map.groups().filter(|(_, group)| group.primary() == Some(lost)).collect();
    let led: Vec<_> = led.into_iter().map(|(number, _)| number).collect();
    assert!(!led.is_empty());
    let (uuid, was) = (two.membership.uuid(), two.membership.incarnation());
    drop(two.membership);
    one.until("the node is down", |node| {
        node.map.node(lost).is_some_and(|node| node.state != NodeState::Up)
    });
    let promoted = |map: &Map| led.iter().all(|group| map.primary(*group) != Some(lost));
    assert!(promoted(&one.map), "in the same map others lead its groups");
    three.until("the node is out", |node| {
        node.map.node(lost).is_some_and(|node| node.state == NodeState::Out)
    });

    let mut two = Node::start(&etcd, folders[1].path(), "two");
    two.joined();
    assert_eq!((two.membership.uuid(), two.map.slot_of(uuid)), (uuid, Some(lost)));
    assert_ne!(two.membership.incarnation(), was);

    // The first one led. It leaves, and that is known at once and another node leads.
    let first = one.membership.uuid();
    one.membership.leave().unwrap();
    let slot = two.map.slot_of(first).unwrap();
    let is_gone = |node: &Node| !node.map.is_live(slot);
    two.until("the node that left is gone", is_gone);
    three.until("the node that left is gone", is_gone);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !two.leads && !three.leads {
        assert!(Instant::now() < deadline, "no node leads");
        for node in [&mut two, &mut three] {
            if let Ok(event) = node.events.recv_timeout(Duration::from_millis(20)) {
                node.take(event);
            }
        }
    }
}

/// Two nodes that did not reach each other both held their leases, and nothing was decided.
#[test]
fn of_two_nodes_that_miss_each_other_one_ends_its_lease_and_waits() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(3);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    one.joined();
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    two.joined();
    let mut three = Node::start(&etcd, folders[2].path(), "three");
    three.joined();
    report_until_settled(&mut [&mut one, &mut two, &mut three]);
    let slot = one.map.slot_of(three.membership.uuid()).unwrap();
    let lease = |node: &Node| node.lease_until_ms.is_some_and(|until_ms| until_ms > now_ms());

    one.membership.report_suspects(vec![]);
    two.membership.report_suspects(vec![two.suspect(&three.membership)]);
    three.membership.report_suspects(vec![three.suspect(&two.membership)]);
    three.until("it is fenced", |node| node.fenced == 1);
    // Nothing is promoted while it may go on.
    assert!(one.map.is_live(slot));
    three.membership.stopped();
    one.until("it is down", |node| !node.map.is_live(slot));
    three.until("it has a lease again", lease);
    one.until("it waits", |node| node.waiting.contains(&slot));
    let snapshot = plasmon_membership::snapshot(
        &mut Client::new(options(&etcd)).unwrap(),
        &Keys::new("test").unwrap(),
    );
    let nodes = snapshot.unwrap().nodes();
    assert_eq!(nodes[usize::from(slot.0)].unreached, ["two"]);
    assert_ne!(nodes[usize::from(slot.0)].state, plasmon_proto::pool_status::NodeState::Up);

    for node in [&two, &three] {
        node.membership.report_suspects(vec![]);
    }
    three.joined();
    two.until("it is live", |node| node.map.is_live(slot));
    assert_eq!((one.fenced, two.fenced, three.fenced), (0, 0, 1));
    assert_eq!(three.map.node(slot).unwrap().member.incarnation, three.membership.incarnation());
}

/// A node whose core hangs does not say that it has stopped: its lease ends all the same.
#[test]
fn a_fenced_node_that_says_nothing_ends_its_lease_when_its_clock_has_run_out() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    one.joined();
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    two.joined();
    report_until_settled(&mut [&mut one, &mut two]);
    one.membership.report_suspects(vec![one.suspect(&two.membership)]);
    two.membership.report_suspects(vec![]);
    two.until("it is fenced", |node| node.fenced == 1);
    let slot = one.map.slot_of(two.membership.uuid()).unwrap();
    one.until("it is down", |node| !node.map.is_live(slot));
    one.membership.report_suspects(vec![]);
    two.joined();
    assert_eq!((one.fenced, two.fenced), (0, 1));
}

/// Reports for all groups of each map, as nodes do that have all records, until all are settled.
fn report_until_settled(nodes: &mut [&mut Node]) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let count = nodes.len();
    let is_settled = |map: &Map| {
        map.groups().all(|(_, group)| group.is_settled() && group.acting.len() == count)
    };
    let mut reported = vec![Epoch(0); count];
    while !nodes.iter().all(|node| is_settled(&node.map)) {
        assert!(Instant::now() < deadline, "not all groups are settled");
        for (node, reported) in nodes.iter_mut().zip(&mut reported) {
            if node.map.epoch() > *reported {
                *reported = node.map.epoch();
                let own = node.map.slot_of(node.membership.uuid());
                for (number, group) in node.map.groups() {
                    if group.primary() == own {
                        node.membership.report(number, group.since);
                    }
                }
            }
            if let Ok(event) = node.events.recv_timeout(Duration::from_millis(20)) {
                node.take(event);
            }
        }
    }
}

#[test]
fn a_node_stops_before_its_lease_ends_and_goes_on_with_the_newest_map() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    one.joined();
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    two.joined();
    etcd.pause(0);
    one.until("the lease is lost", |node| node.lease_until_ms.is_none());
    two.until("the lease is lost", |node| node.lease_until_ms.is_none());
    let epoch = one.map.epoch();
    etcd.resume(0);
    one.joined();
    two.joined();
    assert!(one.map.epoch() >= epoch && two.map.epoch() >= epoch);
    // Both go on as what they were.
    one.until("the other one is up", |node| node.state_of(&two.membership) == Some(NodeState::Up));
}

#[test]
fn an_order_to_forget_a_node_is_carried_out_or_refused() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let mut one = Node::start(&etcd, folders[0].path(), "one");
    one.joined();
    let mut two = Node::start(&etcd, folders[1].path(), "two");
    two.joined();
    let slot = two.map.slot_of(two.membership.uuid()).unwrap();
    one.until("the other one is there", |node| node.map.is_live(slot));
    let (mut client, keys) = (Client::new(options(&etcd)).unwrap(), Keys::new("test").unwrap());
    let key = keys.of(Key::Command(slot));
    let order = Operation::Put(key.clone(), encode(&Entry::Asked(Order::Forget)), None);

    client.transact(&[], std::slice::from_ref(&order)).unwrap();
    let refused = loop {
        let value = client.get(&key).unwrap().expect("a refusal stays").value;
        match decode(&value).unwrap() {
            Entry::Asked(_) => std::thread::yield_now(),
            Entry::Refused(reason) => break reason,
        }
    };
    assert!(refused.contains("holds its lease"), "{refused}");

    two.membership.leave().unwrap();
    one.until("the node is gone", |node| !node.map.is_live(slot));
    client.transact(&[], &[order]).unwrap();
    one.until("the node is forgotten", |node| node.map.node(slot).is_none());
    assert_eq!(client.get(&key), Ok(None), "the order went with the map that shows it");
}

#[test]
fn a_name_that_is_taken_is_refused_with_a_sentence() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let mut one = Node::start(&etcd, folders[0].path(), "same");
    one.joined();
    let mut other = Node::start(&etcd, folders[1].path(), "same");
    other.until("the node is refused", |node| node.refusal.is_some());
    assert!(other.refusal.unwrap().contains("same"));
}

#[test]
fn a_restarted_node_does_not_wait_for_the_lease_of_its_last_start() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(1);
    let mut first = Node::start(&etcd, folders[0].path(), "one");
    first.joined();
    let locked = Node::try_start(&etcd, folders[0].path(), "one");
    assert!(matches!(locked, Err(Error::Identity(identity::Error::Locked { .. }))));
    drop(first);
    let mut again = Node::start(&etcd, folders[0].path(), "one");
    again.joined();
    let members = Client::new(options(&etcd)).unwrap().list(b"/plasmon/test/members/").unwrap();
    assert_eq!(members.kvs.len(), 1, "the member of the last start is gone");
}

#[test]
fn an_etcd_that_lost_its_data_is_not_led() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(1);
    let mut node = Node::start(&etcd, folders[0].path(), "one");
    node.joined();
    let epoch = node.map.epoch();
    let mut client = Client::new(options(&etcd)).unwrap();
    let lost = [&b"/plasmon/test/id"[..], b"/plasmon/test/map"];
    let deletes = lost.map(|key| Operation::Delete(key.to_vec()));
    client.transact(&[], &deletes).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match node.events.recv_timeout(left).unwrap() {
            Event::Trouble(trouble) if trouble.contains("lost the data") => break,
            Event::Map(map) => assert!(map.epoch() > epoch),
            _ => {}
        }
    }
    assert_eq!(client.get(b"/plasmon/test/map"), Ok(None));
    drop(node);
    let again = Node::try_start(&etcd, folders[0].path(), "one");
    assert!(matches!(again, Err(Error::Identity(identity::Error::OtherCluster { .. }))));
}

#[test]
fn a_namespace_is_adopted_once_all_live_nodes_know_and_ends_with_its_session_or_node() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(3);
    let start = |at: usize, name| Node::start(&etcd, folders[at].path(), name);
    let mut nodes = [start(0, "one"), start(1, "two"), start(2, "three")];
    nodes.iter_mut().for_each(Node::joined);
    let [mut one, mut two, mut three] = nodes;
    one.until("all are in the map", |node| node.map.nodes().count() == 3);

    two.membership.adopt(1, "@app".to_owned(), 5, 0);
    for node in [&mut one, &mut two, &mut three] {
        node.until("it is adopted", |node| node.adoption().is_some());
    }
    // Another session of the same node is another program.
    two.membership.adopt(2, "@app".to_owned(), 6, 0);
    assert_eq!(two.answer(2), Err(AdoptionRefusal::Exists));
    assert!(two.answers.is_empty(), "not every node has seen it");
    [&one, &two, &three].into_iter().for_each(Node::sweep);
    assert_eq!(two.answer(1), Ok(()));
    two.membership.adopt(3, "@app".to_owned(), 5, 0);
    assert_eq!(two.answer(3), Ok(()), "it has it");

    // The end of another session is none of it.
    two.membership.orphaned("@app".to_owned(), 6);
    two.membership.orphaned("@app".to_owned(), 5);
    let ended = one.ended();
    three.ended();
    one.sweep();
    two.ended();
    two.sweep();
    one.membership.adopt(2, "@app".to_owned(), 7, 0);
    three.sweep();
    one.until("it is adopted again", |node| node.adoption().is_some_and(|(_, at)| at > ended));
    for node in [&mut two, &mut three] {
        node.until("they know", |node| node.adoption().is_some_and(|(_, at)| at > ended));
    }
    [&one, &two, &three].into_iter().for_each(Node::sweep);
    assert_eq!(one.answer(2), Ok(()));

    // A node that comes back with its store has not ended anything; one that is out has.
    let adopted = one.adoption();
    drop(one.membership);
    let mut one = start(0, "one");
    one.joined();
    one.until("it is known", |node| node.adoption().is_some());
    assert_eq!(one.adoption(), adopted);
    drop(one.membership);
    let ended = two.ended();
    assert!(ended > adopted.unwrap().1);
    two.sweep();
    three.ended();
    three.sweep();
    two.membership.adopt(4, "@app".to_owned(), 9, 0);
    for node in [&mut two, &mut three] {
        node.until("it is adopted", |node| node.adoption().is_some_and(|(_, at)| at > ended));
    }
    two.sweep();
    three.sweep();
    assert_eq!(two.answer(4), Ok(()), "a node that is out is not waited for");
}

#[test]
fn a_limit_is_changed_by_its_session_and_what_nodes_have_is_known_until_they_are_gone() {
    let Some(etcd) = Etcd::start() else { return };
    let folders = folders(2);
    let start = |at: usize, name| Node::start(&etcd, folders[at].path(), name);
    let mut nodes = [start(0, "one"), start(1, "two")];
    nodes.iter_mut().for_each(Node::joined);
    let [mut one, mut two] = nodes;
    one.until("both are in the map", |node| node.map.nodes().count() == 2);
    for (number, bytes_max) in [(1, 100), (2, 200), (3, 0), (4, 300)] {
        two.membership.adopt(number, "@app".to_owned(), 5, bytes_max);
        for node in [&mut one, &mut two] {
            node.until("the limit is known", |node| {
                let limit = node.adoption().map(|(adoption, _)| adoption.limit());
                limit == Some(Some(bytes_max).filter(|max| *max > 0))
            });
            node.sweep();
        }
        assert_eq!(two.answer(number), Ok(()));
    }

    let two_uuid = two.membership.uuid();
    let has = |node: &Node, bytes| elsewhere(&node.usage, node.membership.uuid(), "@app") == bytes;
    for bytes in [70, 80, 0, 90] {
        two.membership.used("@app".to_owned(), bytes);
        one.until("what the other node has is known", |node| has(node, bytes));
    }
    // Of a namespace without a limit nothing is said.
    two.membership.used("@other".to_owned(), 7);
    one.membership.used("@app".to_owned(), 5);
    two.until("both are known", |node| {
        has(node, 5) && elsewhere(&node.usage, one.membership.uuid(), "@app") == 90
    });
    assert_eq!(elsewhere(&two.usage, one.membership.uuid(), "@other"), 0);
    // It goes with the lease of its node, and not before.
    drop(two.membership);
    one.until("the other node is gone", |node| {
        let slot = node.map.slot_of(two_uuid);
        slot.is_none_or(|slot| !node.map.is_live(slot))
    });
    one.until("so are its figures", |node| has(node, 0));
}
