//! The messages between clients and the daemon on the control socket.
//!
//! The socket is SEQPACKET: one message is one [`crate::frame`]. A client numbers its requests; the
//! daemon answers each with one [`Reply`] of the same number, in any order, and may push
//! [`Push`] messages at any time. Nothing here is on the hot path: sealed objects are found through
//! the shared index and announced through the rings ([`crate::ring`]).
//!
//! Descriptors travel beside a message in the order that its documentation gives.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::extent::{ExtentId, Placement, Range};
use crate::id::{Name, ObjectId};
use crate::object::{Level, ObjectInfo, ObjectState, Sizes, Traits};
use crate::pool::{Birth, Call, Slot, Told};
use crate::pool_adoption::{AdoptionCall, AdoptionTold};
use crate::pool_listing::{ListQuery, ListedPage};
use crate::status::Status;

/// The version that both sides must share.
pub const PROTOCOL_VERSION: u32 = 7;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Get, wait, list and subscribe.
    ReadOnly,
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the client.
    pub version: u32,
    /// The client's name for itself, for listings.
    pub name: String,
    /// Whether it wants a channel (ring and ledger). Without one it works by the socket alone.
    pub channel: bool,
    /// What it held before its connection broke.
    pub resume: Option<Resume>,
}

/// What a reconnecting client held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The token of its earlier [`Welcome`].
    pub token: u64,
    /// Ranges leased to it that it still carves objects from, or writes to.
    pub leases: Vec<Range>,
    /// Objects that it is creating.
    pub creating: Vec<PendingObject>,
}

/// What a client named in [`Resume`] and does not have. It is empty unless the daemon before this
/// one took memory with it, as it does with objects that grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingClaims {
    /// Of the ranges, those that are not wholly leased to the client.
    pub leases: Vec<Range>,
    /// Of the objects, those that it does not create (any more).
    pub creating: Vec<ObjectId>,
}

