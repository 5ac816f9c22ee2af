//! Pages of checksums: those that programs wait for, and those that are made for nodes.
//!
//! The copies of a page are opened and read one after the other, so that one at a time is pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;

use plasmon_cluster::Slot;
use plasmon_pool::event::{CopyPart, CopyRead};
use plasmon_pool::message::QuestionNo;
use plasmon_proto::Name;
use plasmon_proto::message::LogCheck;
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery};

/// What a program asks for.
#[derive(Debug)]
pub(super) struct ChecksumQuestion {
    pub(super) node: Slot,
    pub(super) query: ChecksumQuery,
    pub(super) answer: SyncSender<Option<ChecksumPage>>,
}

/// A page that is being made.
#[derive(Debug)]
struct Page {
    parts: Vec<CopyPart>,
    read: Vec<Option<CopyRead>>,
}

/// What follows in a page.
pub(super) enum Next {
    /// This copy is to be opened, by this number.
    Open(u64, CopyPart),
    /// All copies were read.
    Done(Vec<Option<CopyRead>>),
}

/// Whose page it is: the node that asks, and its number of the question.
pub(super) type PageOf = (Slot, QuestionNo);

/// Pages by the numbers of their questions.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    last: u64,
    asked: BTreeMap<u64, SyncSender<Option<ChecksumPage>>>,
    pages: BTreeMap<PageOf, Page>,
    /// Copies that are being opened or read.
    reading: BTreeMap<u64, PageOf>,
    /// What the log has of those that are in memory, too.
    logged: BTreeMap<u64, LogCheck>,
    /// Copies of which it was asked what is on a disk.
    checked: BTreeSet<u64>,
}

impl Checksums {
    /// A program waits for a page; the number of the question.
    pub(super) fn ask(&mut self, answer: SyncSender<Option<ChecksumPage>>) -> u64 {
        self.last += 1;
        self.asked.insert(self.last, answer);
        self.last
    }

    /// The node has answered. The connection that asked may have ended; it has room for its answer.
    pub(super) fn answer(&mut self, number: u64, page: Option<ChecksumPage>) {
        if let Some(answer) = self.asked.remove(&number) {
            let _ = answer.try_send(page);
        }
    }

    /// A page is made.
    pub(super) fn begin(&mut self, of: PageOf, parts: Vec<CopyPart>) {
        self.pages.insert(of, Page { parts, read: Vec::new() });
    }

    /// What follows in a page; the copy that it opens next has this number.
    pub(super) fn next(&mut self, of: PageOf, number: u64) -> Option<Next> {
        let page = self.pages.get(&of)?;
        match page.parts.get(page.read.len()).copied() {
            Some(part) => {
                self.reading.insert(number, of);
                Some(Next::Open(number, part))
            }
            None => self.pages.remove(&of).map(|page| Next::Done(page.read)),
        }
    }

    /// Whether the store is to be asked what a disk has of the copy with this number: once, and
    /// with the last part.
    pub(super) fn may_check(&mut self, number: u64) -> bool {
        let is_last = self.part(number).is_some_and(|part| part.end == part.bytes);
        is_last && self.checked.insert(number)
    }

    /// What the log has of the copy with this number, which is called so. Whether the copy is to be
    /// opened, too: else this is what was read.
    pub(super) fn log_checked(
        &mut self,
        number: u64,
        check: LogCheck,
        name: Option<Name>,
    ) -> Result<(), CopyRead> {
        let read = |crc: Option<u32>| CopyRead { crc, name, logged: Some(crc.is_some()) };
        match check {
            LogCheck::Right { crc, away: true } => return Err(read(Some(crc))),
            LogCheck::Damaged { away: true } => return Err(read(None)),
            LogCheck::Right { .. } | LogCheck::Damaged { .. } => {
                self.logged.insert(number, check);
            }
            LogCheck::Absent | LogCheck::Unreadable => {}
        }
        Ok(())
    }

    /// What was read of a copy, with what the log has of it.
    fn with_log(&mut self, number: u64, read: Option<CopyRead>) -> Option<CopyRead> {
        let Some(check) = self.logged.remove(&number) else { return read };
        let CopyRead { crc, name, .. } = read?;
        Some(match check {
            // What is in memory is wrong then.
            LogCheck::Right { crc: of_log, .. } => {
                CopyRead { crc: crc.filter(|crc| *crc == of_log), name, logged: Some(true) }
            }
            _ => CopyRead { crc, name, logged: Some(false) },
        })
    }

    /// Whether a copy with this number is being opened or read.
    pub(super) fn has(&self, number: u64) -> bool {
        self.reading.contains_key(&number)
    }

    /// The bytes that are wanted of the copy with this number.
    pub(super) fn part(&self, number: u64) -> Option<CopyPart> {
        let page = self.pages.get(self.reading.get(&number)?)?;
        page.parts.get(page.read.len()).copied()
    }

    /// A copy was read, or cannot be: whose page it is for.
    pub(super) fn read(&mut self, number: u64, read: Option<CopyRead>) -> Option<PageOf> {
        let read = self.with_log(number, read);
        self.checked.remove(&number);
        let of = self.reading.remove(&number)?;
        self.pages.get_mut(&of)?.read.push(read);
        Some(of)
    }

    /// Nothing more is read for the page of this copy.
    pub(super) fn give_up(&mut self, number: u64) -> Option<PageOf> {
        self.logged.remove(&number);
        self.checked.remove(&number);
        let of = self.reading.remove(&number)?;
        self.pages.remove(&of).map(|_| of)
    }
}
