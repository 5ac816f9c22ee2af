//! Messages of other nodes, given to the parts of the node.

use plasmon_cluster::{Epoch, Map, Slot};

use super::Node;
use crate::message::Message;
use crate::survey;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    pub(super) fn message(&mut self, now: Mono, from: (Slot, u64, Epoch), message: Message) {
        let (from, incarnation, epoch) = from;
        let is_me = from == self.view.me();
        let is_current = is_me || self.view.accepts(from, incarnation, epoch);
        match message {
            Message::Commit { .. }
            | Message::Find { .. }
            | Message::Unwatch { .. }
            | Message::Delete { .. }
            | Message::Record { .. }
            | Message::Recorded { .. }
            | Message::Unheard { .. }
            | Message::UnheardRecorded { .. }
            | Message::Held { .. }
            | Message::Gone { .. }
            | Message::Missing { .. }
            | Message::Where { .. }
            | Message::Locate { .. } => {
                if is_current {
                    self.directory.message(context!(self, now), from, message);
                }
            }
            Message::Yielded { .. }
            | Message::Inventory { .. }
            | Message::Verify { .. }
            | Message::Verified { .. }
            | Message::Checksum { .. }
            | Message::Checksummed { .. }
            | Message::Repair { .. }
            | Message::Demote { .. } => {
                if is_current {
                    self.of_current(now, from, message);
                }
            }
            Message::Yield { groups } => survey::yielded(context!(self, now), from, &groups),
            Message::Survey { groups } => self.survey(now, from, &groups),
            Message::Committed { .. }
            | Message::Answered { .. }
            | Message::Place { .. }
            | Message::Deleted { .. } => self.answer(now, epoch, message),
            Message::Hold { .. }
            | Message::Publish { .. }
            | Message::Drop { .. }
            | Message::Noted { .. }
            | Message::RemoveTombstone { .. }
            | Message::Discard { .. }
            | Message::Release { .. } => {
                self.order(now, (from, epoch), message);
            }
            Message::Open { .. }
            | Message::Opened { .. }
            | Message::Read { .. }
            | Message::ReadParts { .. }
            | Message::ReadRefused { .. }
            | Message::Whole { .. }
            | Message::EndRead { .. } => self.transfer(now, from, message),
            Message::Gather { .. } | Message::GatherRefused { .. } => {
                self.gather_message(now, from, message);
            }
            Message::List { .. } | Message::Listed { .. } => {
                self.listing(now, (from, is_current), message);
            }
            Message::Watch { .. } | Message::Watching { .. } | Message::Noticed { .. } => {
                self.notice(now, (from, incarnation), is_current, message);
            }
            Message::Region { .. }
            | Message::RegionAnswered { .. }
            | Message::RegionOver { .. } => self.region(now, (from, incarnation), message),
        }
    }

    /// What only a sender that knows this map says.
    fn of_current(&mut self, now: Mono, from: Slot, message: Message) {
        match message {
            Message::Yielded { groups } => self.directory.yielded(now, from, &groups),
            Message::Inventory { groups, copies, more } => {
                let cx = context!(self, now);
                self.directory.inventory(cx, from, &groups, &copies, more);
            }
            Message::Verify { .. } | Message::Verified { .. } => {
                self.verification(now, from, message);
            }
            Message::Checksum { .. } | Message::Checksummed { .. } => {
                self.checksum_message(now, from, message);
            }
            Message::Demote { ids } => self.demoted(ids),
            Message::Repair { copy } => self.repair_copy(now, copy),
            _ => {}
        }
    }

    /// A primary has answered a question or a request.
    fn answer(&mut self, now: Mono, epoch: Epoch, message: Message) {
        match message {
            // A primary that led the group before may have refused what this one accepts.
            Message::Committed { id, .. } | Message::Answered { id, .. }
                if epoch < self.view.group(Map::group_of(&id)).since => {}
            Message::Committed { id, birth, outcome } => {
                let cx = context!(self, now);
                let ended = self.requests.committed(cx, id, birth, outcome);
                if let Some((birth, result)) = ended {
                    self.commit_ended(now, (id, birth), result);
                }
            }
            Message::Answered { id, question, answer } => {
                self.answered(now, id, question, answer);
            }
            Message::Place { id, question, place } => {
                self.places.answered(context!(self, now), epoch, (id, question), place);
            }
            Message::Deleted { id, birth } => {
                if let Some(number) = self.requests.deleted(context!(self, now), id, birth) {
                    self.lookups.deletes_ended(id, number);
                }
            }
            _ => {}
        }
    }
}