/// An object under construction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingObject {
    /// The id.
    pub id: ObjectId,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
    /// Where its bytes go.
    pub range: Range,
    /// Whether the kernel must refuse every write once it is sealed.
    pub strict: bool,
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Introduces the client; must be the first message, once. Answer: [`Reply::Welcome`].
    Hello(Hello),
    /// The current index table. Answer: [`Reply::Index`] with its read-only descriptor.
    Index,
    /// Descriptors of extents, at most [`crate::limits::FRAME_FDS_MAX`]. Answer:
    /// [`Reply::Extents`].
    Extents {
        /// Which.
        extents: Vec<ExtentId>,
        /// For writing, which only the extent's present writer gets.
        write: bool,
    },
    /// A range to carve small objects from. Answer: [`Reply::Lease`] with a writable descriptor.
    Lease {
        /// The least that helps.
        bytes_min: u64,
        /// What would be best.
        bytes_wanted: u64,
    },
    /// Reserves an id and memory for it. Answer: [`Reply::Created`] with a writable descriptor.
    Create {
        /// The id.
        id: ObjectId,
        /// The sizes of its parts.
        sizes: Sizes,
        /// Policy, tag, ownership.
        traits: Traits,
        /// Whether the kernel must refuse every write once it is sealed.
        strict: bool,
    },
    /// Makes an object that this client creates immutable and visible. Answer: [`Reply::Done`].
    Seal {
        /// The id.
        id: ObjectId,
    },
    /// Gives up an object that this client creates. Answer: [`Reply::Done`].
    Abort {
        /// The id.
        id: ObjectId,
    },
    /// Deletes objects; what is in use disappears from sight now and from memory when the last pin
    /// goes. Answer: [`Reply::Outcomes`].
    Delete {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// Pins and locates objects for a client without a channel. Answer: [`Reply::Located`].
    Get {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// Drops pins of a client without a channel. Answer: [`Reply::Done`].
    Release {
        /// The serials of [`Location`]s, once for each get.
        serials: Vec<u64>,
    },
    /// Waits until `count` of the objects are readable or their fate is known. Spilled ones are
    /// brought back. Answer: [`Reply::States`], one state for each id.
    Wait {
        /// Which.
        ids: Vec<ObjectId>,
        /// How many must be ready; 0 means all.
        count: u32,
        /// How long to wait; `None` means no limit, 0 does not wait.
        timeout_ms: Option<u64>,
        /// Go on waiting for objects that were deleted or evicted, or whose creator died.
        beyond_end: bool,
    },
    /// Ends a wait of this client early; the wait is answered. Answer: [`Reply::Done`].
    Cancel {
        /// The number of the request to end.
        request: u64,
    },
    /// Where objects are in their life. Answer: [`Reply::States`].
    States {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// A description of one object. Answer: [`Reply::Info`].
    Stat {
        /// Which.
        id: ObjectId,
    },
    /// One page of the objects. Answer: [`Reply::Page`].
    List {
        /// Which objects.
        filter: Filter,
        /// Where the page before ended.
        cursor: u64,
        /// How many at most, itself at most [`crate::limits::LIST_PAGE_MAX`].
        limit: u32,
    },
    /// Evicts objects with policy cache, least recently used first. Answer: [`Reply::Evicted`].
    Evict {
        /// How many bytes to free at least.
        bytes: u64,
    },
    /// Marks objects as recently used. Answer: [`Reply::Done`].
    Touch {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// Starts notifications, as [`Push::Notices`]. Answer: [`Reply::Done`].
    Subscribe {
        /// About which objects.
        filter: Filter,
    },
    /// Ends notifications. Answer: [`Reply::Done`].
    Unsubscribe,
    /// The figures of the store. Answer: [`Reply::Status`].
    Status,
    /// One page of the connected clients. Answer: [`Reply::Clients`].
    Clients {
        /// How many clients to skip.
        skip: u32,
    },
    /// Sets this client's own limit of owned bytes, 0 for none. Answer: [`Reply::Done`].
    Quota {
        /// The limit.
        bytes: u64,
    },
    /// Answers when every earlier record of this client's ring was applied. Answer:
    /// [`Reply::Done`].
    Sync,
    /// Stops the daemon; for the owner of the store. Answer: [`Reply::Done`].
    Shutdown,
    /// Deletes objects as soon as no client reads them; until then they stay as they are, for all
    /// clients. Objects that are being created stay. Answer: [`Reply::Outcomes`].
    DeleteUnused {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// Gives this client a share of the memory, once: at most this many bytes of its objects with
    /// policy cache, which are evicted only for its own new objects, until it disconnects. Answer:
    /// [`Reply::Done`], or a failure with [`Code::StoreFull`] if too little would be left for the
    /// other clients.
    Share {
        /// How many bytes.
        bytes: u64,
    },
    /// Reserves an id for an object whose size is not known yet, and first memory for it. The
    /// extent is the object's own and grows at its end. Answer: [`Reply::Created`] with a writable
    /// descriptor; the range may be shorter or longer than wanted.
    CreateGrowing {
        /// The id.
        id: ObjectId,
        /// Policy, tag, ownership.
        traits: Traits,
        /// How much would be best at first.
        bytes: u64,
        /// Whether it may become much longer than that: then it is given the longest memory that
        /// is warm, else the one that fits best.
        open_ended: bool,
    },
    /// More memory for a growing object, after what it has; one at a time for each object. Answer:
    /// [`Reply::Grown`].
    Grow {
        /// The id.
        id: ObjectId,
        /// How much it is to have in all.
        bytes: u64,
    },
    /// Makes a growing object immutable and visible; memory after its data goes back. Answer:
    /// [`Reply::Done`].
    SealGrown {
        /// The id.
        id: ObjectId,
        /// Bytes of its data; it has neither metadata nor attributes.
        data: u64,
    },
    /// Makes this client the parent of a namespace: when its connection ends, however it ends, what
    /// is named in it is deleted, and what others seal in it later is refused with
    /// [`Code::Cancelled`]. Asked again, it changes the limit. Answer: [`Reply::Done`], or a
    /// failure with [`Code::Exists`] if another client has adopted it.
    Adopt {
        /// Which, at most [`crate::limits::NAMESPACE_BYTES_MAX`] bytes and not empty.
        namespace: String,
        /// The most bytes of data and metadata that all objects in it may have together, in memory
        /// and in the spill tier; sealing more is refused with [`Code::QuotaExceeded`]. 0 for none.
        /// In a namespace of a pool every copy on every node counts, but for caches.
        bytes_max: u64,
    },
    /// The slot of the index with an object that is readable but that a client does not find: ids
    /// may be chosen to crowd one range of slots, so that a probe does not reach it. Answer:
    /// [`Reply::Slot`].
    Slot {
        /// Which.
        id: ObjectId,
    },
    /// Stops the daemon if it would end after its last client anyway, holds no object and has no
    /// other client; for the owner of the store. Answer: [`Reply::Done`], or a failure with
    /// [`Code::InUse`] that says what it is needed for.
    ShutdownUnused,
    /// The file of a spilled object, to read pieces of it without bringing it back. Answer:
    /// [`Reply::SpillFile`] with its read-only descriptor, or [`Reply::States`] with the one state
    /// of an object that is not spilled (any more).
    OpenSpilled {
        /// Which.
        id: ObjectId,
    },
    /// Seals an object that this client creates under another id than it was created with; an
    /// object of that id is replaced in the same step, and stays for those who read it. Answer:
    /// [`Reply::Done`], or a failure after which both are as before: [`Code::InUse`] if a composite
    /// holds the old one, [`Code::Exists`] if one of that id is being created,
    /// [`Code::BadRequest`] if the new one has the old one as a member.
    Replace {
        /// The id that it was created with.
        id: ObjectId,
        /// The id that it has from now on.
        target: ObjectId,
    },
    /// Puts ids into a scope of this client, which need not be there before. When the client ends,
    /// however it ends, the objects of these ids that it made are deleted, unless the scope was
    /// ended before. Answer: [`Reply::Done`].
    Scope {
        /// The number of the scope, of this client's choice.
        scope: u64,
        /// At most [`crate::limits::SCOPE_IDS_MAX`] in all scopes of a client.
        ids: Vec<ObjectId>,
        /// Whether the client said so to an earlier daemon: objects of these ids that are there,
        /// and whose maker this daemon does not know, are the client's.
        again: bool,
    },
    /// Ends a scope in one step: its objects stay, or those that the client made are deleted.
    /// Answer when they are: [`Reply::Done`], or a failure with [`Code::Absent`] if there is no
    /// such scope.
    EndScope {
        /// Its number.
        scope: u64,
        /// Whether the objects stay.
        publish: bool,
    },
    /// Takes the seat of the pool daemon, which one client of the store's owner can have at a time.
    /// It is told [`Push::Calls`] from then on; first what is here of the pool, as
    /// [`Call::Has`]. Answer: [`Reply::Done`], or a failure with [`Code::NotPermitted`] if the
    /// token is not the one that the daemon gave the process that it started, or with
    /// [`Code::InUse`] if the seat is taken.
    Agent {
        /// What the daemon gave it at its start.
        token: u64,
        /// The slot of this node.
        slot: Slot,
    },
    /// What the pool daemon answers. Answer: [`Reply::Done`].
    Tell {
        /// In order, at most [`crate::limits::CALLS_MAX`].
        told: Vec<Told>,
    },
    /// Makes memory for a copy of an object of another node. [`Request::Grow`] gives it more if it
    /// grows, and [`Request::Abort`] gives it up. Answer: [`Reply::Created`] with a writable
    /// descriptor.
    Land(Landing),
    /// Makes a copy complete, whose parts and attributes (with its birth) are in its memory now.
    /// Answer: [`Reply::Done`].
    SealLanded {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Whether clients may see it; else [`Told::Publish`] shows it.
        visible: bool,
        /// Whether it is never evicted; else it is a cached copy.
        keep: bool,
    },
    /// One page of the objects here that are named in a namespace, in the order of their ids;
    /// those that are being created are not among them. Answer: [`Reply::Listed`], or a failure
    /// with [`Code::Unreachable`] while the copies of a pool are not shown.
    ListNamespace(ListQuery),
    /// Waits until the pool has accepted objects that were put here, with the copies that they were
    /// put with, or has refused them. Answer: [`Reply::Outcomes`], `None` for an accepted one.
    /// Others: why the pool refused it, how it ended ([`Code::Deleted`], [`Code::Evicted`],
    /// [`Code::Absent`]), [`Code::TimedOut`] for one that the pool has not answered in time, and
    /// [`Code::Unreachable`] if there is no pool daemon. What these two say may change: the pool is
    /// still asked. [`Code::BadRequest`] for an id of no pool, or of another node.
    Settle {
        /// Which.
        ids: Vec<ObjectId>,
        /// How long to wait; `None` means no limit, 0 does not wait.
        timeout_ms: Option<u64>,
    },
    /// What is here of an object, also what other clients do not see; for the pool daemon. Answer:
    /// [`Reply::Info`].
    Describe {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Ends the adoption of a namespace that this client has adopted, as the end of the client
    /// does. Answer: [`Reply::Done`], or a failure with [`Code::Absent`] if it has not adopted it.
    EndAdoption {
        /// The namespace.
        namespace: String,
    },
    /// What the pool daemon says of namespaces that are adopted. Answer: [`Reply::Done`].
    TellAdoptions {
        /// In order, at most [`crate::limits::ADOPTIONS_TOLD_MAX`].
        told: Vec<AdoptionTold>,
    },
    /// Makes a growing object immutable and visible, as [`Request::SealGrown`] does, as an object
    /// of the pool: under another id, whose home is this node. Answer: [`Reply::Done`].
    SealGrownPooled {
        /// The id that it has so far.
        id: ObjectId,
        /// The id that it has from now on.
        target: ObjectId,
        /// Bytes of its data; it has no metadata.
        data: u64,
        /// Bytes of its attributes, which lie after the data.
        attributes: u32,
    },
    /// Marks objects as least recently used: where memory is short, these are evicted or spilled
    /// before all others, in this order, unless they are used again before. Those that are not in
    /// memory are passed over. Answer: [`Reply::Done`].
    Demote {
        /// Which.
        ids: Vec<ObjectId>,
    },
    /// Has a durable object written to the log and published, whose bytes lie in memory leased to
    /// this client; its attributes say that it is durable. Answer when the log has it:
    /// [`Reply::Done`], or a failure. The memory is the client's no more, whatever the answer is.
    PutDurable {
        /// The id of the object, or while `target` is another one, that it has until it is there.
        id: ObjectId,
        /// The id that it has from then on; an object of that id is replaced unless it is the same.
        target: ObjectId,
        /// Where its parts start.
        placement: Placement,
        /// The sizes of its parts.
        sizes: Sizes,
        /// Policy, tag, ownership.
        traits: Traits,
    },
    /// Reads what the log has of a copy, or the spill tier if it is there alone, and compares it
    /// with its checksums; for the pool daemon. Nothing is changed. Answer: [`Reply::LogChecked`].
    CheckLogged {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
}

/// Memory for a copy of an object of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation. The attributes of the copy must say the same when it is sealed.
    pub birth: Birth,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Tag and ownership; the policy of a copy is said when it is sealed.
    pub traits: Traits,
    /// Whether it gets its memory in steps, so that the first bytes can arrive before all of it is
    /// allocated.
    pub growing: bool,
}

/// Which objects a listing or a subscription is about; an empty filter means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only objects named in this namespace.
    pub namespace: Option<String>,
    /// Only objects whose name's text starts so.
    pub prefix: Option<String>,
}

/// The daemon's answer to a [`Hello`].
///
/// Descriptors: the control page (read-only), the index table (read-only), and for a client with a
/// channel the channel (read-write) and the doorbell (an eventfd), and then the wake page
/// (read-write) if it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The client's number while it is connected.
    pub client: u32,
    /// What it resumes with after a broken connection.
    pub token: u64,
    /// The number of the store: the same for all of its daemons, and different for every other
    /// store.
    pub store: u64,
    /// How often the store's daemon was started.
    pub epoch: u64,
    /// Whether the channel is the one of [`Resume`], with its pins and records.
    pub resumed: bool,
    /// What the client must not write to any more.
    pub lost: MissingClaims,
    /// Whether a channel was given.
    pub channel: bool,
    /// Whether the wake page was given: to clients of the owner's that may write, at level
    /// [`Level::Shared`].
    pub wake_page: bool,
    /// What the client may do.
    pub access: Access,
    /// How sealed objects are protected.
    pub level: Level,
    /// The store's capacity in bytes.
    pub capacity_bytes: u64,
    /// Whether the store has a log for durable objects.
    pub durable: bool,
    /// Whether that log is not open yet, so that what is in it is not known.
    pub log_closed: bool,
    /// The index table sent along.
    pub index: IndexTable,
}

/// An index table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexTable {
    /// Its number, as the control page names the current one.
    pub number: u64,
    /// How many slots it has.
    pub slots: u64,
}

/// Where a pinned object's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The number of this incarnation of the object.
    pub serial: u64,
    /// Where.
    pub range: Range,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
}

/// A failed request: the code and its facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub code: Code,
    /// With which object.
    pub id: Option<ObjectId>,
    /// What was asked for, in bytes or as a count, or 0.
    pub wanted: u64,
    /// What was there, in the same unit, or 0.
    pub found: u64,
    /// More, for a person.
    pub detail: String,
}

