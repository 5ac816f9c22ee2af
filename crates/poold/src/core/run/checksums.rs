//! Checksums of copies: what programs ask for, and what is read for nodes.

use plasmon_cluster::Slot;
use plasmon_pool::Event;
use plasmon_pool::event::{CopyPart, CopyRead};
use plasmon_proto::Name;
use plasmon_proto::message::LogCheck;
use plasmon_proto::pool_checksum::CopyRepair;

use super::super::checksums::{ChecksumQuestion, Next, PageOf};
use super::Core;
use crate::checker::Job;
use crate::memory::SharedSource;

impl Core {
    /// Asks a node for checksums. Before this one takes part the answer is dropped at once.
    pub(super) fn ask_checksums(&mut self, question: ChecksumQuestion) {
        if self.is_ready && self.running.is_some() {
            let ChecksumQuestion { node, query, answer } = question;
            let number = self.checksums.ask(answer);
            self.step(Event::Checksum { number, node, query });
        }
    }

    /// Reads copies for a node.
    pub(super) fn read_copies(&mut self, of: PageOf, parts: Vec<CopyPart>) {
        self.checksums.begin(of, parts);
        self.read_next(of);
    }

    /// Opens the next copy of a page, or tells the node that all were read.
    fn read_next(&mut self, of: PageOf) {
        let number = self.openings.next_number();
        match self.checksums.next(of, number) {
            Some(Next::Open(number, part))
                if part.is_logged && self.checksums.may_check(number) =>
            {
                self.store.check_logged(number, &part.id, part.birth);
            }
            Some(Next::Open(number, part)) => {
                self.store.open_in_place(number, &part.id, part.birth);
            }
            Some(Next::Done(read)) => self.copies_read(of, Some(read)),
            None => {}
        }
    }

    /// The store has read what its log has of a copy.
    pub(super) fn log_checked(&mut self, number: u64, check: LogCheck, name: Option<Name>) {
        let Some(part) = self.checksums.part(number) else { return };
        match self.checksums.log_checked(number, check, name) {
            Ok(()) => self.store.open_in_place(number, &part.id, part.birth),
            Err(read) => self.copy_read(number, Some(read)),
        }
    }

    /// Has copies of a node repaired. Before this one takes part that is dropped: it is asked for
    /// again.
    pub(super) fn repair(&mut self, node: Slot, copies: Vec<CopyRepair>) {
        if self.is_ready && self.running.is_some() {
            self.step(Event::Repair { node, copies });
        }
    }

    /// The store has opened a copy, or does not have it.
    pub(super) fn read_copy(&mut self, number: u64, source: Option<SharedSource>) {
        let job = source.zip(self.checksums.part(number));
        let Some((source, part)) = job else { return self.copy_read(number, None) };
        if !source.is_in_memory() && self.checksums.may_check(number) {
            // What is in a file has a checksum, which the store compares.
            return self.store.check_logged(number, &part.id, part.birth);
        }
        match self.checker.read(Job { number, source, part }) {
            Ok(Some(read)) => self.copy_read(number, read),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "no copies can be read for checksums");
                if let Some(of) = self.checksums.give_up(number) {
                    self.copies_read(of, None);
                }
            }
        }
    }

    /// A copy was read, or cannot be.
    pub(super) fn copy_read(&mut self, number: u64, read: Option<CopyRead>) {
        if let Some(of) = self.checksums.read(number, read) {
            self.read_next(of);
        }
    }

    fn copies_read(&mut self, (peer, question): PageOf, read: Option<Vec<Option<CopyRead>>>) {
        self.step(Event::CopiesRead { peer, question, read });
    }
}
