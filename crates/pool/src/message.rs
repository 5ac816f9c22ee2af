//! The messages between nodes, and how they become bytes.
//!
//! Every message about content names the id and the birth, so that a late one can do nothing to
//! another incarnation. All of them may arrive twice; none may overtake another of its connection.
//! The first two bytes of an envelope are the version of the protocol, little-endian; the rest is
//! postcard.

use plasmon_cluster::limits::NODES_MAX;
use plasmon_cluster::{Epoch, GroupNo, ProtocolRange, Slot};
use plasmon_proto::ObjectId;
pub use plasmon_proto::inline::InlineBytes;
use plasmon_proto::limits::{GATHER_READS_MAX, REQUEST_IDS_MAX};
use plasmon_proto::parts::{self, Span};
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery, CopyRepair};
use plasmon_proto::pool_listing::{ListQuery, ListedPage};
pub use plasmon_proto::pool_notice::PoolNotice;
use plasmon_proto::region::{RegionReply, RegionRequest};
use serde::{Deserialize, Serialize};

use crate::limits::{
    COPIES_MAX, ENVELOPE_BYTES_MAX, INLINE_BYTES_MAX, INVENTORY_ENTRIES_MAX, MESSAGES_MAX,
    NOTICES_MAX, READ_RANGES_MAX, SOURCES_MAX,
};
use crate::object_parts;
pub use crate::object_parts::ObjectParts;
use crate::record::{Birth, Content, Place, Record, Version, is_copies};
use crate::tally::Tally;

/// The versions of the protocol between nodes that this code speaks.
pub const PROTOCOL: ProtocolRange = ProtocolRange { min: 6, max: 6 };

/// Some messages of one node to another, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The map that the sender knows.
    pub epoch: Epoch,
    /// The sender.
    pub from: Slot,
    /// The start of the sender's pool daemon that sends it.
    pub incarnation: u64,
    /// The messages.
    pub messages: Vec<Message>,
}

/// The number of a question about an id, by which its node knows the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionNo(pub u64);

/// The number of a transfer, drawn by the node that receives the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransferNo(pub u64);

/// Segments `first` to `first + count`, without the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRange {
    /// The first segment.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// How a commit ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitOutcome {
    /// The object exists for all nodes, with as many copies as were asked for, or as there can be.
    Done,
    /// Another object has the id.
    Exists,
    /// Fewer nodes are live than the copies that it needs at least.
    NotEnoughNodes,
    /// No node has room for the copies that it needs at least.
    StoreFull,
    /// The id was deleted, and this node may still have a copy of the deleted object. The commit
    /// is asked again until it is gone.
    InUse(Slot),
    /// It is not decided yet, and waits for other nodes. The commit is asked again.
    Waiting,
    /// The same, and bytes of the copies that it waits for came a moment ago.
    Moving,
    /// Fewer nodes that have a log are live than the copies that a durable object needs at least.
    NotEnoughLogs,
}

/// What the directory answers about an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It exists; these nodes have it.
    Found {
        /// The incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
        /// Nodes to ask for them, the best first.
        sources: Vec<Slot>,
        /// Whether the asking node is one of those that keep a copy.
        keeps: bool,
    },
    /// It does not exist.
    Absent,
    /// It was deleted.
    Deleted,
    /// It may have existed, and no node has a copy.
    Lost(Birth),
    /// It exists, and every copy is damaged. A question that asks for no bytes is answered that it
    /// exists, without sources.
    Damaged(Birth),
}

/// How a holder answers [`Message::Hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldOutcome {
    /// It has the object and keeps it; a durable one is in its log.
    Held,
    /// It has no room, in its memory or in its log.
    NoRoom,
    /// It does not have it, and was not asked to get it.
    Absent,
    /// It made the object and knows that its commit was refused, so that can never succeed.
    Withdrawn,
    /// Said without having been asked: it has a copy that it does not keep.
    Cached,
    /// It is getting the object, and bytes of it came a moment ago.
    Arriving,
    /// Said without having been asked: it holds a copy that its clients cannot see.
    Hidden,
    /// It has the object, and its log takes nothing.
    NoLog,
    /// It has the object and keeps it; a durable one is not in its log.
    Unlogged,
    /// It has a copy that is damaged, which it keeps until it is told [`Message::Discard`]. Also
    /// said without having been asked.
    Damaged,
}

