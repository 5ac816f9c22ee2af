//! What can happen to a node, and what it asks to be done.

use std::sync::Arc;

use plasmon_cluster::{DrainReport, Epoch, GroupNo, Map, Slot};
use plasmon_proto::gather::{GatherReply, GatherRequest};
use plasmon_proto::parts::{ReadReply, ReadRequest, Span};
pub use plasmon_proto::pool::{Call, Class, Fate, Refusal, Told};
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery, CopyRepair};
use plasmon_proto::pool_listing::{ListQuery, ListedPage};
use plasmon_proto::region::{RegionReply, RegionRequest};
use plasmon_proto::{Code, Name, ObjectId};

use crate::message::{
    Envelope, InlineBytes, ObjectParts, PoolNotice, QuestionNo, SegmentRange, TransferNo,
};
use crate::record::{Birth, Content, Place};
use crate::tally::Verified;
use crate::time::Mono;

/// Names one landing: memory in the node's own store for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: Name,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Bytes of its metadata.
    pub metadata_bytes: u64,
}

/// What became of parts of several objects that were to be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assembled {
    /// All of them, for a message.
    Whole(InlineBytes),
    /// These objects are not there.
    Missing(Vec<u16>),
}

/// Bytes of a copy that are to be read for a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPart {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// The first of them, in data and metadata, one after the other.
    pub begin: u64,
    /// Where they end.
    pub end: u64,
    /// All bytes of data and metadata.
    pub bytes: u64,
    /// The checksum of the bytes before them.
    pub crc: u32,
    /// Whether the log of the node has the copy.
    pub is_logged: bool,
}

/// What was read of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRead {
    /// The checksum of its bytes up to the end of the part; `None` where they cannot be read, or
    /// are not what the log has.
    pub crc: Option<u32>,
    /// What the object is called, if it has a name; said with its last part.
    pub name: Option<Name>,
    /// Whether the log has these bytes, as its checksums say; `None` where it has no record of
    /// them, or that cannot be read now. Said with the last part.
    pub logged: Option<bool>,
}

