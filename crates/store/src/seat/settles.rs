//! The requests that wait until the pool has accepted objects. What they are answered is decided in
//! `settling.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use plasmon_proto::limits::RECENT_ENDS_MAX;
use plasmon_proto::{Code, ObjectId};

use crate::asker::Asker;
use crate::event::ClientNo;

/// Names a request.
pub(super) type SettleNo = u64;

/// What is known of an id: accepted, or why not.
pub(super) type Outcome = Option<Code>;

/// A request whose objects are not all decided.
#[derive(Debug)]
pub(super) struct Settle {
    pub(super) asker: Asker,
    pub(super) request: u64,
    /// Those that are not decided count as too late.
    pub(super) outcomes: Vec<Outcome>,
    /// The places of the ids that are not decided.
    pub(super) missing: BTreeMap<u32, ObjectId>,
    pub(super) deadline_ms: Option<u64>,
}

/// The requests that wait, and what was refused before any client asked.
#[derive(Debug, Default)]
pub(crate) struct Settles {
    by_no: BTreeMap<SettleNo, Settle>,
    /// The requests that wait for an id, and as which of their ids.
    by_id: BTreeSet<(ObjectId, SettleNo, u32)>,
    by_request: BTreeMap<(ClientNo, u64), SettleNo>,
    deadlines: BTreeSet<(u64, SettleNo)>,
    next: SettleNo,
    refused: Refused,
}

/// Commits that the pool has refused, the last ones. The map is never iterated, so that the random
/// order of a hash map cannot make two runs differ.
#[derive(Debug, Default)]
struct Refused {
    codes: HashMap<ObjectId, Code>,
    order: VecDeque<ObjectId>,
}

impl Refused {
    fn add(&mut self, id: ObjectId, code: Code) {
        if self.codes.insert(id, code).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > RECENT_ENDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.codes.remove(&oldest);
        }
    }
}

impl Settles {
    /// When the next request ends.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_no.is_empty()
    }

    pub(super) fn overdue(&self, now_ms: u64) -> Option<SettleNo> {
        self.deadlines.first().filter(|(at_ms, _)| *at_ms <= now_ms).map(|(_, no)| *no)
    }

    /// How many ids a client waits for.
    pub(super) fn ids_of(&self, client: ClientNo) -> usize {
        let of_client = self.by_request.range((client, 0)..=(client, u64::MAX));
        of_client.filter_map(|(_, no)| Some(self.by_no.get(no)?.missing.len())).sum()
    }

    pub(super) fn add(&mut self, settle: Settle) {
        self.next += 1;
        let no = self.next;
        self.by_id.extend(settle.missing.iter().map(|(at, id)| (*id, no, *at)));
        self.deadlines.extend(settle.deadline_ms.map(|at_ms| (at_ms, no)));
        self.by_request.insert((settle.asker.client, settle.request), no);
        self.by_no.insert(no, settle);
    }

    pub(super) fn remove(&mut self, no: SettleNo) -> Option<Settle> {
        let settle = self.by_no.remove(&no)?;
        for (at, id) in &settle.missing {
            self.by_id.remove(&(*id, no, *at));
        }
        if let Some(at_ms) = settle.deadline_ms {
            self.deadlines.remove(&(at_ms, no));
        }
        self.by_request.remove(&(settle.asker.client, settle.request));
        Some(settle)
    }

    /// An id is decided. Returns the requests that have all of theirs now.
    pub(super) fn decide(&mut self, id: &ObjectId, outcome: Outcome) -> Vec<SettleNo> {
        if self.by_no.is_empty() {
            return Vec::new();
        }
        let waiting: Vec<_> =
            self.by_id.range((*id, 0, 0)..=(*id, SettleNo::MAX, u32::MAX)).copied().collect();
        let mut done = Vec::new();
        for entry in waiting {
            self.by_id.remove(&entry);
            let (_, no, at) = entry;
            let Some(settle) = self.by_no.get_mut(&no) else { continue };
            settle.outcomes[at as usize] = outcome;
            settle.missing.remove(&at);
            if settle.missing.is_empty() {
                done.push(no);
            }
        }
        done
    }

    /// The pool has refused an object.
    pub(super) fn refuse(&mut self, id: &ObjectId, code: Code) {
        self.refused.add(*id, code);
    }

    /// It is made anew, or again.
    pub(super) fn forget_refused(&mut self, id: &ObjectId) {
        if !self.refused.codes.is_empty() {
            self.refused.codes.remove(id);
        }
    }

    /// Why the pool refused an object lately.
    pub(super) fn refusal_of(&self, id: &ObjectId) -> Option<Code> {
        self.refused.codes.get(id).copied()
    }

    /// The request of a client with this number.
    pub(super) fn find(&self, client: ClientNo, request: u64) -> Option<SettleNo> {
        self.by_request.get(&(client, request)).copied()
    }

    /// All requests.
    pub(super) fn numbers(&self) -> Vec<SettleNo> {
        self.by_no.keys().copied().collect()
    }

    /// What is not decided of a request gets this outcome.
    pub(super) fn decide_rest(&mut self, no: SettleNo, outcome: Outcome) {
        let Some(settle) = self.by_no.get_mut(&no) else { return };
        for at in settle.missing.keys() {
            settle.outcomes[*at as usize] = outcome;
        }
    }

    /// The client's connection ended: it asks again on the next one.
    pub(crate) fn forget_client(&mut self, client: ClientNo) {
        let of_client = self.by_request.range((client, 0)..=(client, u64::MAX));
        let numbers: Vec<SettleNo> = of_client.map(|(_, no)| *no).collect();
        for no in numbers {
            self.remove(no);
        }
    }
}
