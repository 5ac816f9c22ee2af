//! What the core needs of the node's store.
//!
//! ```text
//!   core  ── tell, land, seal, abandon, open ──►  Store     (calls, on the core's thread)
//!         ◄── StoreEvent::{Call, Landed, Opened} ──         (from its descriptor, or the Inbox)
//! ```
//!
//! The calls must not wait for long: the core has no other thread for them. What takes longer, such
//! as making memory, is answered with an event. The core waits for the store's descriptor together
//! with its connections, because each thread on the way to an object costs a wake-up. A store
//! without a descriptor says what it has to say through the [`Inbox`](crate::core::Inbox).

use std::os::fd::BorrowedFd;

use plasmon_cluster::Slot;
use plasmon_pool::event::Description;
use plasmon_pool::{Birth, Call, Content, Ticket, Told};
use plasmon_proto::message::LogCheck;
use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionTold};
use plasmon_proto::pool_listing::{ListQuery, ListedPage};
use plasmon_proto::{Code, Name, ObjectId};

use crate::memory::{BoxedLanding, SharedSource};

/// A node's store.
pub trait Store: Send {
    /// What is readable when the store has said something.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes some of what the store has said, without waiting; false when the store has ended.
    fn receive(&mut self, _events: &mut Vec<StoreEvent>) -> bool {
        true
    }

    /// An answer to one of the calls below that the store did not have to be asked for.
    fn answer(&mut self) -> Option<StoreEvent> {
        None
    }

    /// The node has a slot; the store may say what is there.
    fn begin(&mut self, slot: Slot);

    /// What the node tells: answers to calls, and what is to happen to copies.
    fn tell(&mut self, told: Told);

    /// What is known of namespaces that programs adopt, and answers to what the store said of them.
    fn tell_adoptions(&mut self, _told: Vec<AdoptionTold>) {}

    /// Sends what it was told. The core calls this at the end of each turn.
    fn flush(&mut self);

    /// Makes memory for a copy, or for parts where the id is not of a pool; answered with
    /// [`StoreEvent::Landed`].
    fn land(&mut self, request: LandingRequest);

    /// The copy in this memory is complete; answered with [`StoreEvent::CopySealed`], or
    /// [`StoreEvent::Sealed`] where the id is not of a pool.
    fn seal(&mut self, ticket: Ticket, landing: BoxedLanding, options: SealOptions);

    /// The memory is not needed any more.
    fn abandon(&mut self, ticket: Ticket, landing: BoxedLanding);

    /// Deletes local objects with parts, as far as they are still there. Their readers keep them.
    fn delete(&mut self, ids: Vec<ObjectId>);

    /// Makes these copies the first to be spilled or evicted.
    fn demote(&mut self, ids: Vec<ObjectId>);

    /// Makes memory for a region of this node; answered with [`StoreEvent::Allocated`].
    fn allocate(&mut self, request: AllocationRequest);

    /// Makes the region with this memory an object, and waits until the pool has accepted it where
    /// that is asked for; answered with [`StoreEvent::RegionSealed`].
    fn seal_region(&mut self, id: ObjectId, memory: BoxedLanding, settles: bool);

    /// The region with this memory is given up.
    fn end_region(&mut self, id: ObjectId, memory: BoxedLanding);

    /// Opens a copy of this incarnation, if it is here; answered with [`StoreEvent::Opened`] and
    /// this number.
    fn open(&mut self, number: u64, id: &ObjectId, birth: Birth);

    /// As [`Self::open`], but a copy that is spilled is read where it is: the source is not in
    /// memory then.
    fn open_in_place(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        self.open(number, id, birth);
    }

    /// Compares what the store's log has of a copy with its checksums; answered with
    /// [`StoreEvent::LogChecked`] and this number. A store that cannot do that opens the copy
    /// instead.
    fn check_logged(&mut self, number: u64, id: &ObjectId, birth: Birth) {
        self.open_in_place(number, id, birth);
    }

    /// Lists a page of a namespace; answered with [`StoreEvent::Listed`] and this number.
    fn list(&mut self, number: u64, query: ListQuery);

