//! Regions: whole nodes that send each other what they say, and memory that is a few strings.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use plasmon_cluster::leader::{Leader, Observation};
use plasmon_cluster::{Map, Member, NodeUuid, ProtocolRange, Reach, Slot};
use plasmon_proto::region::{RegionFailure, RegionReply, RegionRequest};
use plasmon_proto::{Code, ObjectId};
use plasmon_testkit::Random;

use crate::config::Config;
use crate::event::{Effect, Event};
use crate::limits::{REGION_ASKS_MAX, REGIONS_MAX, RETRY_MS, UNREACHABLE_MS};
use crate::message::{Envelope, InlineBytes};
use crate::node::Node;
use crate::time::Mono;

const NODES: usize = 3;

/// Node 1 is the home of all regions of these tests.
const HOME: usize = 1;

const BYTES: u64 = 1000;

fn id(number: u64) -> ObjectId {
    let mut identity = [0; 12];
    identity[..8].copy_from_slice(&number.to_be_bytes());
    ObjectId::pooled(identity, Some(HOME as u16))
}

fn allocate(number: u64) -> RegionRequest {
    RegionRequest::Allocate { id: id(number), bytes: BYTES, copies: 1, copies_min: 1 }
}

fn write(offset: u64, bytes: &[u8]) -> RegionRequest {
    RegionRequest::Write { id: id(1), offset, bytes: InlineBytes(bytes.to_vec()) }
}

fn seal() -> RegionRequest {
    RegionRequest::Seal { id: id(1) }
}

fn free(is_abandoned: bool) -> RegionRequest {
    RegionRequest::Free { id: id(1), is_abandoned }
}

const LOOK: RegionRequest = RegionRequest::Look { id: ObjectId::pooled([0; 12], Some(1)) };

fn look() -> RegionRequest {
    RegionRequest::Look { id: id(1) }
}

fn failed(failure: RegionFailure) -> RegionReply {
    RegionReply::Failed(failure)
}

/// What a store was asked to make, and has not answered.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    Allocate(ObjectId),
    Seal(ObjectId),
}

struct Bench {
    now: Mono,
    nodes: Vec<Node>,
    leader: Leader,
    members: Vec<Member>,
    map: Arc<Map>,
    /// What is on its way, to whom.
    sent: VecDeque<(usize, Envelope)>,
    cut: BTreeSet<(usize, usize)>,
    memory: BTreeMap<ObjectId, Vec<u8>>,
    sealed: BTreeMap<ObjectId, Vec<u8>>,
    work: Vec<Work>,
    replies: BTreeMap<u64, RegionReply>,
    last: u64,
    /// Whether the store does at once what it is asked.
    is_quick: bool,
}

fn member(at: usize, incarnation: u64) -> Member {
    Member {
        uuid: NodeUuid([at as u8 + 1; 16]),
        name: format!("n{at}"),
        incarnation,
        boot: 1,
        addresses: vec!["10.0.0.1:1".to_owned()],
        zone: String::new(),
        weight: 1,
        log: plasmon_cluster::NodeLog::Absent,
        protocol: ProtocolRange { min: 3, max: 3 },
    }
}

impl Bench {
    fn new() -> Self {
        let node = |at| Node::new(Config::new(Slot(at as u16), 1, 1, 1 << 30));
        let mut bench = Self {
            now: Mono(1_000_000),
            nodes: (0..NODES).map(node).collect(),
            leader: Leader::new(1_000),
            members: (0..NODES).map(|at| member(at, 1)).collect(),
            map: Arc::new(Map::default()),
            sent: VecDeque::new(),
            cut: BTreeSet::new(),
            memory: BTreeMap::new(),
            sealed: BTreeMap::new(),
            work: Vec::new(),
            replies: BTreeMap::new(),
            last: 0,
            is_quick: true,
        };
        bench.lead();
        for at in 0..NODES {
            for peer in (0..NODES).filter(|peer| *peer != at) {
                bench.give(at, Event::Link { peer: Slot(peer as u16), up: true });
            }
        }
        bench.deliver();
        bench
    }