/// A copy as its node describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyEntry {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// Its bytes.
    pub content: Content,
    /// What the node knows of it.
    pub standing: Standing,
    /// Whether its store is known never to evict it, and has a durable one in its log.
    pub kept: bool,
}

/// What a node knows of its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It was committed: clients of the node can see it.
    Committed,
    /// It is held for a commit that may not have succeeded yet, or is still on its way.
    Held,
    /// It was made here, and its commit has not been answered yet.
    Unanswered,
    /// It is on its way here.
    Arriving,
    /// It is no copy: the log of the node has noted that this incarnation was deleted.
    Dead,
}

/// Why a holder does not serve a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadRefusal {
    /// It does not have the object.
    Absent,
    /// It serves as many transfers as it may.
    Busy,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Origin to primary: this object is complete here, let it exist.
    Commit {
        /// The object.
        id: ObjectId,
        /// Its incarnation; its slot is the sender's.
        birth: Birth,
        /// Its bytes.
        content: Content,
        /// How many copies it shall have.
        copies: u8,
        /// How many it has at least before it is acknowledged.
        copies_min: u8,
    },
    /// The answer to it.
    Committed {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// How it ended.
        outcome: CommitOutcome,
    },
    /// Any node to primary: what is with this id? The sender counts as having a copy from then on.
    Find {
        /// The object.
        id: ObjectId,
        /// Comes back in the answer.
        question: QuestionNo,
        /// Whether to answer again when an absent object is created.
        watch: bool,
    },
    /// The answer to it.
    Answered {
        /// The object.
        id: ObjectId,
        /// The number of the question.
        question: QuestionNo,
        /// What the directory knows.
        answer: Answer,
    },
    /// Any node to primary: the sender does not wait for this id any more.
    Unwatch {
        /// The object.
        id: ObjectId,
    },
    /// Any node to primary: end this incarnation.
    Delete {
        /// The object.
        id: ObjectId,
        /// The incarnation that the sender saw.
        birth: Birth,
    },
    /// The answer to it: the incarnation has ended.
    Deleted {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Primary to acting nodes: keep this, unless what you have is newer.
    Record {
        /// Since which map the group has its acting nodes.
        since: Epoch,
        /// The object.
        id: ObjectId,
        /// Orders the updates.
        version: Version,
        /// The record, `None` to forget it.
        record: Option<Record>,
    },
    /// The answer to it.
    Recorded {
        /// As in the question.
        since: Epoch,
        /// The object.
        id: ObjectId,
        /// The version that is kept, or a newer one is.
        version: Version,
    },
    /// Primary to holder: keep a copy.
    Hold {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
        /// Nodes that have it; empty to ask only.
        sources: Vec<Slot>,
        /// Whether it exists already, so that clients may see the copy.
        live: bool,
    },
    /// The answer to it, once it is clear.
    Held {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// How it ended.
        outcome: HoldOutcome,
    },
    /// Primary to holder: the object exists now, let clients see the copy.
    Publish {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Primary to holders and caches: end your copy, then say [`Message::Gone`].
    Drop {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Whether it existed, so that its commit succeeded.
        existed: bool,
    },
    /// Holder to primary: there is no copy of this here.
    Gone {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Any node to the home of an id: do you have it?
    Open {
        /// The object.
        id: ObjectId,
        /// Comes back in the answer.
        question: QuestionNo,
    },
    /// The answer to it.
    Opened {
        /// The object.
        id: ObjectId,
        /// The number of the question.
        question: QuestionNo,
        /// What is there.
        copy: Option<(Birth, Content)>,
    },
    /// Receiver to holder: send these segments over the bulk lane, or a small object in a message.
    Read {
        /// The number of the transfer.
        transfer: TransferNo,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// The segments that are missing.
        ranges: Vec<SegmentRange>,
    },
    /// The answer when it does not.
    ReadRefused {
        /// The number of the transfer.
        transfer: TransferNo,
        /// Why.
        refusal: ReadRefusal,
    },
    /// Receiver to holder: everything has arrived, or nothing more is wanted.
    EndRead {
        /// The number of the transfer.
        transfer: TransferNo,
    },
    /// New primary to the one before: do you know that you lead these groups no more?
    Yield {
        /// The groups, with the map since which they have their acting nodes.
        groups: Vec<(GroupNo, Epoch)>,
    },
    /// The answer: yes, these.
    Yielded {
        /// The groups.
        groups: Vec<(GroupNo, Epoch)>,
    },
    /// Primary to every node: which copies of these groups do you have?
    Survey {
        /// The groups, with the map since which they have their acting nodes.
        groups: Vec<(GroupNo, Epoch)>,
    },
    /// The answer, in pages that each have all of their groups; a group of more copies than fit
    /// has pages of its own, all but the last of which say `more`.
    Inventory {
        /// The groups.
        groups: Vec<(GroupNo, Epoch)>,
        /// The copies in them.
        copies: Vec<CopyEntry>,
        /// Whether a further page has more of the same group.
        more: bool,
    },
    /// Reader to primary: this node is said to have the object, and does not serve it.
    Missing {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// The node.
        holder: Slot,
    },
    /// Primary to acting nodes: the records of the group were lost and made again, and these nodes
    /// have not said since which copies they have.
    Unheard {
        /// The group.
        group: GroupNo,
        /// Since which map it has its acting nodes.
        since: Epoch,
        /// Orders the updates.
        version: Version,
        /// The nodes.
        nodes: Vec<Slot>,
    },
    /// The answer to it.
    UnheardRecorded {
        /// The group.
        group: GroupNo,
        /// As in the question.
        since: Epoch,
        /// The version that is kept, or a newer one is.
        version: Version,
    },
    /// Holder to receiver, the answer to [`Message::Read`] for an object of at most
    /// [`INLINE_BYTES_MAX`] bytes: all of them. The transfer has ended for the holder.
    Whole {
        /// The number of the transfer.
        transfer: TransferNo,
        /// Data, metadata and attributes.
        bytes: InlineBytes,
    },
    /// Any node to primary: what does your record of this id say? It changes nothing.
    Where {
        /// The object.
        id: ObjectId,
        /// Comes back in the answer.
        question: QuestionNo,
    },
    /// The answer to it.
    Place {
        /// The object.
        id: ObjectId,
        /// The number of the question.
        question: QuestionNo,
        /// What the record says.
        place: Place,
    },
    /// Any node to any node: which objects of a namespace can your clients see?
    List {
        /// Comes back in the answer.
        question: QuestionNo,
        /// Which of them.
        query: ListQuery,
    },
    /// The answer to it.
    Listed {
        /// The number of the question.
        question: QuestionNo,
        /// What is there.
        page: ListedPage,
    },
    /// Primary to a holder that drains: your copy counts no more, and may be evicted.
    Release {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Any node to every node: compare the records of the groups that you lead with what the nodes
    /// have.
    Verify {
        /// Comes back in the answer.
        question: QuestionNo,
    },
    /// The answer to it.
    Verified {
        /// The number of the question.
        question: QuestionNo,
        /// What was found.
        tally: Tally,
    },
    /// Any node to any node: tell me what happens on you to named objects, or do not any more.
    Watch {
        /// Comes back in the answer.
        question: QuestionNo,
        /// Whether to tell.
        on: bool,
    },
    /// The answer to it: what happens from now on is told, over this connection.
    Watching {
        /// The number of the question.
        question: QuestionNo,
    },
    /// To a node that watches: this happened here, in order; none: some notices were lost.
    Noticed {
        /// What happened.
        notices: Vec<PoolNotice>,
    },
    /// Any node to primary: as [`Message::Find`], but the node will have no copy. Nothing is
    /// remembered of the question.
    Locate {
        /// The object.
        id: ObjectId,
        /// Comes back in the answer.
        question: QuestionNo,
    },
    /// Receiver to holder: as [`Message::Read`], of an object that is made of these spans, one
    /// after the other.
    ReadParts {
        /// The number of the transfer.
        transfer: TransferNo,
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// What is wanted of its data and metadata.
        spans: Vec<Span>,
        /// The segments that are missing of the bytes of the spans.
        ranges: Vec<SegmentRange>,
    },
    /// Any node to the home of a region: do this.
    Region {
        /// Comes back in the answer.
        question: QuestionNo,
        /// What.
        request: RegionRequest,
    },
    /// The answer to it.
    RegionAnswered {
        /// The number of the question.
        question: QuestionNo,
        /// What became of it.
        reply: RegionReply,
    },
    /// Home to the node that allocated a region: it is sealed or freed.
    RegionOver {
        /// The region.
        id: ObjectId,
    },
    /// Receiver to holder: as [`Message::Read`], of an object of one segment that is made of parts
    /// of these objects ([`object_parts`]).
    Gather {
        /// The number of the transfer.
        transfer: TransferNo,
        /// What it is made of.
        parts: Vec<ObjectParts>,
    },
    /// The answer to [`Message::Gather`] when some of the objects are not there; the transfer has
    /// ended for the holder.
    GatherRefused {
        /// The number of the transfer.
        transfer: TransferNo,
        /// Which of the objects; none of the others was sent either.
        missing: Vec<u16>,
    },
    /// Primary to a node that said [`HoldOutcome::Cached`]: it is known.
    Noted {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Any node to any node: what are the checksums of your copies?
    Checksum {
        /// Comes back in the answer.
        question: QuestionNo,
        /// Which of them.
        query: ChecksumQuery,
    },
    /// The answer to it.
    Checksummed {
        /// The number of the question.
        question: QuestionNo,
        /// What was read.
        page: ChecksumPage,
    },
    /// Any node to every node: your copies of these are not needed now. It is not answered; a node
    /// that does not hear it spills or evicts them in the order of their use.
    Demote {
        /// The objects.
        ids: Vec<ObjectId>,
    },
    /// Primary to a node that said [`Standing::Dead`]: no node has a copy of this incarnation any
    /// more, or it exists; your log need not note its end.
    RemoveTombstone {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Primary to a node that said [`HoldOutcome::Damaged`]: another node has what is right, so end
    /// your copy, and then say [`Message::Gone`]. The object exists as before.
    Discard {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Any node to any node: an operator has found your copy not to be right.
    Repair {
        /// The copy, and what is wrong with it.
        copy: CopyRepair,
    },
}

/// Why bytes are not an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnvelope {
    /// Longer than an envelope may be.
    #[error("an envelope has {ENVELOPE_BYTES_MAX} bytes at most, found {found}")]
    TooLong {
        /// The bytes found.
        found: usize,
    },
    /// A version that this code does not speak.
    #[error("protocol version {found} is not between {} and {}", PROTOCOL.min, PROTOCOL.max)]
    Version {
        /// The version found.
        found: u16,
    },
    /// Bytes that mean nothing, or too few or too many of them.
    #[error("the bytes are not an envelope")]
    Malformed,
    /// A number or a list that is beyond its limit.
    #[error("message {index} of the envelope breaks a limit")]
    Limit {
        /// Which message.
        index: usize,
    },
    /// More messages than an envelope may have.
    #[error("an envelope has {MESSAGES_MAX} messages at most, found {found}")]
    Messages {
        /// How many.
        found: usize,
    },
}

impl Envelope {
    /// The bytes of the envelope; `None` when they are more than an envelope may have.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let start = PROTOCOL.max.to_le_bytes().to_vec();
        let bytes = postcard::to_extend(self, start).ok()?;
        (bytes.len() <= ENVELOPE_BYTES_MAX).then_some(bytes)
    }

    /// The envelope in these bytes, which another machine sent.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEnvelope> {
        if bytes.len() > ENVELOPE_BYTES_MAX {
            return Err(BadEnvelope::TooLong { found: bytes.len() });
        }
        let Some((version, body)) = bytes.split_first_chunk() else {
            return Err(BadEnvelope::Malformed);
        };
        let found = u16::from_le_bytes(*version);
        if !(PROTOCOL.min..=PROTOCOL.max).contains(&found) {
            return Err(BadEnvelope::Version { found });
        }
        match postcard::take_from_bytes::<Self>(body) {
            Ok((envelope, [])) => envelope.check().map(|()| envelope),
            Ok(_) | Err(_) => Err(BadEnvelope::Malformed),
        }
    }

    fn check(&self) -> Result<(), BadEnvelope> {
        let found = self.messages.len();
        if found > MESSAGES_MAX {
            return Err(BadEnvelope::Messages { found });
        }
        let wrong = self.messages.iter().position(|message| !message.keeps_limits());
        wrong.map_or(Ok(()), |index| Err(BadEnvelope::Limit { index }))
    }
}

impl Message {
    fn keeps_limits(&self) -> bool {
        match self {
            Self::Commit { id, content, copies, copies_min, .. } => {
                id.is_pooled() && content.is_movable() && is_copies(*copies, *copies_min)
            }
            Self::Answered { answer: Answer::Found { content, sources, .. }, .. } => {
                content.is_movable() && sources.len() <= SOURCES_MAX
            }
            Self::Record { record, .. } => record.as_ref().is_none_or(Record::is_valid),
            Self::Unheard { nodes, .. } => nodes.len() <= NODES_MAX,
            Self::Hold { content, sources, .. } => {
                content.is_movable() && sources.len() <= COPIES_MAX
            }
            Self::Place { place, .. } => place.keeps_limits(),
            Self::List { query, .. } => query.keeps_limits(),
            Self::Listed { page, .. } => page.keeps_limits(),
            Self::Verified { tally, .. } => tally.keeps_limits(),
            Self::Checksum { query, .. } => query.keeps_limits(),
            Self::Checksummed { page, .. } => page.keeps_limits(),
            Self::Demote { ids } => {
                ids.len() <= REQUEST_IDS_MAX && ids.iter().all(ObjectId::is_pooled)
            }
            Self::Noticed { notices } => notices.len() <= NOTICES_MAX,
            Self::Opened { copy, .. } => copy.is_none_or(|(_, content)| content.is_movable()),
            Self::Read { ranges, .. } => ranges.len() <= READ_RANGES_MAX,
            Self::ReadParts { spans, ranges, .. } => {
                ranges.len() <= READ_RANGES_MAX && parts::bytes_of(spans).is_some()
            }
            Self::Region { request, .. } => request.is_valid(),
            Self::Gather { parts, .. } => object_parts::bytes_of(parts).is_some(),
            Self::GatherRefused { missing, .. } => missing.len() <= GATHER_READS_MAX,
            Self::Whole { bytes, .. } => bytes.0.len() as u64 <= INLINE_BYTES_MAX,
            Self::Yield { groups } | Self::Yielded { groups } | Self::Survey { groups } => {
                groups.len() <= INVENTORY_ENTRIES_MAX
            }
            Self::Inventory { groups, copies, .. } => {
                groups.len() <= INVENTORY_ENTRIES_MAX
                    && copies.len() <= INVENTORY_ENTRIES_MAX
                    && copies.iter().all(|copy| copy.content.is_movable())
            }
            Self::Committed { .. }
            | Self::Find { .. }
            | Self::Answered { .. }
            | Self::Unwatch { .. }
            | Self::Delete { .. }
            | Self::Deleted { .. }
            | Self::Recorded { .. }
            | Self::UnheardRecorded { .. }
            | Self::Held { .. }
            | Self::Publish { .. }
            | Self::Drop { .. }
            | Self::Gone { .. }
            | Self::Noted { .. }
            | Self::RemoveTombstone { .. }
            | Self::Discard { .. }
            | Self::Repair { .. }
            | Self::Open { .. }
            | Self::ReadRefused { .. }
            | Self::EndRead { .. }
            | Self::Missing { .. }
            | Self::Locate { .. }
            | Self::Watch { .. }
            | Self::Watching { .. }
            | Self::Where { .. }
            | Self::Release { .. }
            | Self::RegionAnswered { .. }
            | Self::RegionOver { .. }
            | Self::Verify { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests;
