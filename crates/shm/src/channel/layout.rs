//! Where the parts of a channel lie in its memfd.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use plasmon_proto::limits::{COMPLETIONS, PINS_PER_CLIENT_MAX, SUBMISSIONS, TOUCHES};

use crate::map::WriteMap;
use crate::ring::{RECORD_BYTES, RECORD_WORDS, Ring};
use crate::wake_page::FutexEvent;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PLSMCHN1");

pub(super) const MAGIC_AT: usize = 0;
pub(super) const SUBMISSION_TAIL_AT: usize = 64;
pub(super) const SUBMISSION_HEAD_AT: usize = 128;
pub(super) const SLEEPERS_AT: usize = 192;
pub(super) const COMPLETION_TAIL_AT: usize = 256;
/// Beside the completions' tail, which a client looks at before each get, so that looking here
/// after it costs no cache line.
pub(super) const PARTED_AT: usize = COMPLETION_TAIL_AT + 8;
/// In the same line, for a client that submits.
pub(super) const AWAITED_AT: usize = COMPLETION_TAIL_AT + 16;
pub(super) const COMPLETION_HEAD_AT: usize = 320;
pub(super) const LOST_AT: usize = 384;
pub(super) const REFUSALS_LOST_AT: usize = LOST_AT + 8;
pub(super) const TOUCH_CURSOR_AT: usize = 448;
pub(super) const LEDGER_HIGH_AT: usize = 512;
pub(super) const MAIL_AT: usize = 576;
/// Beside the mail, in a line that nothing on a hot path looks at.
pub(super) const GONE_AT: usize = MAIL_AT + 4;
/// Beside the mail: written once, at the end.
pub(super) const LEFT_AT: usize = MAIL_AT + 8;
pub(super) const SUBMISSIONS_AT: usize = 4096;
pub(super) const COMPLETIONS_AT: usize = SUBMISSIONS_AT + SUBMISSIONS * RECORD_BYTES as usize;
pub(super) const TOUCHES_AT: usize = COMPLETIONS_AT + COMPLETIONS * RECORD_BYTES as usize;
pub(super) const LEDGER_AT: usize = TOUCHES_AT + TOUCHES * size_of::<u32>();

/// Bytes of a channel memfd; few of them are ever touched.
pub const CHANNEL_BYTES: u64 = (LEDGER_AT + PINS_PER_CLIENT_MAX * size_of::<u64>()) as u64;

/// The parts of a channel where they lie.
#[derive(Debug)]
pub(super) struct Layout(pub(super) WriteMap);

impl Layout {
    #[inline(always)]
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        &self.0.shared(offset, 1)[0]
    }

    pub(super) fn submissions(&self) -> Ring<'_> {
        Ring {
            tail: self.word(SUBMISSION_TAIL_AT),
            head: self.word(SUBMISSION_HEAD_AT),
            words: self.0.shared(SUBMISSIONS_AT, SUBMISSIONS * RECORD_WORDS),
        }
    }

    pub(super) fn completions(&self) -> Ring<'_> {
        Ring {
            tail: self.word(COMPLETION_TAIL_AT),
            head: self.word(COMPLETION_HEAD_AT),
            words: self.0.shared(COMPLETIONS_AT, COMPLETIONS * RECORD_WORDS),
        }
    }

    /// The low half of the submission head: what the kernel compares when a thread sleeps on it. It
    /// is never read or written here, so that all accesses to the head have one size.
    pub(super) fn head_futex(&self) -> &AtomicU32 {
        &self.0.shared(SUBMISSION_HEAD_AT, 1)[0]
    }

    pub(super) fn sleepers(&self) -> &AtomicU32 {
        &self.0.shared(SLEEPERS_AT, 1)[0]
    }

    /// Whether the daemon waits for the client's doorbell before it looks at the submissions.
    #[inline(always)]
    pub(super) fn awaited(&self) -> &AtomicU32 {
        &self.0.shared(AWAITED_AT, 1)[0]
    }

    /// What threads of the client sleep on until the daemon has sent the client a message.
    pub(super) fn mail(&self) -> FutexEvent<'_> {
        FutexEvent::new(&self.0.shared(MAIL_AT, 1)[0])
    }

    /// What the client's idle thread sleeps on until extents that it has mapped are gone.
    pub(super) fn gone(&self) -> FutexEvent<'_> {
        FutexEvent::new(&self.0.shared(GONE_AT, 1)[0])
    }

    #[inline(always)]
    pub(super) fn touches(&self) -> &[AtomicU32] {
        self.0.shared(TOUCHES_AT, TOUCHES)
    }

    #[inline(always)]
    pub(super) fn ledger(&self) -> &[AtomicU64] {
        self.0.shared(LEDGER_AT, PINS_PER_CLIENT_MAX)
    }
}

pub(super) fn not_a_channel() -> io::Error {
    let text = "the descriptor is not the channel memfd of a store";
    io::Error::new(io::ErrorKind::InvalidData, text)
}