/// What can happen to a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its store tells something.
    Local(Call),
    /// Its store tells so many things at once, in order: what follows from all of them is done
    /// together.
    LocalMany(Vec<Call>),
    /// Messages of another node arrived.
    Peer(Envelope),
    /// The connection to another node was made or was lost.
    Link {
        /// The other node.
        peer: Slot,
        /// Whether it was made.
        up: bool,
    },
    /// The map of the pool. Each map of a running node is told, in order; after a lost lease the
    /// newest one, as soon as there is a lease again.
    Map(Arc<Map>),
    /// The lease is held, and the node may decide until then.
    Lease(Mono),
    /// The lease is gone.
    LeaseLost,
    /// The memory for a copy is there, or cannot be had.
    Landed {
        /// The landing.
        ticket: Ticket,
        /// Whether there is memory.
        room: bool,
    },
    /// The store has sealed a copy, the answer to [`Effect::Seal`]. Of one that it could not seal
    /// [`Call::Ended`] is told instead.
    CopySealed {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A segment arrived in a landing.
    Arrived {
        /// The transfer.
        transfer: TransferNo,
        /// The segment.
        segment: u32,
        /// Whether its checksum is right.
        intact: bool,
    },
    /// The bytes of a small copy that were asked for, or `None` when a copy of any size is not
    /// there any more.
    Fetched {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// Data, metadata and attributes.
        bytes: Option<InlineBytes>,
    },
    /// The connection that the segments of a transfer came over was lost.
    Interrupted(TransferNo),
    /// An operator asks where an object is; answered with [`Effect::Place`].
    Where {
        /// Comes back in the answer.
        number: u64,
        /// The object.
        id: ObjectId,
    },
    /// A program asks which objects of a namespace all nodes have; answered with
    /// [`Effect::Listed`].
    List {
        /// Comes back in the answer.
        number: u64,
        /// Which of them.
        query: ListQuery,
        /// Nodes that are not asked.
        without: Vec<Slot>,
    },
    /// What the node's own store has of a namespace, the answer to [`Effect::ListHere`]; `None`
    /// when it cannot say.
    ListedHere {
        /// The node that asked.
        peer: Slot,
        /// Its number of the question.
        question: QuestionNo,
        /// What is there.
        page: Option<ListedPage>,
    },
    /// An operator has the pool compared; answered with [`Effect::Verified`].
    Verify {
        /// Comes back in the answer.
        number: u64,
        /// How long it may take.
        within_ms: u64,
    },
    /// An operator asks for checksums of a node's copies; answered with [`Effect::Checksummed`].
    Checksum {
        /// Comes back in the answer.
        number: u64,
        /// The node.
        node: Slot,
        /// Which of its copies.
        query: ChecksumQuery,
    },
    /// Copies were read, the answer to [`Effect::ReadCopies`].
    CopiesRead {
        /// The node that asked.
        peer: Slot,
        /// Its number of the question.
        question: QuestionNo,
        /// What was read of each, `None` of one that cannot be read; `None` for all when nothing
        /// can be read now.
        read: Option<Vec<Option<CopyRead>>>,
    },
    /// A program wants to be told what happens to named objects; answered with
    /// [`Effect::Subscribed`].
    Subscribe {
        /// Names it.
        number: u64,
    },
    /// A program that subscribed is gone.
    Unsubscribe {
        /// Its number.
        number: u64,
    },
    /// What an object is called, the answer to [`Effect::Describe`]; `None` if it has no name, or
    /// is not here.
    Described {
        /// The number of the question.
        number: u64,
        /// What is known of it.
        found: Option<Description>,
    },
    /// Programs will need these objects: they are brought here.
    Prefetch(Vec<ObjectId>),
    /// Programs do not need these objects now: their copies are the first to be spilled or
    /// evicted, on every node that is told in time.
    Demote(Vec<ObjectId>),
    /// A program reads parts of an object; answered with [`Effect::Read`].
    Read {
        /// Comes back in the answer; no other read has it.
        number: u64,
        /// An id that no object has, for the local object with the parts.
        landing: ObjectId,
        /// What it asks for. It keeps the limits.
        request: ReadRequest,
    },
    /// A program reads parts of several objects; answered with [`Effect::Gathered`].
    Gather {
        /// Comes back in the answer; no other read has it.
        number: u64,
        /// An id that no object has. The local objects with the parts have ids that differ from it
        /// in the first four bytes.
        landing: ObjectId,
        /// What it asks for. It keeps the limits.
        request: GatherRequest,
    },
    /// The program that reads this does not want it any more; it is not answered.
    EndRead(u64),
    /// A program asks something of a region; answered with [`Effect::Region`].
    Region {
        /// Comes back in the answer; no other question has it.
        number: u64,
        /// What asks: a region that it allocates ends with it, unless it is sealed before.
        owner: u64,
        /// What it asks. It keeps the limits.
        request: RegionRequest,
    },
    /// What allocated regions by this number is gone.
    RegionOwnerGone(u64),
    /// The memory of a region is there, the answer to [`Effect::Allocate`], or the store refused.
    Allocated {
        /// The region.
        id: ObjectId,
        /// Why there is none.
        result: Result<(), Code>,
    },
    /// A region was sealed, the answer to [`Effect::SealRegion`], or could not be.
    RegionSealed {
        /// The region.
        id: ObjectId,
        /// Whether it is an object now, whatever the result says.
        is_sealed: bool,
        /// Why it is not, or has not as many copies as were asked for.
        result: Result<(), Code>,
    },
    /// The parts of [`Effect::Gather`] are put together.
    Assembled {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// What came of it.
        outcome: Assembled,
    },
    /// An operator has found that copies of a node are not right. It is not answered.
    Repair {
        /// The node.
        node: Slot,
        /// The copies.
        copies: Vec<CopyRepair>,
    },
    /// Content arrives from another node, though perhaps no segment has ended: what is asked of it
    /// has its turn.
    Moving(Slot),
    /// A deadline passed.
    Time,
}