impl Failure {
    /// A failure that has only a code.
    pub fn of(code: Code) -> Self {
        Self { code, id: None, wanted: 0, found: 0, detail: String::new() }
    }

    /// The same failure, naming the object.
    #[must_use]
    pub fn with_id(mut self, id: ObjectId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same failure with its two quantities.
    #[must_use]
    pub fn with_amounts(mut self, wanted: u64, found: u64) -> Self {
        (self.wanted, self.found) = (wanted, found);
        self
    }

    /// The same failure with a detail for people.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// The daemon's answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To hello.
    Welcome(Welcome),
    /// It is done.
    Done,
    /// It failed.
    Failed(Failure),
    /// The current index table, with its read-only descriptor.
    Index(IndexTable),
    /// The sizes of the extents asked for, `None` for one that is gone. Descriptors: one for each
    /// extent that is there, in the same order.
    Extents(Vec<Option<u64>>),
    /// A leased range. Descriptor: its extent, writable.
    Lease(Grant),
    /// The memory of a new object. Descriptor: its extent, writable.
    Created(Grant),
    /// One code for each id of a delete, `None` for success.
    Outcomes(Vec<Option<Code>>),
    /// One location for each id of a get, or why there is none.
    Located(Vec<Result<Location, ObjectState>>),
    /// One state for each id.
    States(Vec<ObjectState>),
    /// A description, `None` when nothing is known under the id.
    Info(Option<ObjectInfo>),
    /// A page of descriptions and where the next page starts, `None` at the end.
    Page(Vec<ObjectInfo>, Option<u64>),
    /// What an eviction freed.
    Evicted {
        /// Bytes of data and metadata.
        bytes: u64,
        /// Objects.
        objects: u64,
    },
    /// The figures of the store.
    Status(Box<Status>),
    /// Connected clients.
    Clients(Vec<ClientInfo>),
    /// A growing object may use this many bytes from its first on.
    Grown {
        /// How many.
        bytes: u64,
    },
    /// Where the index lists an object; `None` when it does not.
    Slot(Option<SlotPlace>),
    /// The file of a spilled object, and its descriptor.
    SpillFile(SpillFile),
    /// A page of the objects of a namespace.
    Listed(ListedPage),
    /// What the log has of a copy, and what the object is called.
    LogChecked(LogCheck, Option<Name>),
}

/// What was found when the log's record of a copy was read, or its file in the spill tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogCheck {
    /// There is no such copy.
    Absent,
    /// It is as its checksums say.
    Right {
        /// The CRC32C of data and metadata.
        crc: u32,
        /// Whether the copy is there alone.
        away: bool,
    },
    /// It is damaged.
    Damaged {
        /// Whether the copy is there alone.
        away: bool,
    },
    /// It cannot be read now. Nothing is known to be wrong with it.
    Unreadable,
}

