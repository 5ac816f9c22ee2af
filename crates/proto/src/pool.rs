//! What a store and the pool daemon beside it tell each other, over the socket.
//!
//! The pool daemon is a client with a seat ([`crate::message::Request::Agent`]). The store decides
//! about the memory of its machine, the pool daemon about the pool: the store says what clients
//! want of pooled objects and what happens to the copies here ([`Call`]), the pool daemon what
//! became of that ([`Told`]).
//!
//! ```text
//!   a client asks for an id that is not here     Seek ---------->  Find, Open, transfer
//!                                                <---------- Land, SealLanded, or Sought
//!   a client completes an object                 Commit -------->  the directory of the pool
//!                                                <---------------- Committed
//!   another node asks for an id of this node     <---------------- Look
//!                                                Commit, Looked ->
//!   a client deletes                             Delete -------->
//!                                                <---------------- Drop of each copy, Deleted
//!   a client creates what has a copy here        Verify -------->
//!                                                <---------------- Exists
//!                                                <---------------- Drop of the copy, Verified
//! ```
//!
//! The node of the pool in `crates/pool` takes and gives the same values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ObjectId;
use crate::limits::{SEGMENT_BYTES, SEGMENTS_MAX};

/// A node's number in the map of its pool. It is never given to another node, so that a slot in an
/// id or in a message means one node for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u16);

impl Slot {
    /// Not a node: in an id, that it has no home; in an encoded map, an empty place.
    pub const NONE: Self = Self(u16::MAX);
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where an object was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The slot of the node.
    pub slot: Slot,
    /// The number of its store ([`crate::message::Welcome::store`]).
    pub boot: u64,
}

/// One incarnation of an id in the whole pool. An id that is deleted and created again has another
/// birth, so that a late message about the first can do nothing to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Birth {
    /// The slot of the node where it was made.
    pub slot: Slot,
    /// The number of that node's store ([`crate::message::Welcome::store`]).
    pub boot: u64,
    /// What tells it from other incarnations of the id that were made there
    /// ([`crate::object::PoolAttributes::serial`]). 0 for an id with a home, which is never made
    /// twice.
    pub serial: u64,
}

/// What an object's bytes are, as far as moving them needs it. They move in the order in which a
/// copy has them in memory: data, metadata, attributes. The attributes are those of a copy
/// ([`crate::Attributes::of_copy`]) wherever the bytes come from, so that every node sends the
/// same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Bytes of the data.
    pub data_bytes: u64,
    /// Bytes of the metadata.
    pub metadata_bytes: u32,
    /// Bytes of the encoded attributes of a copy.
    pub attributes_bytes: u32,
    /// What kind of value the bytes hold ([`crate::object::Traits::tag`]).
    pub tag: u8,
    /// The CRC-32C of the table that has the CRC-32C of each segment. The store reads no objects:
    /// it says 0, and the pool daemon computes it.
    pub table_crc: u32,
    /// Which of its copies count.
    pub keeping: Keeping,
    /// Of a durable object, whose copies count only when they are in the logs of their nodes: how
    /// many its creator asked for. So every copy in a log says it.
    pub durable: Option<WantedCopies>,
}

/// How many nodes shall keep a copy of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WantedCopies {
    /// So many.
    pub copies: u8,
    /// At least so many before it is acknowledged.
    pub copies_min: u8,
}

/// Which copies of an object count as those that were asked for, as its creator said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keeping {
    /// Every copy that a node keeps, that of its creator's node first.
    #[default]
    Local,
    /// Those on other nodes than its creator's, whose copy may be evicted once they have theirs.
    Spread,
    /// None is kept: it exists as long as the store of its creator has it.
    Cache,
}

impl Content {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        let rest = u64::from(self.metadata_bytes) + u64::from(self.attributes_bytes);
        self.data_bytes.saturating_add(rest)
    }

    /// How many segments a transfer of it has; an empty object has one.
    pub fn segments(&self) -> u32 {
        self.bytes().div_ceil(SEGMENT_BYTES).clamp(1, SEGMENTS_MAX) as u32
    }

    /// Whether it is small enough for a transfer.
    pub fn is_movable(&self) -> bool {
        self.bytes() <= SEGMENT_BYTES * SEGMENTS_MAX
    }
}

