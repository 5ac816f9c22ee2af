//! Opening at the home of an id, reading and serving.

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;

use super::Node;
use crate::gather::is_of_gather;
use crate::message::{Answer, Message, QuestionNo, ReadRefusal};
use crate::parts::is_of_read;
use crate::serve::Read;
use crate::time::Mono;
use crate::view::Context;

impl Node {
    /// Says whether a copy is here that a node can read.
    fn open(&mut self, now: Mono, id: ObjectId, (from, question): (Slot, QuestionNo)) {
        let copy = self.copies.get(&id).filter(|copy| copy.visible);
        let copy = copy.filter(|_| !self.copies.is_damaged(&id));
        let copy = copy.map(|copy| (copy.birth, copy.content));
        if copy.is_some() {
            self.copies.opened(id, from);
        }
        context!(self, now).send(from, Message::Opened { id, question, copy });
    }

    /// The store has said whether an object is here.
    pub(super) fn looked(&mut self, now: Mono, id: ObjectId, number: u64) {
        for asker in self.looks.answered(&id, number) {
            self.open(now, id, asker);
        }
    }

    /// What a node that opens, reads or serves says.
    pub(super) fn transfer(&mut self, now: Mono, from: Slot, message: Message) {
        match message {
            Message::Open { id, question } => {
                let is_here = self.copies.get(&id).is_some_and(|copy| copy.visible);
                let is_home = id.home() == Some(self.view.me().0);
                if is_here || !is_home || !self.looks.ask(&mut self.out, id, (from, question)) {
                    self.open(now, id, (from, question));
                }
            }
            Message::Opened { id, question, copy: Some((birth, content)) } => {
                let (sources, keeps) = (vec![from], false);
                let answer = Answer::Found { birth, content, sources, keeps };
                self.answered(now, id, question, answer);
            }
            Message::Opened { question, copy: None, .. } if is_of_read(question) => {
                self.parts.not_opened(context!(self, now), question);
            }
            Message::Opened { question, copy: None, .. } if is_of_gather(question) => {
                self.gathers.not_opened(context!(self, now), question);
            }
            Message::Opened { id, question, copy: None } => {
                self.lookups.not_opened(context!(self, now), id, question);
            }
            Message::Read { transfer, id, birth, ranges } => {
                let read = Read { transfer, id, birth, spans: None, ranges };
                self.serves.read(context!(self, now), &self.copies, from, read);
            }
            Message::ReadParts { transfer, id, birth, spans, ranges } => {
                let read = Read { transfer, id, birth, spans: Some(spans), ranges };
                self.serves.read(context!(self, now), &self.copies, from, read);
            }
            Message::ReadRefused { transfer, refusal } => {
                let is_gone = refusal == ReadRefusal::Absent;
                let outcome = self.pulls.refused(context!(self, now), transfer, is_gone);
                self.pull_ended(now, outcome);
            }
            Message::EndRead { transfer } => {
                self.serves.end(context!(self, now), from, transfer);
                self.gather_serves.end(context!(self, now), from, transfer);
            }
            Message::Whole { transfer, bytes } => {
                let cx = context!(self, now);
                if let Some((id, outcome)) = self.pulls.whole(cx, (from, transfer), bytes) {
                    self.progressed(now, id);
                    self.pull_ended(now, outcome);
                }
            }
            _ => {}
        }
    }
}