    /// Says what a copy of this incarnation is called; answered with [`StoreEvent::Described`] and
    /// this number. What the store is told after this does not change the answer.
    fn describe(&mut self, number: u64, id: &ObjectId, birth: Birth);
}

/// Asks for memory for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandingRequest {
    /// Names the landing.
    pub ticket: Ticket,
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// Its bytes.
    pub content: Content,
}

/// Asks for memory for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// The region, whose id names this node.
    pub id: ObjectId,
    /// Bytes of its data.
    pub bytes: u64,
    /// How many nodes shall have the sealed object.
    pub copies: u8,
    /// How many at least.
    pub copies_min: u8,
}

/// What becomes of a copy that is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealOptions {
    /// Whether clients may see it; else it is published later.
    pub visible: bool,
    /// Whether it is never evicted.
    pub keep: bool,
}

/// What a store says.
pub enum StoreEvent {
    /// Something happened there, or clients want something.
    Call(Call),
    /// A client adopts a namespace, or its session is over.
    Adoption(AdoptionCall),
    /// Every copy that was there when the node began has been told.
    Ready,
    /// Its log for durable objects takes nothing any more.
    LogFailed,
    /// The memory for a copy, of exactly the bytes of its content; `None` where there is no room.
    Landed(Ticket, Option<BoxedLanding>),
    /// Whether the local object of this id is sealed, or could not be: the answer to
    /// [`Store::seal`] of one with parts.
    Sealed(ObjectId, bool),
    /// The copy of this incarnation is sealed. Of one that could not be, [`Call::Ended`] is said.
    CopySealed(ObjectId, Birth),
    /// The memory of a region, of exactly the bytes of its data, or why there is none.
    Allocated(ObjectId, Result<BoxedLanding, Code>),
    /// A region was sealed.
    RegionSealed {
        /// The region.
        id: ObjectId,
        /// Whether it is an object now.
        is_sealed: bool,
        /// Why it is not, or why the pool has not accepted it.
        result: Result<(), Code>,
    },
    /// A copy that was opened, pinned as long as the value lives; `None` where it is not here.
    Opened(u64, Option<SharedSource>),
    /// A page of a namespace; `None` where the store cannot say now what is there.
    Listed(u64, Option<ListedPage>),
    /// What the log has of a copy, and what the object is called.
    LogChecked(u64, LogCheck, Option<Name>),
    /// What a copy is called; `None` where it has no name or is not here.
    Described(u64, Option<Description>),
}

impl std::fmt::Debug for StoreEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(call) => f.debug_tuple("Call").field(call).finish(),
            Self::Adoption(call) => f.debug_tuple("Adoption").field(call).finish(),
            Self::Ready => f.write_str("Ready"),
            Self::LogFailed => f.write_str("LogFailed"),
            Self::Sealed(id, is_sealed) => {
                f.debug_tuple("Sealed").field(id).field(is_sealed).finish()
            }
            Self::CopySealed(id, birth) => {
                f.debug_tuple("CopySealed").field(id).field(birth).finish()
            }
            Self::Allocated(id, memory) => {
                let result = memory.as_ref().map(|_| ());
                f.debug_tuple("Allocated").field(id).field(&result).finish()
            }
            Self::RegionSealed { id, is_sealed, result } => {
                let mut built = f.debug_tuple("RegionSealed");
                built.field(id).field(is_sealed).field(result).finish()
            }
            Self::Opened(number, source) => {
                f.debug_tuple("Opened").field(number).field(&source.is_some()).finish()
            }
            Self::Listed(number, page) => {
                f.debug_tuple("Listed").field(number).field(page).finish()
            }
            Self::LogChecked(number, check, _) => {
                f.debug_tuple("LogChecked").field(number).field(check).finish()
            }
            Self::Described(number, found) => {
                f.debug_tuple("Described").field(number).field(found).finish()
            }
            Self::Landed(ticket, memory) => {
                f.debug_tuple("Landed").field(ticket).field(&memory.is_some()).finish()
            }
        }
    }
}