/// How urgent it is to bring an object here, the most urgent first. The last two are the pool
/// daemon's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// A client needs it now.
    Get,
    /// A client waits for it to be created.
    Wait,
    /// A client will need it.
    Prefetch,
    /// A commit needs another copy.
    Replica,
    /// A copy was lost.
    Repair,
}

/// What the store tells the pool daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// A client asks for a pooled object that is not here. There is one for each id, however many
    /// clients ask, and another one with a higher number when a client asks more urgently or after
    /// an answer.
    Seek {
        /// The object.
        id: ObjectId,
        /// The number of the call; calls are numbered in order.
        number: u64,
        /// Get, wait or prefetch.
        class: Class,
    },
    /// No client asks for it any more.
    Unseek(ObjectId),
    /// A pooled object is complete here. One with a free id is not visible yet. The pool daemon
    /// reads it as any client does, with [`crate::message::Request::Get`].
    Commit {
        /// The object.
        id: ObjectId,
        /// The serial of its birth.
        serial: u64,
        /// Its bytes.
        content: Content,
        /// How many copies it shall have.
        copies: u8,
        /// How many it has at least before it is acknowledged.
        copies_min: u8,
    },
    /// A client deletes a pooled object.
    Delete {
        /// The object.
        id: ObjectId,
        /// The number of the call; calls are numbered in order.
        number: u64,
    },
    /// A local copy is not there any more: dropped as asked, evicted, or found damaged.
    Ended {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A local copy will not be evicted.
    Kept {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// A copy that the store has had since before the pool daemon took the seat.
    Has {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Its bytes.
        content: Content,
        /// Whether clients can see it.
        visible: bool,
        /// Whether it is never evicted. A restart forgets that of a copy that came as a cached one.
        kept: bool,
        /// Whether it is in the log of this store.
        logged: bool,
    },
    /// Every copy that was here when the pool daemon took the seat has been told, and what clients
    /// wait for. Before this it answers other nodes nothing: it would miss copies, and end those
    /// that are being committed.
    InventoryEnd,
    /// The answer to [`Told::Look`]: the object is here if that was said before this.
    Looked {
        /// The object.
        id: ObjectId,
        /// As in the question.
        number: u64,
    },
    /// [`Call::Commit`] of an object with a home that the store never evicts.
    CommitKept {
        /// The object.
        id: ObjectId,
        /// The serial of its birth.
        serial: u64,
        /// Its bytes.
        content: Content,
        /// How many copies it shall have.
        copies: u8,
        /// How many it has at least before it is acknowledged.
        copies_min: u8,
    },
    /// A client creates an object of a free id of which a copy is here, or comes here, whether
    /// clients can see it or not. Does an object of this id exist? What is being decided is waited
    /// for.
    Verify {
        /// The object.
        id: ObjectId,
        /// The number of the call; calls are numbered in order.
        number: u64,
    },
    /// A local copy is in the log of this store, and is never evicted; the answer to
    /// [`Told::Log`].
    Logged {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// The log does not take a copy, which is as it was; the answer to [`Told::Log`].
    NotLogged {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
        /// Whether the log has no room for it. Else there is no log, or it takes nothing at all.
        is_full: bool,
    },
    /// The log of this store notes that an incarnation was deleted: it has since before the pool
    /// daemon took the seat, or this answers [`Told::AddTombstone`].
    TombstoneAdded {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// The log does not note that any more, the answer to [`Told::RemoveTombstone`].
    TombstoneRemoved {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// The log of this store takes nothing any more. What is in it can be read as long as the store
    /// runs, and what ends does not end there.
    LogFailed,
    /// A local copy cannot be read: it is in the log or in the spill tier alone, and is not what
    /// was written there. It stays until the pool daemon says otherwise.
    Damaged {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
}

/// What became of a sought object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It does not exist; the pool daemon tells when it does, until the store gives up the seek.
    Absent,
    /// It was deleted.
    Deleted,
    /// It may have existed, and no node has a copy.
    Lost,
    /// It could not be found out in time, or not be brought here.
    Unreachable,
    /// There is no room for it here.
    NoRoom,
    /// It exists, and every copy that the pool has is damaged.
    Damaged,
}

/// Why a commit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Another object has the id.
    Exists,
    /// Fewer nodes are live than the copies that it needs at least.
    NotEnoughNodes,
    /// No node has room for the copies that it needs at least.
    StoreFull,
    /// The id was deleted, and this node may still have a copy of the deleted object.
    InUse(Slot),
    /// The pool did not answer in time, or other nodes did not reach each other. The commit may
    /// have succeeded or not; the object is gone from here.
    Unreachable,
    /// Fewer nodes with a log are live than the copies that a durable object needs at least.
    NotEnoughLogs,
}

/// What the pool daemon tells the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// What became of a sought object, for the calls up to this number. One that is brought here
    /// is sealed instead.
    Sought {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
        /// What became of it.
        fate: Fate,
    },
    /// A commit ended; a refused object is ended by the store.
    Committed {
        /// The object.
        id: ObjectId,
        /// The serial of its birth.
        serial: u64,
        /// How it ended.
        result: Result<(), Refusal>,
    },
    /// The object that clients wanted to delete is deleted, or did not exist, for the calls up to
    /// this number.
    Deleted {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
    },
    /// The deletes up to this number could not be finished in time; they may still happen.
    DeleteUnreachable {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
    },
    /// End this copy, then say [`Call::Ended`].
    Drop {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Let clients see this copy.
    Publish {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Never evict this copy, then say [`Call::Kept`].
    Keep {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Copies of free ids may be shown for so long from now on.
    Vouch {
        /// Milliseconds.
        ms: u64,
    },
    /// This copy may be evicted, whatever was said of it before.
    Release {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Another node asks for an object with a home, and this is its home: if it is here and was not
    /// told yet, say so with its commit, and then [`Call::Looked`]. Everything that clients have
    /// put before this is read counts.
    Look {
        /// The object.
        id: ObjectId,
        /// Comes back in the answer.
        number: u64,
    },
    /// No object of an id exists, for the calls up to this number: [`Told::Drop`] of the copies
    /// here came before.
    Verified {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
        /// False: it could not be found out in time.
        known: bool,
    },
    /// An object of an id exists, for the calls of [`Call::Verify`] up to this number.
    Exists {
        /// The object.
        id: ObjectId,
        /// The last call that this answers.
        number: u64,
    },
    /// A sought object exists, and is being brought here: whatever was said of it before. Of a
    /// small one that was not called absent before this is not told.
    Found {
        /// The object.
        id: ObjectId,
        /// The last call that this is said to; it answers none.
        number: u64,
    },
    /// Write this copy to the log and never evict it, then say [`Call::Logged`] or
    /// [`Call::NotLogged`]. One that is in the log is not written again.
    Log {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// Note in the log that this incarnation was deleted, then say [`Call::TombstoneAdded`]. While
    /// the log takes nothing this is not answered; it may be said again.
    AddTombstone {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// That need not be noted any more.
    RemoveTombstone {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// End this copy, which is damaged while another one is not, then say [`Call::Ended`]: the
    /// object is there as before.
    Discard {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
    /// The log's record of this copy was found damaged: write it again if the copy is in memory,
    /// else say [`Call::Damaged`] if it cannot be read.
    Relog {
        /// The object.
        id: ObjectId,
        /// Its incarnation.
        birth: Birth,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::{CALLS_MAX, FRAME_BYTES_MAX};
    use crate::message::{Landing, Push, Request};
    use crate::object::{Sizes, Traits};
    use crate::pool_adoption::AdoptionTold;
    use crate::pool_listing::ListQuery;

    const ID: ObjectId = ObjectId::pooled([0xff; 12], Some(0xfffe));
    const BIRTH: Birth = Birth { slot: Slot::NONE, boot: u64::MAX, serial: u64::MAX };

    pub(crate) fn landing() -> Landing {
        Landing {
            id: ID,
            birth: BIRTH,
            sizes: Sizes { data: 1, metadata: 2, attributes: 3 },
            traits: Traits::default(),
            growing: false,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn content() -> Content {
        Content {
            data_bytes: 5,
            metadata_bytes: 6,
            attributes_bytes: 8,
            tag: 9,
            table_crc: 7,
            keeping: Keeping::Spread,
            durable: Some(WantedCopies { copies: 3, copies_min: 2 }),
        }
    }

    #[test]
    fn segments_at_and_past_their_border() {
        let content = |data_bytes| Content { data_bytes, ..Content::default() };
        assert_eq!(content(0).segments(), 1);
        assert_eq!(content(SEGMENT_BYTES).segments(), 1);
        assert_eq!(content(SEGMENT_BYTES + 1).segments(), 2);
        let most = SEGMENT_BYTES * SEGMENTS_MAX;
        assert_eq!(u64::from(content(most).segments()), SEGMENTS_MAX);
        assert!(content(most).is_movable() && !content(most + 1).is_movable());
    }

    #[test]
    fn the_largest_messages_fit_a_frame() {
        let content = Content {
            data_bytes: u64::MAX,
            metadata_bytes: !0,
            attributes_bytes: !0,
            tag: !0,
            table_crc: !0,
            keeping: Keeping::Cache,
            durable: Some(WantedCopies { copies: !0, copies_min: !0 }),
        };
        let (visible, kept, logged) = (true, true, true);
        let has = Call::Has { id: ID, birth: BIRTH, content, visible, kept, logged };
        let calls = postcard::to_allocvec(&Push::Calls(vec![has; CALLS_MAX])).unwrap();
        let refused = Err(Refusal::InUse(Slot::NONE));
        let told = Told::Committed { id: ID, serial: u64::MAX, result: refused };
        let told = postcard::to_allocvec(&Request::Tell { told: vec![told; CALLS_MAX] }).unwrap();
        let head = 64;
        assert!(calls.len() + head <= FRAME_BYTES_MAX, "{}", calls.len());
        assert!(told.len() + head <= FRAME_BYTES_MAX, "{}", told.len());
    }

    /// An object as it is in messages, and an incarnation.
    const ID_BYTES: &str = "070707070707070707070707ffff40706f6f6c00";
    const BIRTH_BYTES: &str = "0304ac02";

    fn check_golden<T>(message: T, golden: &str)
    where
        T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug,
    {
        let bytes = postcard::to_allocvec(&message).unwrap();
        assert_eq!(hex(&bytes), golden, "{message:?}");
        assert_eq!(postcard::from_bytes(&bytes), Ok(message));
    }

    #[test]
    fn calls_come_back_and_their_bytes_are_a_format() {
        let id = ObjectId::pooled([7; 12], None);
        let birth = Birth { slot: Slot(3), boot: 4, serial: 300 };
        let content = content();
        let (serial, copies, copies_min) = (300, 2, 1);
        let of_content = "050608090701010302";
        let of_object = |number: &str, rest: &str| format!("{number}{ID_BYTES}{rest}");
        let of_birth = |number: &str| of_object(number, BIRTH_BYTES);
        let of_commit = |number| of_object(number, &format!("ac02{of_content}0201"));
        let (visible, kept, logged) = (true, false, true);
        let has = of_birth("06") + of_content + "010001";
        let calls = [
            (Call::Seek { id, number: 8, class: Class::Get }, of_object("00", "0800")),
            (Call::Unseek(id), of_object("01", "")),
            (Call::Commit { id, serial, content, copies, copies_min }, of_commit("02")),
            (Call::Delete { id, number: 8 }, of_object("03", "08")),
            (Call::Ended { id, birth }, of_birth("04")),
            (Call::Kept { id, birth }, of_birth("05")),
            (Call::Has { id, birth, content, visible, kept, logged }, has),
            (Call::InventoryEnd, "07".to_owned()),
            (Call::Looked { id, number: 8 }, of_object("08", "08")),
            (Call::CommitKept { id, serial, content, copies, copies_min }, of_commit("09")),
            (Call::Verify { id, number: 300 }, of_object("0a", "ac02")),
            (Call::Logged { id, birth }, of_birth("0b")),
            (Call::NotLogged { id, birth, is_full: true }, of_birth("0c") + "01"),
            (Call::TombstoneAdded { id, birth }, of_birth("0d")),
            (Call::TombstoneRemoved { id, birth }, of_birth("0e")),
            (Call::LogFailed, "0f".to_owned()),
            (Call::Damaged { id, birth }, of_birth("10")),
        ];
        calls.into_iter().for_each(|(call, golden)| check_golden(call, &golden));
    }

    #[test]
    fn answers_come_back_and_their_bytes_are_a_format() {
        let id = ObjectId::pooled([7; 12], None);
        let birth = Birth { slot: Slot(3), boot: 4, serial: 300 };
        let of_object = |number: &str, rest: &str| format!("{number}{ID_BYTES}{rest}");
        let of_birth = |number: &str| of_object(number, BIRTH_BYTES);
        let (serial, result) = (300, Err(Refusal::InUse(Slot(9))));
        let fate = Fate::Unreachable;
        let told = [
            (Told::Sought { id, number: 8, fate }, of_object("00", "0803")),
            (Told::Sought { id, number: 8, fate: Fate::Damaged }, of_object("00", "0805")),
            (Told::Committed { id, serial, result }, of_object("01", "ac02010309")),
            (Told::Deleted { id, number: 8 }, of_object("02", "08")),
            (Told::DeleteUnreachable { id, number: 8 }, of_object("03", "08")),
            (Told::Drop { id, birth }, of_birth("04")),
            (Told::Publish { id, birth }, of_birth("05")),
            (Told::Keep { id, birth }, of_birth("06")),
            (Told::Vouch { ms: 300 }, "07ac02".to_owned()),
            (Told::Release { id, birth }, of_birth("08")),
            (Told::Look { id, number: 8 }, of_object("09", "08")),
            (Told::Verified { id, number: 300, known: true }, of_object("0a", "ac0201")),
            (Told::Exists { id, number: 300 }, of_object("0b", "ac02")),
            (Told::Found { id, number: 8 }, of_object("0c", "08")),
            (Told::Log { id, birth }, of_birth("0d")),
            (Told::AddTombstone { id, birth }, of_birth("0e")),
            (Told::RemoveTombstone { id, birth }, of_birth("0f")),
            (Told::Discard { id, birth }, of_birth("10")),
            (Told::Relog { id, birth }, of_birth("11")),
        ];
        told.into_iter().for_each(|(told, golden)| check_golden(told, &golden));
    }

    #[test]
    fn the_requests_of_the_seat_follow_all_others() {
        let birth = Birth { slot: Slot(3), boot: 4, serial: 300 };
        let id = ObjectId::pooled([7; 12], None);
        let requests = [
            Request::Agent { token: 1, slot: Slot(2) },
            Request::Tell { told: vec![Told::Vouch { ms: 1 }] },
            Request::Land(landing()),
            Request::SealLanded { id, birth, visible: true, keep: false },
            Request::ListNamespace(ListQuery {
                namespace: "@n".into(),
                prefix: String::new(),
                after: None,
            }),
            Request::Settle { ids: vec![id], timeout_ms: Some(300) },
            Request::Describe { id, birth },
            Request::EndAdoption { namespace: "@n".into() },
            Request::TellAdoptions { told: vec![AdoptionTold::Revision(300)] },
            Request::SealGrownPooled { id, target: id, data: 300, attributes: 30 },
        ];
        for (at, request) in requests.into_iter().enumerate() {
            let bytes = postcard::to_allocvec(&request).unwrap();
            assert_eq!(usize::from(bytes[0]), 36 + at, "{request:?}");
            let framed = frame::encode_request(1, &request).unwrap();
            assert_eq!(frame::decode_request(&framed), Ok((1, request)));
        }
    }
}
