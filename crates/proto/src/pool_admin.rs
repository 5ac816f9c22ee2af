//! What an operator sees of a pool: its nodes, and how it is as a whole.
//!
//! The command makes nodes and status from what etcd says. Where objects are it asks the pool
//! daemon of its machine, at a socket of its own beside the store's ([`socket_of`]): each message
//! is a frame ([`crate::frame`]), and each request has one reply. Programs read parts of objects
//! there ([`crate::parts`], [`crate::gather`]), have objects brought here, and write regions
//! ([`crate::region`]).

use std::fmt;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::gather::{GatherReply, GatherRequest};
use crate::id::ObjectId;
use crate::participation::Participation;
use crate::parts::{ReadReply, ReadRequest};
use crate::pool::{Birth, Slot};
use crate::pool_checksum::{ChecksumPage, ChecksumQuery, CopyRepair};
use crate::pool_listing::{ListQuery, ListedPage};
use crate::pool_notice::NamesFilter;
use crate::region::{AllocateRequest, RegionReply, RegionRequest};

/// The socket of the pool daemon of the store with this socket: `pool.sock` beside `store.sock`,
/// and `NAME.pool` beside any other.
pub fn socket_of(store: &Path) -> PathBuf {
    let name = store.file_name().unwrap_or_default();
    if name == "store.sock" {
        return store.with_file_name("pool.sock");
    }
    let mut name = name.to_owned();
    name.push(".pool");
    store.with_file_name(name)
}

/// What a program asks a pool daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Where is this object?
    Where(ObjectId),
    /// How is the pool?
    Status,
    /// Which nodes does it have?
    Nodes {
        /// Those in higher slots than this one; `None`: all.
        after: Option<Slot>,
    },
    /// Which objects of a namespace do all nodes have?
    List {
        /// Which of them.
        query: ListQuery,
        /// Nodes that are not asked, because an earlier page went without them; at most
        /// [`LIST_WITHOUT_MAX`].
        without: Vec<Slot>,
    },
    /// Compare all records with all copies.
    Verify {
        /// How long that may take; an hour at most.
        within_ms: u64,
    },
    /// Tell what happens to objects with such names, until the connection ends. The answer is
    /// [`crate::message::Reply::Done`], and then come [`crate::message::Push::NamedNotices`] and
    /// [`crate::message::Push::NoticesLost`].
    Subscribe(NamesFilter),
    /// Bring parts of an object here.
    Read(ReadRequest),
    /// Bring these objects here, at most [`crate::limits::REQUEST_IDS_MAX`]; the answer does not
    /// wait for them.
    Prefetch(Vec<ObjectId>),
    /// Make a region, which lives at most as long as this connection until it is sealed.
    Allocate(AllocateRequest),
    /// Do something with a region.
    Region(RegionRequest),
    /// Bring parts of several objects here.
    Gather(GatherRequest),
    /// How far is this node with taking part?
    Participation,
    /// What are the checksums of the copies of a node?
    Checksums {
        /// The node.
        node: Slot,
        /// Which of its copies.
        query: ChecksumQuery,
    },
    /// Make all copies of these objects, at most [`crate::limits::REQUEST_IDS_MAX`], the first to
    /// be spilled or evicted, on every node; the answer waits for none.
    Demote(Vec<ObjectId>),
    /// Repair these copies of a node, at most [`crate::pool_checksum::REPAIRS_MAX`]; the answer
    /// does not wait for that.
    Repair {
        /// The node.
        node: Slot,
        /// The copies.
        copies: Vec<CopyRepair>,
    },
}

