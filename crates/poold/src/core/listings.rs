//! Listings that programs wait for, and pages that the store is asked for.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use plasmon_cluster::Slot;
use plasmon_pool::message::QuestionNo;
use plasmon_proto::pool_listing::{ListQuery, ListedPage};

/// A page of a listing over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// What the nodes have that answered.
    pub page: ListedPage,
    /// The nodes that did not.
    pub missing: Vec<Slot>,
}

/// What a program asks for.
#[derive(Debug)]
pub(super) struct ListQuestion {
    pub(super) query: ListQuery,
    /// Nodes that are not asked.
    pub(super) without: Vec<Slot>,
    pub(super) answer: SyncSender<Listing>,
}

/// Listings and pages by the numbers of their questions.
#[derive(Debug, Default)]
pub(super) struct Listings {
    last: u64,
    asked: BTreeMap<u64, SyncSender<Listing>>,
    here: BTreeMap<u64, (Slot, QuestionNo)>,
}

impl Listings {
    /// A program waits for a listing; the number of the question.
    pub(super) fn ask(&mut self, answer: SyncSender<Listing>) -> u64 {
        self.last += 1;
        self.asked.insert(self.last, answer);
        self.last
    }

    /// The node has answered. The connection that asked may have ended; it has room for its answer.
    pub(super) fn answer(&mut self, number: u64, page: ListedPage, missing: Vec<Slot>) {
        if let Some(answer) = self.asked.remove(&number) {
            let _ = answer.try_send(Listing { page, missing });
        }
    }

    /// The store is asked on behalf of a node; the number of the question.
    pub(super) fn begin(&mut self, peer: Slot, question: QuestionNo) -> u64 {
        self.last += 1;
        self.here.insert(self.last, (peer, question));
        self.last
    }

    /// The store has answered: on behalf of which node it was asked.
    pub(super) fn end(&mut self, number: u64) -> Option<(Slot, QuestionNo)> {
        self.here.remove(&number)
    }
}