    /// The leader looks at the members.
    fn lead(&mut self) {
        let seen = Observation {
            map: &self.map,
            members: &self.members,
            activations: &[],
            drained: &[],
            commands: &[],
            reach: Reach::default(),
        };
        let decision = self.leader.step(self.now.0 / 1000, &seen);
        if let Some(map) = decision.proposal {
            self.map = Arc::new(map);
            for at in 0..NODES {
                self.give(at, Event::Map(self.map.clone()));
            }
        }
        self.deliver();
    }

    fn give(&mut self, at: usize, event: Event) {
        let mut effects = Vec::new();
        self.nodes[at].step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, envelope } => {
                    let to = usize::from(to.0);
                    // Every message goes through its bytes.
                    let bytes = envelope.encode().unwrap();
                    if !self.cut.contains(&(at, to)) {
                        self.sent.push_back((to, Envelope::decode(&bytes).unwrap()));
                    }
                }
                Effect::Allocate { id, .. } => {
                    assert_eq!(id.home(), Some(at as u16));
                    self.work.push(Work::Allocate(id));
                }
                Effect::WriteRegion { id, offset, bytes } => {
                    let memory = self.memory.get_mut(&id).expect("its memory is there");
                    memory[offset as usize..][..bytes.0.len()].copy_from_slice(&bytes.0);
                }
                Effect::SealRegion(id) => self.work.push(Work::Seal(id)),
                Effect::EndRegion(id) => {
                    self.memory.remove(&id).expect("its memory is there");
                }
                Effect::Region { number, reply } => {
                    assert!(self.replies.insert(number, reply).is_none(), "one answer each");
                }
                _ => {}
            }
        }
    }

    /// Delivers everything, and has the store do what it is asked.
    fn deliver(&mut self) {
        loop {
            if let Some((to, envelope)) = self.sent.pop_front() {
                self.give(to, Event::Peer(envelope));
            } else if self.is_quick && !self.work.is_empty() {
                self.work(Ok(()));
            } else {
                return;
            }
        }
    }

    /// The store does one thing, or refuses.
    fn work(&mut self, result: Result<(), Code>) {
        let event = match self.work.remove(0) {
            Work::Allocate(id) => {
                if result.is_ok() {
                    self.memory.insert(id, vec![0; BYTES as usize]);
                }
                Event::Allocated { id, result }
            }
            Work::Seal(id) => {
                let memory = self.memory.remove(&id).unwrap();
                if result.is_ok() {
                    self.sealed.insert(id, memory);
                }
                Event::RegionSealed { id, is_sealed: result.is_ok(), result }
            }
        };
        self.give(HOME, event);
        self.deliver();
    }

    /// A program of a node asks; the number of its question.
    fn begin(&mut self, at: usize, owner: u64, request: RegionRequest) -> u64 {
        self.last += 1;
        let number = self.last;
        self.give(at, Event::Region { number, owner, request });
        self.deliver();
        number
    }

    fn ask(&mut self, at: usize, request: RegionRequest) -> RegionReply {
        let number = self.begin(at, 7, request);
        self.replies.remove(&number).expect("it is answered")
    }

    /// Time passes, in which nodes do what is due.
    fn pass(&mut self, ms: u64) {
        let until = self.now.after_ms(ms);
        while self.now < until {
            self.now = self.now.after_ms(50);
            for at in 0..NODES {
                if self.nodes[at].next_deadline().is_some_and(|due| due <= self.now) {
                    self.give(at, Event::Time);
                }
            }
            self.deliver();
        }
    }

    fn link(&mut self, one: usize, other: usize, up: bool) {
        for (at, peer) in [(one, other), (other, one)] {
            if up {
                self.cut.remove(&(at, peer));
            } else {
                self.cut.insert((at, peer));
            }
            self.give(at, Event::Link { peer: Slot(peer as u16), up });
        }
        self.deliver();
    }
}