/// What a pool daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Where the object is.
    Where(ObjectPlace),
    /// How the pool is.
    Status(Box<PoolStatus>),
    /// [`NODES_PER_PAGE`] nodes at most, in the order of their slots; none: there are no more.
    Nodes(Vec<PoolNode>),
    /// A page of the objects of a namespace.
    Listed {
        /// The objects that the other nodes have.
        page: ListedPage,
        /// Nodes that did not answer, with their names; [`NODES_PER_PAGE`] at most.
        missing: Vec<(Slot, String)>,
    },
    /// What was found.
    Verify(Box<Verification>),
    /// What became of a read.
    Read(ReadReply),
    /// The objects are brought here, as far as they exist and there is room.
    Prefetching,
    /// A region was made.
    Allocated(ObjectId),
    /// What became of a request about a region, or why none was made.
    Region(RegionReply),
    /// What became of a gather.
    Gather(GatherReply),
    /// How far the node is.
    Participation(Box<Participation>),
    /// The checksums; `None` when the node does not answer.
    Checksums(Option<ChecksumPage>),
    /// The nodes are told that the objects are not needed.
    Demoting,
    /// The node is told that its copies are not right.
    Repairing,
}

/// Nodes in one reply: the largest fit into a frame.
pub const NODES_PER_PAGE: usize = 64;

/// Nodes that a listing may go without: every slot of a pool of the largest size.
pub const LIST_WITHOUT_MAX: usize = 1024;

/// Nodes that are named as not reached by one node, and pairs of nodes that do not reach each
/// other.
pub const UNREACHED_MAX: usize = 8;

/// Nodes that are named as those that groups wait for, or whose logs have failed.
pub const WAITED_FOR_MAX: usize = 32;

/// Refused nodes that a pool daemon names.
pub const REFUSED_MAX: usize = 32;

/// Where a pooled object is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// There is none.
    Absent,
    /// It was put, and is not accepted yet.
    Pending,
    /// It exists.
    Live,
    /// It was deleted, and there may be copies.
    Dead,
    /// No node has a copy.
    Lost,
    /// The pool cannot be asked now, or no node with a copy is up.
    Unreachable,
}

impl Standing {
    /// In one word.
    pub fn key(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Pending => "pending",
            Self::Live => "live",
            Self::Dead => "dead",
            Self::Lost => "lost",
            Self::Unreachable => "unreachable",
        }
    }
}

/// What the directory of the pool knows of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPlace {
    /// Where it is in its life.
    pub standing: Standing,
    /// The node that keeps the record.
    pub primary: Option<String>,
    /// What the record says; `None` without one.
    pub found: Option<ObjectRecord>,
}

/// What a record says of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// The incarnation.
    pub birth: Birth,
    /// The node where it was made.
    pub origin: String,
    /// Bytes of the data.
    pub data_bytes: u64,
    /// Bytes of the metadata.
    pub metadata_bytes: u32,
    /// How many copies it should have.
    pub copies: u8,
    /// With how many a put is content.
    pub copies_min: u8,
    /// The nodes that keep a copy.
    pub holders: Vec<String>,
    /// Other nodes that may have one, which memory that is short takes.
    pub caches: Vec<String>,
    /// Whether the copies are in the logs of their nodes, and outlive a loss of power.
    pub is_durable: bool,
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It holds its lease.
    Up,
    /// Its lease is gone; its copies are counted as still there.
    Down,
    /// It was given up, so its copies are made again elsewhere; or it was drained, and has left.
    Out,
    /// It holds its lease, and its copies move to other nodes.
    Draining,
    /// It holds its lease, and no copy of it is needed: it can be stopped without loss.
    Drained,
}

