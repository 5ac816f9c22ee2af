//! The effects of a store: its requests to the daemon.

use plasmon_proto::Attributes;
use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Grant, MissingClaims, Notice, Reply, SpillFile};
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::pool::Call;
use plasmon_proto::pool_adoption::AdoptionCall;
use plasmon_proto::ring::Completion;

use crate::event::{ClientNo, Lsn, Ticket};

/// A record of the log that has no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteOrder {
    /// Its id.
    pub id: ObjectId,
    /// Sizes of zero, and when it was made.
    pub meta: ObjectMeta,
    /// What it says.
    pub attributes: Attributes,
}

/// One effect. Effects are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a request.
    Reply(ClientNo, u64, Reply),
    /// Answer a `Lease` request, with the extent's writable descriptor.
    Lease(ClientNo, u64, Grant),
    /// Answer a `Create` request, with the extent's writable descriptor.
    Created(ClientNo, u64, Grant),
    /// A client that came back is told what of the memory that it named it does not have.
    Resumed(ClientNo, MissingClaims),
    /// Put a record into a client's completion ring.
    Complete(ClientNo, Completion),
    /// Tell a subscriber, in order with its other notices.
    Notify(ClientNo, Notice),
    /// Tell the client with the seat of the pool daemon, in order.
    Call(ClientNo, Call),
    /// Tell it something about namespaces that are adopted.
    CallAdoption(ClientNo, AdoptionCall),
    /// Have memory ready: make the extent first if it is new, then allocate the range. The daemon
    /// answers with [`crate::event::Event::Reserved`]. When a new extent was refused, a
    /// [`Effect::Drop`] of it follows, whether or not it was made.
    Reserve {
        /// Names the work.
        ticket: Ticket,
        /// The size of the extent to make, `None` when it exists.
        new_extent_bytes: Option<u64>,
        /// The range.
        range: Range,
        /// Whether the extent's one object will be protected by the kernel.
        strict: bool,
    },
    /// Have memory at the end of an extent that grows; the daemon answers as for
    /// [`Effect::Reserve`].
    Extend {
        /// Names the work.
        ticket: Ticket,
        /// Whether the extent must be made first.
        new_extent: bool,
        /// What is to be there; an extent that exists ends where it begins.
        range: Range,
    },
    /// Fix the size of an extent that grew, for good, and forbid every further write if it is
    /// strict. Answered with [`crate::event::Event::Hardened`].
    Settle {
        /// Names the work.
        ticket: Ticket,
        /// The extent.
        extent: ExtentId,
        /// What stays of it.
        bytes: u64,
        /// Whether the kernel must refuse every write from now on.
        strict: bool,
    },
    /// What of the extent is in its writer's hands, leased or to create an object in, lies within
    /// this range: persist it for a restart. It comes before the grant that makes it so.
    Lent(Range),
    /// The client is now the extent's writer (or it has none): persist it for a restart. It comes
    /// before the grant that makes it so.
    Writer(ExtentId, Option<ClientNo>),
    /// Give the range's memory back to the machine; the extent stays. When the machine does not
    /// take it, [`crate::event::Event::Unpunched`] says so.
    Punch(Range),
    /// Cut off what follows the first bytes of an extent that grows and that no object is
    /// written to: its last writer can have made it longer than the store knows, and may have it
    /// mapped still.
    Trim {
        /// The extent.
        extent: ExtentId,
        /// What stays of it.
        bytes: u64,
    },
    /// The extent is gone, and the daemon notifies the clients. So is its memory at level shared,
    /// even where processes still have it mapped, except that of strict objects. Elsewhere it stays
    /// while a process has it mapped: the daemon answers with [`crate::event::Event::Released`]
    /// when it is gone, and with [`crate::event::Event::Retained`] when that takes long. Dropping
    /// an extent that was never made is nothing.
    Drop(ExtentId),
    /// Forbid new writable mappings of the extent (level leased).
    Protect(ExtentId),
    /// Make the kernel refuse every write to the extent; its writer says that it has unmapped it.
    /// Answered with [`crate::event::Event::Hardened`].
    Harden(Ticket, ExtentId),
    /// Write an object to the spill tier; answered with [`crate::event::Event::Spilled`].
    Spill(Ticket, SpillOrder),
    /// Read a spilled object into the memory; answered with [`crate::event::Event::Restored`].
    Restore(Ticket, ObjectId, u64, Range),
    /// Open a spilled object's file for a client; the second value names the object, the third its
    /// serial. Answered with [`crate::event::Event::Opened`].
    Open(Ticket, ObjectId, u64),
    /// Answer an `OpenSpilled` request, with the descriptor of the file that was opened for the
    /// ticket.
    Opened(ClientNo, u64, Ticket, SpillFile),
    /// Remove an object from the spill tier; the second value is its serial. The tier does its work
    /// in the order of these effects: what it is asked to read before, it reads before.
    Unspill(ObjectId, u64),
    /// Write a durable object to the log; answered with [`crate::event::Event::Logged`] when it
    /// outlives the machine's power. The log does its work in the order of these effects.
    Log(Ticket, SpillOrder),
    /// Write a record without content to the log; answered with [`crate::event::Event::Logged`].
    Note(Ticket, NoteOrder),
    /// Mark a record of the log as dead; answered with [`crate::event::Event::Unlogged`].
    Unlog(Ticket, ObjectId, Lsn),
    /// Read a record of the log into the memory; answered with [`crate::event::Event::Restored`].
    ReadLog(Ticket, ObjectId, Lsn, Range),
    /// Write a durable object once more, whose record is damaged, if what is in memory is what that
    /// record was made of; answered with [`crate::event::Event::Logged`], which fails with
    /// [`plasmon_proto::Code::BadRequest`] if it is not. That the damaged record is dead says the
    /// same of the new one.
    Relog(Ticket, Lsn, SpillOrder),
    /// Read a record of the log with so many bytes of data and metadata; answered with
    /// [`crate::event::Event::LogChecked`].
    CheckLog(Ticket, ObjectId, Lsn, u64),
    /// Read the file of a spilled object, whose serial is the third value, and that has these
    /// sizes; answered with [`crate::event::Event::LogChecked`].
    CheckFile(Ticket, ObjectId, u64, Sizes),
    /// Disconnect a client that broke the protocol or its limits.
    Expel(ClientNo, &'static str),
}

/// An object to write to the spill tier, or to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillOrder {
    /// The id.
    pub id: ObjectId,
    /// Its incarnation.
    pub serial: u64,
    /// Where its bytes are.
    pub range: Range,
    /// Sizes, traits and times.
    pub meta: ObjectMeta,
    /// Its attributes.
    pub attributes: Attributes,
}
