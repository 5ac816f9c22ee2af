//! The socket of the pool daemon, `pool.sock`: whatever programs send there, it goes on answering
//! others, and nothing stays of what they asked for.
//!
//! Two nodes run in this process, with a real etcd and stores that are a few maps. The objects are
//! on one of them, the socket is that of the other. Without an etcd on the machine nothing is tried
//! (`scripts/fuzz.py` says so).

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/poold/tests/pool/double.rs"]
mod double;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use plasmon_cluster::{ProtocolRange, Slot};
use plasmon_etcd::Options;
use plasmon_fuzz::Input;
use plasmon_net::handshake::Token;
use plasmon_pool::message::InlineBytes;
use plasmon_poold::core::{Pool, Settings};
use plasmon_poold::door::Door;
use plasmon_poold::identity::Identity;
use plasmon_poold::membership;
use plasmon_proto::ObjectId;
use plasmon_proto::frame::{self, decode_admin_reply, encode_admin_request};
use plasmon_proto::gather::{GatherRead, GatherRequest};
use plasmon_proto::parts::{ReadRequest, Span};
use plasmon_proto::pool::Birth;
use plasmon_proto::pool_admin::{Reply, Request, Standing, socket_of};
use plasmon_proto::pool_listing::ListQuery;
use plasmon_proto::pool_notice::NamesFilter;
use plasmon_proto::region::{AllocateRequest, RegionRequest};
use plasmon_shm::socket::Connection;
use plasmon_testkit::{Etcd, pattern};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use double::Double;

/// The pool daemon answers in microseconds; so long means never.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What is left is looked for after so many inputs: ends of connections are noticed after a moment.
const LOOK_EVERY: u64 = 128;

const CLIENTS: usize = 6;

/// Objects of the pool, and ids that none has.
const OBJECTS: u8 = 4;
const IDS: usize = 6;

/// The largest region that the stores make.
const REGION_BYTES_MAX: u64 = 1 << 16;

/// The nodes, and a program that must never be failed.
struct World {
    stores: Vec<Double>,
    socket: PathBuf,
    probe: Mutex<Probe>,
    _nodes: (Vec<Pool>, Door),
    // It ends when this process does (setpriv).
    _etcd: Etcd,
}

struct Probe {
    connection: Connection,
    number: u64,
    inputs: u64,
}

static WORLD: OnceLock<Option<World>> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let Some(world) = WORLD.get_or_init(start) else { return };
    let mut input = Input::new(bytes);
    let mut clients: [Option<Client>; CLIENTS] = Default::default();
    while !input.is_empty() {
        let client = &mut clients[input.below(CLIENTS)];
        match client {
            None => *client = Client::connect(&world.socket),
            Some(known) => {
                if !known.act(&mut input) {
                    *client = None;
                }
            }
        }
    }
    drop(clients);
    world.must_answer();
});

/// A program that may do anything.
struct Client {
    connection: Connection,
    number: u64,
    /// Regions that it knows, of which the first may be its own.
    regions: Vec<ObjectId>,
}

impl Client {
    fn connect(socket: &Path) -> Option<Self> {
        let connection = Connection::connect(socket).ok()?;
        Some(Self { connection, number: 0, regions: Vec::new() })
    }

    /// Does something; whether the program goes on.
    fn act(&mut self, input: &mut Input<'_>) -> bool {
        match input.below(16) {
            0 => self.send(input.bytes(64)),
            1 => {
                let mut frame = self.frame(&Request::Status);
                frame.truncate(frame::HEADER_BYTES);
                let count = input.below(200);
                frame.extend_from_slice(input.bytes(count));
                self.send(&frame);
            }
            2 => {
                let mut frame = self.frame(&any(input, &self.regions));
                frame.truncate(frame.len() - input.below(frame.len().min(200)));
                self.send(&frame);
            }
            3 => self.allocate(input),
            4 => self.take(),
            5 => return false,
            _ => {
                let frame = self.frame(&any(input, &self.regions));
                self.send(&frame);
            }
        }
        true
    }

    fn frame(&mut self, request: &Request) -> Vec<u8> {
        self.number += 1;
        encode_admin_request(self.number, request).expect("the requests are short")
    }

    fn send(&self, bytes: &[u8]) {
        // The pool daemon may have had enough of this program, or be behind with it.
        let _ = self.connection.try_send(bytes, &[]);
    }

