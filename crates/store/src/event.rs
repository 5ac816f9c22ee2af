//! The events of a store: its inputs.

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Access, Failure, PendingObject, Request};
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::pool::{Birth, Origin};
use plasmon_proto::ring::{Put, Submission};
use plasmon_proto::{Attributes, Code, ObjectId};

use crate::ports::{Entry, SlotNo};

/// A connected client, numbered by the daemon; a number is used again after `Disconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNo(pub u32);

/// Names one piece of work that the store asked the daemon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The client that connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its name for itself.
    pub name: String,
    /// What it may do.
    pub access: Access,
    /// Whether it has a channel; without one its pins are counted by the store.
    pub channel: bool,
    /// The number of its session: the same for all daemons of the store, another for each session.
    pub session: u64,
}

/// A sealed object that a restarted daemon found in the index or in the spill tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredObject {
    /// The id.
    pub id: ObjectId,
    /// Its incarnation.
    pub serial: u64,
    /// Where it is, `None` when it is spilled.
    pub range: Option<Range>,
    /// Sizes, traits and times: a time to live counts from the seal.
    pub meta: ObjectMeta,
    /// Its attributes.
    pub attributes: Attributes,
    /// Whether it was already hidden, that is deleted but pinned, when the daemon died.
    pub hidden: bool,
    /// Its slot in the index; without meaning when it is spilled.
    pub slot: SlotNo,
    /// The record number in that slot; without meaning when it is spilled.
    pub record: u32,
    /// Its record in the log, for a durable object that is out of memory.
    pub lsn: Option<Lsn>,
}

impl RecoveredObject {
    /// One that the index lists, visible or hidden.
    pub fn in_memory(slot: SlotNo, entry: &Entry, visible: bool, attributes: Attributes) -> Self {
        let Entry { id, serial, range, meta, record } = *entry;
        let (range, hidden, lsn) = (Some(range), !visible, None);
        Self { id, serial, range, meta, attributes, hidden, slot, record, lsn }
    }

    /// One that is in the spill tier alone.
    pub fn spilled(id: ObjectId, serial: u64, meta: ObjectMeta, attributes: Attributes) -> Self {
        let (range, hidden, slot, record, lsn) = (None, false, 0, 0, None);
        Self { id, serial, range, meta, attributes, hidden, slot, record, lsn }
    }
}

/// Names a record of the log, for ever.
pub type Lsn = u64;

/// A durable object that was found in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedObject {
    /// The id.
    pub id: ObjectId,
    /// Its record.
    pub lsn: Lsn,
    /// Sizes, traits and times: a time to live counts from the seal.
    pub meta: ObjectMeta,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Why the log does not have what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFailure {
    /// [`Code::StoreFull`] when it has no room, [`Code::BadRequest`] when the content is not what
    /// it has to be; it goes on. Else [`Code::Io`]: it takes nothing more.
    pub code: Code,
    /// The reason, for a person.
    pub detail: String,
}

impl LogFailure {
    pub(crate) fn about(self, id: ObjectId) -> Failure {
        Failure::of(self.code).with_id(id).with_detail(self.detail)
    }
}

/// How reading a spilled object back ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBack {
    /// Its bytes are in the memory that was reserved for them.
    Done,
    /// It is lost for certain: its bytes are wrong, or its file does not exist.
    Corrupt,
    /// It could not be read now. Nothing is known to be wrong with it.
    Failed,
}

/// How opening a spilled object's file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedFile {
    /// The daemon has its descriptor; the object's data starts here.
    At(u64),
    /// The object is lost for certain: its file is not what was written, or does not exist.
    Corrupt,
    /// It could not be opened now. Nothing is known to be wrong with it.
    Failed,
}

/// What was found when a record of the log, or a file of the spill tier, was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCheck {
    /// It is right. The CRC32C of data and metadata.
    Right(u32),
    /// It is not what was written.
    Damaged,
    /// It could not be read now. Nothing is known to be wrong with it.
    Failed,
}

/// Which object is sealed, and under which id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealTarget {
    /// The id that it was created with.
    pub id: ObjectId,
    /// The id that it has from now on; an object of that id is replaced unless it is the same.
    pub target: ObjectId,
}

/// Which growing object is sealed, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrownSeal {
    /// The id that it was created with.
    pub id: ObjectId,
    /// The id that it has from now on: the same, or one of the pool.
    pub target: ObjectId,
    /// Bytes of its data.
    pub data: u64,
    /// Bytes of its attributes, which follow the data.
    pub attributes: u32,
}

impl GrownSeal {
    /// The sizes of the object.
    pub fn sizes(&self) -> Sizes {
        Sizes { data: self.data, metadata: 0, attributes: self.attributes.into() }
    }
}