#[test]
fn nodes_write_a_region_at_random_places_and_it_is_sealed_with_the_last_bytes() {
    for seed in 0..20 {
        let (mut bench, mut dice) = (Bench::new(), Random::new(seed));
        let owner = dice.size_below(NODES);
        assert_eq!(bench.ask(owner, allocate(1)), RegionReply::Done);
        let mut wanted = vec![0; BYTES as usize];
        for _ in 0..200 {
            let at = dice.size_below(wanted.len() + 1);
            let piece: Vec<u8> = (0..dice.size_below(100)).map(|_| dice.below(256) as u8).collect();
            let reply = bench.ask(dice.size_below(NODES), write(at as u64, &piece));
            match wanted.get_mut(at..at + piece.len()) {
                Some(place) => {
                    assert_eq!(reply, RegionReply::Done);
                    place.copy_from_slice(&piece);
                }
                None => assert_eq!(reply, failed(RegionFailure::Beyond { bytes: BYTES })),
            }
        }
        assert_eq!(bench.ask(dice.size_below(NODES), look()), RegionReply::Open { bytes: BYTES });
        assert_eq!(bench.ask(dice.size_below(NODES), seal()), RegionReply::Done);
        assert_eq!(bench.sealed[&id(1)], wanted);
        for request in [seal(), write(0, &[1]), look(), free(false), allocate(1)] {
            let reply = bench.ask(dice.size_below(NODES), request);
            assert_eq!(reply, failed(RegionFailure::Sealed));
        }
        // Its owner is told, and frees nothing when it ends.
        bench.give(owner, Event::RegionOwnerGone(7));
        bench.deliver();
        assert_eq!(bench.sealed[&id(1)], wanted);
    }
}

#[test]
fn hostile_offsets_and_addresses_are_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    for offset in [BYTES, BYTES - 1, u64::MAX, u64::MAX - 1, 1 << 63] {
        let reply = bench.ask(2, write(offset, &[1, 2]));
        assert_eq!(reply, failed(RegionFailure::Beyond { bytes: BYTES }), "{offset}");
    }
    assert_eq!(bench.ask(2, write(BYTES - 2, &[1, 2])), RegionReply::Done);
    assert_eq!(bench.ask(2, write(BYTES, &[])), RegionReply::Done, "nothing at the end");
    assert_eq!(bench.ask(2, LOOK), failed(RegionFailure::Unknown), "an address of no region");
    for slot in [NODES as u16, u16::MAX - 1] {
        let id = ObjectId::pooled([1; 12], Some(slot));
        let reply = bench.ask(2, RegionRequest::Seal { id });
        assert_eq!(reply, failed(RegionFailure::NoNode), "slot {slot}");
    }
    // A peer that asks for what another node is the home of.
    let (from, incarnation, epoch) = (Slot(2), 1, bench.map.epoch());
    let question = crate::message::QuestionNo(5);
    let stray = crate::Message::Region { question, request: seal() };
    let envelope = Envelope { epoch, from, incarnation, messages: vec![stray] };
    bench.give(0, Event::Peer(envelope));
    bench.deliver();
    assert!(bench.sealed.is_empty());
    // One that allocates what is there, or answers what was not asked of it.
    assert_eq!(bench.ask(2, allocate(1)), failed(RegionFailure::Refused(Code::Exists)));
    assert_eq!(bench.ask(0, look()), RegionReply::Open { bytes: BYTES });
}

#[test]
fn a_region_that_was_freed_is_told_apart_from_one_that_its_allocator_left() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    assert_eq!(bench.ask(2, free(false)), RegionReply::Done);
    assert!(bench.memory.is_empty());
    for request in [free(false), seal(), write(0, &[1]), look(), allocate(1)] {
        assert_eq!(bench.ask(1, request), failed(RegionFailure::Freed));
    }
    for (number, owner) in [(2, 7), (3, 7), (4, 8)] {
        let asked = bench.begin(0, owner, allocate(number));
        assert_eq!(bench.replies.remove(&asked), Some(RegionReply::Done));
    }
    bench.give(0, Event::RegionOwnerGone(7));
    bench.deliver();
    let left: Vec<_> = bench.memory.keys().copied().collect();
    assert_eq!(left, [id(4)]);
    let reply = bench.ask(2, RegionRequest::Seal { id: id(2) });
    assert_eq!(reply, failed(RegionFailure::AllocatorGone));
    assert!(bench.nodes.iter().all(Node::is_idle));
}