/// What a node asks to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send messages.
    Send {
        /// The receiver.
        to: Slot,
        /// The messages.
        envelope: Envelope,
    },
    /// Tell the store.
    Tell(Told),
    /// Make memory for a copy; answered with [`Event::Landed`].
    Land {
        /// Names it.
        ticket: Ticket,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
    },
    /// Accept the segments of a transfer into a landing, once its memory is there; each is answered
    /// with [`Event::Arrived`], and [`Event::Interrupted`] says that no more will come.
    Accept {
        /// The transfer.
        transfer: TransferNo,
        /// The landing.
        ticket: Ticket,
        /// The node that sends them.
        source: Slot,
        /// How many are asked for.
        segments: u32,
    },
    /// Accept no more segments of a transfer; those that arrive are thrown away.
    Refuse(TransferNo),
    /// Put these bytes, which are the whole object, into a landing whose memory is there.
    Fill {
        /// The landing.
        ticket: Ticket,
        /// Data, metadata and attributes.
        bytes: InlineBytes,
    },
    /// The copy is complete; answered with [`Event::CopySealed`]. What is told of the object after
    /// this is about the sealed copy.
    Seal {
        /// The landing.
        ticket: Ticket,
        /// Whether clients may see it.
        visible: bool,
        /// Whether it is never evicted.
        keep: bool,
    },
    /// The landing is not needed any more.
    Abandon(Ticket),
    /// Send segments over the bulk lane; the copy is pinned until [`Effect::EndServe`]. One that is
    /// not there any more is answered with [`Event::Fetched`].
    Serve {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// What is read of it; `None`: all of it.
        spans: Option<Vec<Span>>,
        /// The segments of that.
        ranges: Vec<SegmentRange>,
    },
    /// Read a small copy; answered with [`Event::Fetched`], unless [`Effect::EndServe`] comes
    /// first.
    Fetch {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// What is read of it; `None`: all of it.
        spans: Option<Vec<Span>>,
    },
    /// Put parts of these objects together. Where they have
    /// [`INLINE_BYTES_MAX`](crate::limits::INLINE_BYTES_MAX) bytes at most, or an object is not
    /// there, this is answered with [`Event::Assembled`]; else they are sent as a segment over the
    /// bulk lane, until [`Effect::EndServe`].
    Gather {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
        /// What is wanted.
        parts: Vec<ObjectParts>,
    },
    /// Send no more of a transfer, and unpin the copy.
    EndServe {
        /// The receiver.
        peer: Slot,
        /// Its number of the transfer.
        transfer: TransferNo,
    },
    /// Report to the leader of the pool: this node leads the group, and all acting nodes have
    /// every record. Repeated until the map says so.
    Report {
        /// The group.
        group: GroupNo,
        /// Since which map it has its acting nodes.
        since: Epoch,
    },
    /// Report to the leader of the pool and to operators what draining nodes have that is not
    /// elsewhere yet, instead of what was reported before.
    ReportDrains(Vec<DrainReport>),
    /// The answer to [`Event::Read`]. The local object was sealed by an effect before.
    Read {
        /// The number of the read.
        number: u64,
        /// What became of it.
        reply: ReadReply,
    },
    /// Make memory for a region of this node; answered with [`Event::Allocated`].
    Allocate {
        /// The region.
        id: ObjectId,
        /// Bytes of its data.
        bytes: u64,
        /// How many nodes shall have the sealed object.
        copies: u8,
        /// How many at least.
        copies_min: u8,
    },
    /// Put bytes into the memory of a region, which is there and has room for them.
    WriteRegion {
        /// The region.
        id: ObjectId,
        /// Where.
        offset: u64,
        /// The bytes.
        bytes: InlineBytes,
    },
    /// Seal a region whose memory is there; answered with [`Event::RegionSealed`].
    SealRegion(ObjectId),
    /// Give up a region whose memory is there.
    EndRegion(ObjectId),
    /// The answer to [`Event::Region`].
    Region {
        /// The number of the question.
        number: u64,
        /// What became of it.
        reply: RegionReply,
    },
    /// A local object of a gather was sealed by an effect before.
    GatherLanded {
        /// The number of the gather.
        number: u64,
        /// The local object.
        object: ObjectId,
    },
    /// The answer to [`Event::Gather`]. Its local objects were told before.
    Gathered {
        /// The number of the gather.
        number: u64,
        /// What became of it.
        reply: GatherReply,
    },
    /// The answer to [`Event::Where`].
    Place {
        /// The number of the question.
        number: u64,
        /// What the directory knows.
        place: Place,
    },
    /// Ask the store for a page of a namespace; answered with [`Event::ListedHere`].
    ListHere {
        /// The node that asks.
        peer: Slot,
        /// Its number of the question.
        question: QuestionNo,
        /// Which objects.
        query: ListQuery,
    },
    /// Read these parts of copies, one after the other and no faster than is good for the
    /// programs of the machine; answered with [`Event::CopiesRead`].
    ReadCopies {
        /// The node that asks.
        peer: Slot,
        /// Its number of the question.
        question: QuestionNo,
        /// What is read.
        parts: Vec<CopyPart>,
    },
    /// Make these copies the first that the store spills or evicts.
    Demote(Vec<ObjectId>),
    /// The answer to [`Event::Checksum`].
    Checksummed {
        /// The number of the question.
        number: u64,
        /// What the node read; `None` when it does not answer.
        page: Option<ChecksumPage>,
    },
    /// Ask the store what an object is called, before it is told anything else; answered with
    /// [`Event::Described`].
    Describe {
        /// Comes back in the answer.
        number: u64,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A program that subscribed is told what happens from now on.
    Subscribed {
        /// Its number.
        number: u64,
    },
    /// Tell every program that subscribed.
    Notice(PoolNotice),
    /// Tell every program that subscribed that notices were lost at this point, and that their
    /// number is not known.
    NoticesLost,
    /// The answer to [`Event::List`].
    Listed {
        /// The number of the question.
        number: u64,
        /// What the nodes have that answered.
        page: ListedPage,
        /// The nodes that did not, and may have more.
        missing: Vec<Slot>,
    },
    /// The answer to [`Event::Verify`].
    Verified {
        /// The number of the question.
        number: u64,
        /// What the nodes found.
        verified: Verified,
    },
}
