//! What programs and operators ask the pool daemon of their machine.
//!
//! It answers at a socket of its own beside the store's ([`socket_of`]): each message is a frame
//! ([`crate::frame`]), and each request has one reply. The command asks where objects are, and how
//! the pool is ([`crate::pool_status`]). Programs read parts of objects there ([`crate::parts`],
//! [`crate::gather`]), have objects brought here, and write regions ([`crate::region`]).

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
use crate::pool_status::{PoolNode, PoolStatus};
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