impl NodeState {
    /// In one word.
    pub fn key(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Out => "out",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

/// A node of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNode {
    /// Its number, which no other node gets.
    pub slot: Slot,
    /// Its name.
    pub name: String,
    /// Whether it takes part.
    pub state: NodeState,
    /// The number of the map in which it got this state, or was started again.
    pub since_epoch: u64,
    /// Whether an operator wants it to be empty.
    pub drain: bool,
    /// Whether it decides about the map.
    pub leads: bool,
    /// The groups of ids that it leads.
    pub groups_led: u32,
    /// The groups of ids that it keeps the records of, or is about to.
    pub groups: u32,
    /// Those of them of which it has every record.
    pub groups_complete: u32,
    /// What fails together with it.
    pub zone: String,
    /// Its share of groups and copies.
    pub weight: u32,
    /// Where the other nodes reach it, the best first.
    pub addresses: Vec<String>,
    /// What is left of a node that drains.
    pub left: Option<DrainLeft>,
    /// The names of the nodes that it and they do not reach, [`UNREACHED_MAX`] at most.
    pub unreached: Vec<String>,
    /// What it encrypts; `None` for nothing.
    pub encryption: Option<NodeEncryption>,
    /// By what others write into its memory; `None` where that was not asked for.
    pub fabric: Option<NodeFabric>,
}

/// The providers of libfabric of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFabric {
    /// Those in use, separated by commas; empty where all content comes over TCP.
    pub providers: String,
    /// Why others are not used; empty where all of them are.
    pub refused: String,
    /// Endpoints that had to be closed since the start of its pool daemon, because a peer was lost
    /// or did not answer.
    pub closed: u32,
}

/// What a node encrypts: its messages, and perhaps more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEncryption {
    /// Whether the content of objects is encrypted as well.
    pub data: bool,
    /// The last second of its certificate, since 1970.
    pub not_after: u64,
}

/// What a draining node has that is not elsewhere yet, as far as the other nodes have reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainLeft {
    /// Objects that need the node's copy.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them of which no other live node keeps a copy: they are lost with the node.
    pub last: u64,
    /// Those of them for which the pool has too few other nodes.
    pub few_nodes: u64,
    /// Those for which the other nodes have no room.
    pub no_room: u64,
    /// Those that no live node has: they cannot be copied now.
    pub unreachable: u64,
    /// Groups of ids whose records it still keeps.
    pub groups: u32,
    /// Groups of ids that no live node leads: what is left in them is not known.
    pub groups_unled: u32,
    /// Nodes that have not reported yet what is left.
    pub nodes_unreported: u32,
}

/// A node that holds a lease and takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedNode {
    /// Its identity, as 32 hexadecimal digits.
    pub uuid: String,
    /// Why, with its name.
    pub reason: String,
}

/// A pool as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The number of the map; 0 before the first.
    pub epoch: u64,
    /// The name of the node that decides about the map.
    pub leader: Option<String>,
    /// Nodes that hold their leases, those that drain included.
    pub nodes_live: u32,
    /// Nodes that lost their leases.
    pub nodes_down: u32,
    /// Nodes that were given up, or were drained.
    pub nodes_out: u32,
    /// Those of the live ones that are to become empty.
    pub nodes_draining: u32,
    /// The groups that the ids are divided into.
    pub groups: u32,
    /// Groups of which all nodes that shall have the records have them.
    pub groups_settled: u32,
    /// Groups without a live node that has the records: their objects cannot be found.
    pub groups_dead: u32,
    /// Why no node is given up.
    pub alarm: Option<String>,
    /// Why the map cannot be used.
    pub bad_map: Option<String>,
    /// Nodes that are not let in.
    pub refused: Vec<RefusedNode>,
    /// The names of nodes that do not reach each other, [`UNREACHED_MAX`] pairs at most.
    pub unreached: Vec<(String, String)>,
    /// The nodes without a lease that groups need to be complete, by name, and how many groups need
    /// each; [`WAITED_FOR_MAX`] nodes at most.
    pub waited_for: Vec<(String, u32)>,
    /// The names of nodes whose log for durable objects has failed, [`WAITED_FOR_MAX`] at most.
    pub logs_failed: Vec<String>,
}