/// What a store refuses, and what ends before its memory is there.
#[test]
fn memory_that_comes_late_or_never() {
    let mut bench = Bench::new();
    bench.is_quick = false;
    let asked = bench.begin(0, 7, allocate(1));
    // It is asked again for as long as the store makes room.
    bench.pass(2 * UNREACHABLE_MS);
    assert!(bench.replies.is_empty());
    assert_eq!(bench.ask(0, write(0, &[1])), failed(RegionFailure::Unknown));
    bench.work(Err(Code::StoreFull));
    assert_eq!(bench.replies[&asked], failed(RegionFailure::Refused(Code::StoreFull)));
    assert_eq!(bench.ask(2, look()), failed(RegionFailure::Refused(Code::StoreFull)));

    bench.begin(0, 7, allocate(2));
    bench.give(0, Event::RegionOwnerGone(7));
    bench.deliver();
    bench.work(Ok(()));
    assert!(bench.memory.is_empty(), "it is given back as soon as it is there");
    bench.pass(2 * RETRY_MS);
    assert!(bench.nodes.iter().all(Node::is_idle) && bench.work.is_empty());
}

#[test]
fn a_seal_is_answered_by_the_store_once_for_all_that_asked() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    bench.is_quick = false;
    let (one, other) = (bench.begin(0, 7, seal()), bench.begin(2, 7, seal()));
    let freed = bench.begin(2, 7, free(false));
    assert_eq!(bench.work, [Work::Seal(id(1))]);
    assert_eq!(bench.ask(1, write(0, &[1])), failed(RegionFailure::Sealed));
    // Its allocator may go meanwhile.
    bench.give(0, Event::RegionOwnerGone(7));
    bench.pass(UNREACHABLE_MS + RETRY_MS);
    assert_eq!(bench.work, [Work::Seal(id(1))]);
    assert!(bench.replies.is_empty());
    bench.work(Ok(()));
    assert_eq!(bench.replies[&one], RegionReply::Done);
    assert_eq!(bench.replies[&other], RegionReply::Done);
    bench.pass(RETRY_MS);
    assert_eq!(bench.replies[&freed], failed(RegionFailure::Sealed), "it is an object now");

    bench.begin(0, 7, allocate(2));
    bench.work(Ok(()));
    let refused = bench.begin(2, 7, RegionRequest::Seal { id: id(2) });
    bench.work(Err(Code::NotEnoughNodes));
    let reply = failed(RegionFailure::Refused(Code::NotEnoughNodes));
    assert_eq!(bench.replies[&refused], reply);
    assert_eq!(bench.ask(0, RegionRequest::Look { id: id(2) }), reply);
}

#[test]
fn a_connection_that_is_lost_interrupts_writes_and_the_rest_is_asked_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    bench.cut.insert((HOME, 2));
    let (written, sealed) = (bench.begin(2, 7, write(3, &[9])), bench.begin(2, 7, seal()));
    assert!(bench.replies.is_empty(), "the answers were lost");
    assert_eq!(bench.sealed[&id(1)][3], 9);
    bench.link(2, HOME, false);
    assert_eq!(bench.replies[&written], failed(RegionFailure::Interrupted));
    assert_eq!(bench.ask(2, write(3, &[9])), failed(RegionFailure::Interrupted));
    bench.link(2, HOME, true);
    assert_eq!(bench.replies[&sealed], RegionReply::Done, "it is the same seal");
    assert_eq!(bench.ask(2, write(3, &[9])), failed(RegionFailure::Sealed));
}