/// A spilled object's file. It does not change any more, and stays readable through the descriptor
/// when the object is deleted or comes back to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillFile {
    /// The incarnation that was spilled.
    pub serial: u64,
    /// Where in the file the object's data starts; its metadata follows the data.
    pub offset: u64,
    /// The sizes of its parts.
    pub sizes: Sizes,
    /// Policy, tag, ownership.
    pub traits: Traits,
}

/// A slot of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPlace {
    /// The number of the table.
    pub table: u64,
    /// The slot, counted from 0.
    pub slot: u32,
}

/// Granted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The range.
    pub range: Range,
    /// The size of the whole extent.
    pub extent_bytes: u64,
    /// Whether its pages are known to be in memory already.
    pub warm: bool,
}

/// A message that the daemon sends unasked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// What happened to objects, in order.
    Notices(Vec<Notice>),
    /// The subscriber was too slow and this many notices were dropped at this point.
    NoticesLost(u64),
    /// To the pool daemon: what clients want of the pool and what happened to pooled objects, in
    /// order, at most [`crate::limits::CALLS_MAX`].
    Calls(Vec<Call>),
    /// Of the pool daemon, to a program that subscribed at its socket: what happened in the pool,
    /// at most [`NAMED_NOTICES_MAX`].
    NamedNotices(Vec<NamedNotice>),
    /// To the pool daemon: what clients want of namespaces of the pool, and how far this store is.
    Adoption(AdoptionCall),
}

/// Notices in one push of the pool daemon: with the longest names they fit a frame.
pub const NAMED_NOTICES_MAX: usize = 128;

/// One event in the life of a named object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNotice {
    /// What happened.
    pub notice: Notice,
    /// The name of the object.
    pub name: Name,
}

/// One event in an object's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The object.
    pub id: ObjectId,
    /// The state that it entered: sealed, deleted, evicted, spilled.
    pub state: ObjectState,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Bytes of its metadata.
    pub metadata_bytes: u64,
}

/// A connected client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its number.
    pub client: u32,
    /// Its name for itself.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What it may do.
    pub access: Access,
    /// Pins that it holds.
    pub pins: u32,
    /// Bytes of objects that it created and that are still there, and of its leases.
    pub owned_bytes: u64,
    /// Its quota, 0 for none.
    pub quota_bytes: u64,
    /// Whether it is subscribed.
    pub subscribed: bool,
}