/// What was found when all records of a pool were compared with all copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The groups that the ids are divided into.
    pub groups: u32,
    /// Those of them that were compared: the others have no primary that knows all their records.
    pub groups_compared: u32,
    /// Objects that exist.
    pub objects: u64,
    /// Those of them that fewer nodes keep than shall.
    pub short: u64,
    /// Those of them that no live node has.
    pub unreachable: u64,
    /// Objects that existed, and of which no node has a copy.
    pub lost: u64,
    /// What is on each node, in the order of their slots.
    pub nodes: Vec<VerifiedNode>,
    /// Nodes that did not answer.
    pub unanswered: Vec<Slot>,
}

/// What was found on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedNode {
    /// The node.
    pub slot: Slot,
    /// Copies that it keeps.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies that it was to keep, and had not. They are made again.
    pub missing: u64,
    /// Copies of which there was no record. They are dropped.
    pub unrecorded: u64,
}

impl Verification {
    /// Whether nothing is wrong, and everything was compared.
    pub fn is_whole(&self) -> bool {
        let is_right = |node: &VerifiedNode| node.missing == 0 && node.unrecorded == 0;
        self.groups_compared == self.groups
            && (self.short, self.unreachable, self.lost) == (0, 0, 0)
            && self.unanswered.is_empty()
            && self.nodes.iter().all(is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn messages_come_back_and_their_bytes_are_a_format() {
        let id = ObjectId::pooled([7; 12], None);
        let requests = [
            (Request::Where(id), "00070707070707070707070707ffff40706f6f6c00"),
            (Request::Status, "01"),
            (Request::Nodes { after: None }, "0200"),
            (Request::Nodes { after: Some(Slot(300)) }, "0201ac02"),
            (Request::Demote(vec![id]), "0d01070707070707070707070707ffff40706f6f6c00"),
        ];
        for (request, golden) in requests {
            let bytes = postcard::to_allocvec(&request).unwrap();
            assert_eq!(hex(&bytes), golden, "{request:?}");
            assert_eq!(postcard::from_bytes(&bytes), Ok(request));
        }
        let record = ObjectRecord {
            birth: Birth { slot: Slot(3), boot: 4, serial: 300 },
            origin: "a".to_owned(),
            data_bytes: 5,
            metadata_bytes: 6,
            copies: 2,
            copies_min: 1,
            holders: vec!["b".to_owned()],
            caches: vec!["c".to_owned()],
            is_durable: true,
        };
        let (primary, found) = (Some("d".to_owned()), Some(record));
        let places = [
            (
                ObjectPlace { standing: Standing::Live, primary, found },
                "0002010164010304ac0201610506020101016201016301",
            ),
            (
                ObjectPlace { standing: Standing::Unreachable, primary: None, found: None },
                "00050000",
            ),
        ];
        for (place, golden) in places {
            let reply = Reply::Where(place);
            let bytes = postcard::to_allocvec(&reply).unwrap();
            assert_eq!(hex(&bytes), golden, "{reply:?}");
            assert_eq!(postcard::from_bytes(&bytes), Ok(reply));
        }
        assert_eq!(hex(&postcard::to_allocvec(&Reply::Demoting).unwrap()), "0c");
    }

    #[test]
    fn the_largest_verification_fits_a_frame() {
        let node = VerifiedNode {
            slot: Slot(u16::MAX),
            copies: 10_000_000,
            bytes: 1 << 50,
            missing: u64::MAX,
            unrecorded: u64::MAX,
        };
        let verification = Verification {
            nodes: vec![node; 1024],
            unanswered: vec![Slot(u16::MAX); 1024],
            ..Verification::default()
        };
        let reply = Reply::Verify(Box::new(verification));
        assert!(crate::frame::encode_admin_reply(1, &reply).is_ok());
    }

    #[test]
    fn the_socket_of_a_pool_daemon_is_that_of_its_store_alone() {
        let of = |path: &str| socket_of(Path::new(path));
        assert_eq!(of("/run/plasmon/store.sock"), Path::new("/run/plasmon/pool.sock"));
        assert_eq!(of("/tmp/a.sock"), Path::new("/tmp/a.sock.pool"));
        assert_eq!(of("store.sock"), Path::new("pool.sock"));
    }
}