    /// Allocates a region, and waits for its address.
    fn allocate(&mut self, input: &mut Input<'_>) {
        let node = [None, Some("n0"), Some("n1")][input.below(3)].map(str::to_owned);
        let request = AllocateRequest { bytes: input.word() % 300, copies: 1, copies_min: 1, node };
        let frame = self.frame(&Request::Allocate(request));
        let wanted = self.number;
        self.send(&frame);
        while let Some((number, reply)) = receive(&self.connection) {
            if let Reply::Allocated(id) = reply {
                self.regions.push(id);
            }
            if number == wanted {
                return;
            }
        }
    }

    /// Takes the replies that are there.
    fn take(&self) {
        let mut bytes = Vec::new();
        while self.connection.recv(&mut bytes, false).is_ok_and(|received| received.bytes > 0) {}
    }
}

fn id(number: usize) -> ObjectId {
    match number {
        4 => ObjectId::pooled([9; 12], Some(0)),
        5 => ObjectId::new([7; 20]),
        _ => ObjectId::pooled([number as u8 + 1; 12], None),
    }
}

fn spans(input: &mut Input<'_>) -> Vec<Span> {
    let (mut spans, mut at) = (Vec::new(), 0_u64);
    for _ in 0..input.below(5) {
        let span = Span { offset: at.wrapping_add(input.word()), bytes: input.word() };
        at = span.end();
        spans.push(span);
    }
    spans
}

/// Something that a program may ask, with borders where there are any.
fn any(input: &mut Input<'_>, regions: &[ObjectId]) -> Request {
    let one = id(input.below(IDS));
    let region = match regions.len() {
        0 => one,
        count => regions[input.below(count.min(256))],
    };
    match input.below(18) {
        0 => Request::Where(one),
        1 => Request::Status,
        2 => Request::Nodes { after: (input.byte() > 9).then_some(Slot(input.byte().into())) },
        3 => {
            let after = (input.byte() > 99).then_some(one);
            let namespace = "n".repeat(input.below(256));
            let query = ListQuery { namespace, prefix: String::new(), after };
            let without = (0..input.below(3)).map(|slot| Slot(slot as u16)).collect();
            Request::List { query, without }
        }
        4 => Request::Verify { within_ms: input.word() % 50 },
        5 => {
            let (namespace, prefix) = ("n".repeat(input.below(256)), "p".repeat(input.below(256)));
            Request::Subscribe(NamesFilter { namespace, prefix })
        }
        6..=8 => {
            let boot = 100 + input.below(3) as u64;
            let birth = Birth { slot: Slot(input.byte().into()), boot, serial: input.word() };
            Request::Read(ReadRequest {
                id: one,
                birth: (input.byte() > 200).then_some(birth),
                spans: spans(input),
                end: if input.byte() > 200 { input.word() } else { 0 },
                metadata: input.byte() % 2 == 0,
                timeout_ms: if input.byte() > 200 { input.word() } else { 0 },
            })
        }
        9..=11 => {
            let read = |input: &mut Input<'_>| GatherRead {
                id: id(input.below(IDS)),
                spans: spans(input),
                end: if input.byte() > 200 { input.word() } else { 0 },
            };
            let reads = (0..input.below(6)).map(|_| read(input)).collect();
            Request::Gather(GatherRequest { reads })
        }
        12 => Request::Prefetch((0..input.below(3)).map(|_| id(input.below(IDS))).collect()),
        13 => Request::Allocate(AllocateRequest {
            bytes: input.word(),
            copies: input.byte(),
            copies_min: input.byte(),
            node: (input.byte() > 99).then(|| "n".repeat(input.below(256))),
        }),
        14 | 15 => {
            let (offset, count) = (input.word(), input.below(256));
            let bytes = InlineBytes(input.bytes(count).to_vec());
            Request::Region(RegionRequest::Write { id: region, offset, bytes })
        }
        16 => Request::Region(match input.below(4) {
            0 => RegionRequest::Seal { id: region },
            1 => RegionRequest::Free { id: region, is_abandoned: input.byte() > 200 },
            2 => RegionRequest::Look { id: region },
            _ => {
                let (copies, copies_min) = (input.byte(), input.byte());
                RegionRequest::Allocate { id: region, bytes: input.word(), copies, copies_min }
            }
        }),
        _ => Request::Region(RegionRequest::Look { id: region }),
    }
}