/// Which copy of another node is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealLanded {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// Whether clients may see it.
    pub visible: bool,
    /// Whether it is never evicted.
    pub keep: bool,
}

/// One event. Events of one client arrive in the order in which the client caused them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client connected.
    Connect(ClientNo, Peer),
    /// A client that was away has a connection again, and still holds this. Answered with
    /// [`crate::Effect::Resumed`] before anything else is said to the client.
    Resume(ClientNo, Vec<Range>, Vec<PendingObject>),
    /// Its connection broke, and something is lent to it ([`crate::Store::is_lent_to`]) that it may
    /// be writing to. Its ring goes on. `Resume` or `Disconnect` follows.
    Part(ClientNo),
    /// It is gone; its submissions were all delivered before. What it was creating ends now and its
    /// leases are free, so the daemon sends this when nothing of the client writes any more.
    Disconnect(ClientNo),
    /// It asked something. `Hello`, `Index`, `Extents`, `Clients`, `Sync` and `Shutdown` are the
    /// daemon's own and never arrive here.
    Request(ClientNo, u64, Request),
    /// It asked to seal an object, and the daemon read the attributes after the metadata, which
    /// [`crate::Store::creating`] locates; `None` means that they are no attributes. For an object
    /// without attributes, a plain `Request` does as well.
    Seal(ClientNo, u64, SealTarget, Option<Attributes>),
    /// It asked to seal a copy of another node, and the daemon read the attributes after the
    /// metadata, as for [`Event::Seal`].
    SealLanded(ClientNo, u64, SealLanded, Option<Attributes>),
    /// It asked to seal a growing object as one of the pool, and the daemon read the attributes
    /// after the data, as for [`Event::Seal`].
    SealGrown(ClientNo, u64, GrownSeal, Option<Attributes>),
    /// It asked to put a durable object that lies in its leases, under this id. The attributes are
    /// those that the daemon read after the metadata, or it says why the object is refused.
    PutDurable(ClientNo, u64, Put, ObjectId, Result<Attributes, Failure>),
    /// It asked for the seat of the pool daemon, and its token was the right one. This node is in
    /// this slot of the pool; the number of the store is its boot.
    Agent(ClientNo, u64, Origin),
    /// It submitted a record at this position of its ring. For a `Put`, the daemon read the
    /// attributes from the memory; `None` means that they are no attributes or the range is not
    /// there.
    Submit(ClientNo, u64, Submission, Option<Attributes>),
    /// It read the object with this record number.
    Touched(u32),
    /// The memory asked for with [`crate::effect::Effect::Reserve`] is there, or is not.
    Reserved(Ticket, bool),
    /// The memory of this range is still there, although it was to be given back with
    /// [`crate::effect::Effect::Punch`].
    Unpunched(Range),
    /// So many bytes of an extent that was dropped are still there, because another process has it
    /// mapped and does not let it go. They are gone with [`Event::Released`].
    Retained(ExtentId, u64),
    /// The memory of an extent that was dropped is gone.
    Released(ExtentId),
    /// The kernel refuses every write to the extent now, or would not because a process still maps
    /// it. For [`crate::effect::Effect::Settle`]: the extent has its final size, or has not.
    Hardened(Ticket, bool),
    /// An object's bytes were written to the spill tier, or were not.
    Spilled(Ticket, bool),
    /// An object was read back, or was not.
    Restored(Ticket, ReadBack),
    /// An object's file was opened, or was not.
    Opened(Ticket, OpenedFile),
    /// An object is in the log, as this record, whatever happens to the machine; or it is not.
    Logged(Ticket, Result<Lsn, LogFailure>),
    /// That a record of the log is dead is in the log; or it is not.
    Unlogged(Ticket, Result<(), LogFailure>),
    /// A record of the log, or a file of the spill tier, was read.
    LogChecked(Ticket, RecordCheck),
    /// The log has failed while nothing was put, and takes nothing more; the reason, for a person.
    LogFailed(String),
    /// The log's record of this object was found damaged.
    LogDamaged(ObjectId, Lsn),
    /// Nothing but time.
    Tick,
}

/// An extent that a restarted daemon took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredExtent {
    /// Its number.
    pub extent: ExtentId,
    /// Its size.
    pub bytes: u64,
    /// Whether its present writer may still be alive and come back with its leases; nothing in it
    /// is given out before that one resumes or is gone. [`crate::Store::writer_back`] says who it
    /// is.
    pub quarantined: bool,
    /// What of it can be in its writer's hands: the last [`crate::effect::Effect::Lent`], `None`
    /// when that is not known.
    pub lent: Option<Range>,
    /// Whether the kernel refuses every write to it.
    pub strict: bool,
    /// How many bytes of it the machine has given.
    pub resident_bytes: u64,
}