#[test]
fn a_home_that_does_not_answer_is_unreachable_and_one_that_is_out_lost() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    bench.link(0, HOME, false);
    bench.link(2, HOME, false);
    let sealed = bench.begin(2, 7, seal());
    let allocated = bench.begin(0, 7, allocate(2));
    bench.pass(UNREACHABLE_MS - RETRY_MS);
    assert!(bench.replies.is_empty());
    bench.pass(3 * RETRY_MS);
    assert_eq!(bench.replies[&sealed], failed(RegionFailure::Unreachable));
    assert_eq!(bench.replies[&allocated], failed(RegionFailure::Unreachable));

    // What may have been allocated is given up when the home is back.
    bench.link(0, HOME, true);
    bench.pass(2 * RETRY_MS);
    assert_eq!(bench.memory.len(), 1);
    bench.link(0, HOME, false);
    let sealed = bench.begin(2, 7, seal());
    bench.members.remove(HOME);
    bench.lead();
    bench.pass(2_000);
    bench.lead();
    assert_eq!(bench.replies[&sealed], failed(RegionFailure::Lost));
    assert_eq!(bench.ask(0, write(0, &[1])), failed(RegionFailure::Lost));
    // Nothing is left to give up.
    bench.give(0, Event::RegionOwnerGone(7));
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn regions_end_with_the_node_that_allocated_them_when_it_starts_again_or_is_given_up() {
    for is_given_up in [false, true] {
        let mut bench = Bench::new();
        assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
        assert_eq!(bench.ask(2, allocate(2)), RegionReply::Done);
        bench.link(0, HOME, false);
        bench.pass(5_000);
        assert_eq!(bench.memory.len(), 2, "a connection that is lost ends nothing");
        match is_given_up {
            true => drop(bench.members.remove(0)),
            false => bench.members[0].incarnation = 2,
        }
        bench.lead();
        assert_eq!(bench.memory.len(), if is_given_up { 2 } else { 1 }, "it is down at first");
        bench.pass(2_000);
        bench.lead();
        assert_eq!(bench.memory.keys().collect::<Vec<_>>(), [&id(2)]);
        assert_eq!(bench.ask(2, look()), failed(RegionFailure::AllocatorGone));
    }
}

/// A home that was given up and came back had its regions still. Their allocators were told that
/// they are lost, and nothing told the home when these ended: the memory stayed.
#[test]
fn a_home_that_comes_back_after_it_was_given_up_ends_what_was_said_to_be_lost() {
    for is_owner_gone in [false, true] {
        let mut bench = Bench::new();
        assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
        bench.link(0, HOME, false);
        let allocated = bench.begin(0, 7, allocate(2));
        let home = bench.members.remove(HOME);
        bench.lead();
        bench.pass(2_000);
        bench.lead();
        assert_eq!(bench.replies[&allocated], failed(RegionFailure::Lost));
        assert_eq!(bench.ask(0, write(0, &[1])), failed(RegionFailure::Lost));
        if is_owner_gone {
            bench.give(0, Event::RegionOwnerGone(7));
        }
        assert_eq!(bench.memory.len(), 1, "it knows nothing of that");
        bench.members.insert(HOME, home);
        bench.lead();
        bench.link(0, HOME, true);
        bench.pass(RETRY_MS);
        assert!(bench.memory.is_empty());
        assert_eq!(bench.ask(2, look()), failed(RegionFailure::AllocatorGone));
        assert!(bench.nodes[0].is_idle());
    }
}

/// The pool daemon remembered for ever what had asked, because no answer came.
#[test]
fn an_allocation_whose_program_ends_has_an_answer() {
    let mut bench = Bench::new();
    bench.link(0, HOME, false);
    let allocated = bench.begin(0, 7, allocate(1));
    bench.give(0, Event::RegionOwnerGone(7));
    assert_eq!(bench.replies[&allocated], failed(RegionFailure::AllocatorGone));
    bench.link(0, HOME, true);
    assert!(bench.memory.is_empty() && bench.nodes[0].is_idle());
}

/// A region whose allocator ends while the home is away is given up later.
#[test]
fn an_allocator_that_ends_while_the_home_is_away_is_told_when_it_is_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask(0, allocate(1)), RegionReply::Done);
    bench.link(0, HOME, false);
    bench.give(0, Event::RegionOwnerGone(7));
    bench.pass(2 * UNREACHABLE_MS);
    assert_eq!(bench.memory.len(), 1);
    bench.link(0, HOME, true);
    assert!(bench.memory.is_empty());
    assert!(bench.nodes[0].is_idle());
}

#[test]
fn regions_and_questions_at_and_past_their_limits() {
    let mut bench = Bench::new();
    for number in 1..=REGIONS_MAX as u64 {
        assert_eq!(bench.ask(0, allocate(number)), RegionReply::Done);
    }
    assert_eq!(bench.ask(2, allocate(0)), failed(RegionFailure::Busy));
    assert_eq!(bench.ask(2, free(false)), RegionReply::Done);
    assert_eq!(bench.ask(2, allocate(0)), RegionReply::Done);
    bench.link(0, HOME, false);
    for _ in 0..REGION_ASKS_MAX {
        bench.begin(0, 7, look());
    }
    assert!(bench.replies.is_empty());
    assert_eq!(bench.ask(0, look()), failed(RegionFailure::Busy));
}