/// The next reply, `None` when the pool daemon closed the connection.
fn receive(connection: &Connection) -> Option<(u64, Reply)> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(connection, PollFlags::IN)], Some(&timeout)) {
            // The fuzzer's own clock interrupts a waiting thread.
            Err(Errno::INTR) => {}
            Ok(0) => panic!("the pool daemon does not answer"),
            Ok(_) => break,
            Err(error) => panic!("the connection cannot be watched: {error}"),
        }
    }
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, true).ok()?;
    // After a subscription come messages that are no replies to requests.
    (received.bytes > 0).then(|| decode_admin_reply(&bytes).ok()).flatten()
}

impl World {
    /// The probe is told where an object is, and now and then that nothing is left of the others.
    fn must_answer(&self) {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        probe.number += 1;
        let frame = encode_admin_request(probe.number, &Request::Where(id(0))).expect("it fits");
        probe.connection.send(&frame, &[]).expect("the pool daemon reads");
        match receive(&probe.connection) {
            Some((number, Reply::Where(place))) => {
                assert_eq!((number, place.standing), (probe.number, Standing::Live));
            }
            other => panic!("the pool daemon answers a good program with {other:?}"),
        }
        probe.inputs += 1;
        if probe.inputs.is_multiple_of(LOOK_EVERY) {
            let left = || self.stores.iter().any(|store| store.parts() + store.regions() > 0);
            let deadline = Instant::now() + TIMEOUT;
            while left() {
                assert!(Instant::now() < deadline, "parts or regions have no program, and stay");
                thread::park_timeout(Duration::from_millis(5));
            }
        }
    }
}

/// Starts two nodes; `None` without an etcd.
fn start() -> Option<World> {
    let inside = ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned).to_vec();
    let etcd = Etcd::start_at(Ipv4Addr::LOCALHOST, inside)?;
    let folder = std::env::temp_dir().join(format!("door-{}", std::process::id()));
    let mut stores = Vec::new();
    let mut nodes = Vec::new();
    for number in 0..2_u64 {
        let name = format!("n{number}");
        let own = folder.join(&name);
        std::fs::create_dir_all(&own).expect("there is room for a folder");
        let identity = Identity::open(&own, &name).expect("the folder is new");
        let watch_timeout = Duration::from_millis(300);
        let boot = 100 + number;
        let membership = membership::Settings {
            etcd: Options { watch_timeout, ..Options::new(etcd.endpoints()) },
            cluster: "fuzz".to_owned(),
            ttl_ms: 60_000,
            out_after_ms: 60_000,
            boot,
            addresses: Vec::new(),
            zone: String::new(),
            weight: 1,
            log: plasmon_cluster::NodeLog::Absent,
            protocol: ProtocolRange { min: 1, max: 1 },
        };
        let settings = Settings {
            membership,
            listen: ([127, 0, 0, 1], 0).into(),
            token: Token::new(b"what all the nodes share").expect("it is long enough"),
            capacity_bytes: 1 << 30,
            suspect_ms: 0,
            movers: 1,
            certificates: None,
            fabric: plasmon_proto::fabric::Choice::Off,
        };
        let node = Pool::start(settings, identity, |inbox| {
            let double = Double::new(inbox, boot);
            double.limit_regions(REGION_BYTES_MAX);
            stores.push(double.clone());
            Box::new(double)
        });
        nodes.push(node.expect("the node starts"));
    }
    // What one node has read of the pool, the other may not have read yet.
    let deadline = Instant::now() + TIMEOUT;
    while nodes.iter().any(|node| node.asker().pool().status().nodes_live < 2) {
        assert!(Instant::now() < deadline, "the nodes do not find each other");
        thread::park_timeout(Duration::from_millis(5));
    }
    let map = nodes[0].asker().pool().map.expect("it has nodes");
    let slot = map.nodes().find(|(_, node)| node.member.name == "n0").expect("it is live").0;
    for number in 0..OBJECTS {
        let bytes = pattern(number.into(), [100, 5_000, 200_000, 3_000_000][usize::from(number)]);
        stores[0].put((id(number.into()), slot), bytes, 1).expect("the pool takes it");
    }
    let socket = folder.join("store.sock");
    let door = Door::open(&socket, nodes[1].asker()).expect("the socket opens");
    let socket = socket_of(&socket);
    let connection = Connection::connect(&socket).expect("it listens");
    let probe = Mutex::new(Probe { connection, number: 0, inputs: 0 });
    Some(World { stores, socket, probe, _nodes: (nodes, door), _etcd: etcd })
}
