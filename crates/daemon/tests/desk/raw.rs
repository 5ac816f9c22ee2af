//! Shared memory by `pread` and `pwrite` at the offsets of `docs/formats/shared-memory.md`: nothing
//! of the library that is under test, and nothing that would stop a test from writing nonsense.

use std::os::fd::OwnedFd;

use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::IndexTable;
use plasmon_proto::ring::{Completion, Record, Submission};
use plasmon_proto::{Code, ObjectId};

use super::{read_at, until, write_at};

const SUBMISSIONS_AT: u64 = 4096;
const SUBMISSIONS: u64 = 4096;
const COMPLETIONS_AT: u64 = SUBMISSIONS_AT + 64 * SUBMISSIONS;
const COMPLETIONS: u64 = 256;
const TOUCHES_AT: u64 = COMPLETIONS_AT + 64 * COMPLETIONS;
const LEDGER_AT: u64 = TOUCHES_AT + 4 * 1024;

/// Offsets of the words of a channel.
pub(crate) const TAIL_AT: u64 = 64;
pub(crate) const HEAD_AT: u64 = 128;
pub(crate) const COMPLETION_TAIL_AT: u64 = 256;
pub(crate) const AWAITED_AT: u64 = 272;
pub(crate) const COMPLETION_HEAD_AT: u64 = 320;
pub(crate) const TOUCH_CURSOR_AT: u64 = 448;
pub(crate) const LEDGER_HIGH_AT: u64 = 512;

fn word_at(fd: &OwnedFd, at: u64) -> u64 {
    u64::from_le_bytes(read_at(fd, at, 8).try_into().unwrap())
}

fn set_word(fd: &OwnedFd, at: u64, word: u64) {
    write_at(fd, at, &word.to_le_bytes());
}

fn record_at(fd: &OwnedFd, at: u64) -> Record {
    let bytes = read_at(fd, at, 64);
    std::array::from_fn(|word| {
        u64::from_le_bytes(bytes[word * 8..word * 8 + 8].try_into().unwrap())
    })
}

/// A client's channel.
pub(crate) struct Channel(pub(crate) OwnedFd);

impl Channel {
    pub(crate) fn word(&self, at: u64) -> u64 {
        word_at(&self.0, at)
    }

    pub(crate) fn set(&self, at: u64, word: u64) {
        set_word(&self.0, at, word);
    }

    /// Puts a record into the ring and returns its position.
    pub(crate) fn submit(&self, record: &Record) -> u64 {
        let position = self.word(TAIL_AT);
        let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
        write_at(&self.0, SUBMISSIONS_AT + 64 * (position % SUBMISSIONS), &bytes);
        self.set(TAIL_AT, position.wrapping_add(1));
        position
    }

    /// Waits until the daemon applied the record at this position.
    pub(crate) fn applied(&self, position: u64) {
        until("the daemon has applied the record", || self.word(HEAD_AT) > position);
    }

    pub(crate) fn next_completion(&self) -> Option<Completion> {
        let head = self.word(COMPLETION_HEAD_AT);
        if head == self.word(COMPLETION_TAIL_AT) {
            return None;
        }
        let record = record_at(&self.0, COMPLETIONS_AT + 64 * (head % COMPLETIONS));
        self.set(COMPLETION_HEAD_AT, head + 1);
        Some(Completion::decode(&record).unwrap())
    }

    /// Why the submission at this position was refused, if it was; completions before are dropped.
    pub(crate) fn refusal(&self, position: u64) -> Option<Code> {
        std::iter::from_fn(|| self.next_completion()).find_map(|completion| match completion {
            Completion::Refused { position: found, code, .. } if found == position => Some(code),
            _ => None,
        })
    }

    /// Writes a pin.
    pub(crate) fn pin(&self, entry: u64, serial: u64) {
        if self.word(LEDGER_HIGH_AT) <= entry {
            self.set(LEDGER_HIGH_AT, entry + 1);
        }
        self.set(LEDGER_AT + 8 * entry, serial);
    }

    pub(crate) fn touch(&self, record: u32) {
        let cursor = self.word(TOUCH_CURSOR_AT);
        write_at(&self.0, TOUCHES_AT + 4 * (cursor % 1024), &record.to_le_bytes());
        self.set(TOUCH_CURSOR_AT, cursor + 1);
    }
}

/// What a slot of the index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) serial: u64,
    pub(crate) hidden: bool,
    pub(crate) extent: ExtentId,
    pub(crate) offset: u64,
    pub(crate) data: u64,
    pub(crate) record: u32,
}

/// The extent in the high parts of three words of a slot.
fn slot_extent(third: u64, fifth: u64, sixth: u64) -> ExtentId {
    ExtentId(third >> 32 | fifth >> 48 << 32 | sixth >> 48 << 48)
}

/// An index table.
pub(crate) struct Index {
    pub(crate) fd: OwnedFd,
    pub(crate) table: IndexTable,
}

impl Index {
    /// The slots that hold an object with this id.
    pub(crate) fn slots(&self, id: &ObjectId) -> Vec<Slot> {
        let bytes = read_at(&self.fd, 64, 64 * self.table.slots as usize);
        let slots = bytes.chunks_exact(64).filter(|slot| &slot[8..28] == id.as_bytes());
        slots
            .filter_map(|slot| {
                let word =
                    |at: usize| u64::from_le_bytes(slot[at * 8..at * 8 + 8].try_into().unwrap());
                (word(0) & 2 == 2).then(|| Slot {
                    serial: word(0) >> 2,
                    hidden: word(0) & 1 == 1,
                    extent: slot_extent(word(3), word(5), word(6)),
                    offset: (word(4) & u64::from(u32::MAX)) * 64,
                    data: word(5) & ((1 << 48) - 1),
                    record: word(7) as u32,
                })
            })
            .collect()
    }
}

/// The control page.
pub(crate) struct Control(pub(crate) OwnedFd);

impl Control {
    pub(crate) fn epoch(&self) -> u64 {
        word_at(&self.0, 8)
    }

    pub(crate) fn table(&self) -> u64 {
        word_at(&self.0, 64)
    }
}

/// The record of a put that says nothing special.
pub(crate) fn delete(id: ObjectId) -> Record {
    Submission::Delete { id }.encode()
}
