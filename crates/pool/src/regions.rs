//! Regions whose home this node is: objects under construction that all nodes write.
//!
//! ```text
//!           memory is there            Seal             the store has sealed it
//!   making ─────────────────► open ────────────► sealing ─────────────────────► over: sealed
//!      │                        │  ▲ Write          │ the store or the pool refused
//!      └── Free, abandoned ─────┴──┴────────────────┴──────────────────────────► over: freed, ..
//! ```
//!
//! Everything that is asked is done in the order in which it arrives: of two writes of the same
//! bytes the later one counts. A write that was answered is in the sealed object; one that arrives
//! after the seal is refused. A repeated request has the same effect as one, because the node that
//! asks takes an answer before it asks for anything that depends on it.
//!
//! A region lives as long as what allocated it. The node of that says when it is gone; a node that
//! was given up, or was started again, says nothing any more, and its regions end by the map.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_cluster::Slot;
use plasmon_proto::region::{RegionFailure, RegionReply, RegionRequest};
use plasmon_proto::{Code, ObjectId};

use crate::copies::Copies;
use crate::event::Effect;
use crate::limits::{REGIONS_MAX, REGIONS_OVER_MAX};
use crate::message::{InlineBytes, Message, QuestionNo};
use crate::view::{Context, View};

/// A question of a node.
type Question = (Slot, QuestionNo);

#[derive(Debug)]
enum Stage {
    /// Its memory is made; the question that this answers.
    Making(Question),
    Open,
    /// The store seals it; the nodes that are told.
    Sealing(Vec<Question>),
}

#[derive(Debug)]
struct Region {
    /// The node whose program allocated it, and the start of its pool daemon.
    owner: (Slot, u64),
    bytes: u64,
    stage: Stage,
}

/// How a region ended.
#[derive(Debug)]
struct Over {
    /// What is answered to other questions.
    failure: RegionFailure,
    /// The questions that were answered by its end, and how.
    by: Vec<Question>,
    reply: RegionReply,
}

/// The regions of this node.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: BTreeMap<ObjectId, Region>,
    /// Ended before their memory was there, which is given back then.
    unwanted: BTreeSet<ObjectId>,
    over: BTreeMap<ObjectId, Over>,
    /// The ids of `over`, the oldest first.
    order: VecDeque<ObjectId>,
}

fn failed(failure: RegionFailure) -> RegionReply {
    RegionReply::Failed(failure)
}

impl Regions {
    /// A node asks something; it is answered at once or when it is done.
    pub(crate) fn asked(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        (from, incarnation): (Slot, u64),
        question: QuestionNo,
        request: RegionRequest,
    ) {
        let by = (from, question);
        let id = request.id();
        if id.home() != Some(cx.view.me().0) {
            return answer(cx, by, failed(RegionFailure::Unknown));
        }
        let reply = match request {
            RegionRequest::Allocate { bytes, copies: wanted, copies_min, .. } => {
                let sizes = (bytes, wanted, copies_min);
                self.allocate(cx, copies, by, (id, incarnation), sizes)
            }
            RegionRequest::Write { offset, bytes, .. } => self.write(cx, copies, id, offset, bytes),
            RegionRequest::Seal { .. } => self.seal(cx, copies, by, id),
            RegionRequest::Free { is_abandoned, .. } => {
                self.free(cx, copies, by, (id, is_abandoned))
            }
            RegionRequest::Look { .. } => match self.regions.get(&id) {
                Some(Region { bytes, .. }) => Some(RegionReply::Open { bytes: *bytes }),
                None => Some(failed(self.over_as(copies, &id))),
            },
        };
        if let Some(reply) = reply {
            answer(cx, by, reply);
        }
    }

    fn allocate(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        by: Question,
        (id, incarnation): (ObjectId, u64),
        (bytes, wanted, copies_min): (u64, u8, u8),
    ) -> Option<RegionReply> {
        let owner = (by.0, incarnation);
        if let Some(region) = self.regions.get(&id) {
            return Some(match region.stage {
                Stage::Making(asked) if asked == by => RegionReply::Pending,
                // The answer was lost.
                Stage::Open if region.owner == owner => RegionReply::Done,
                _ => failed(RegionFailure::Refused(Code::Exists)),
            });
        }
        if self.over.contains_key(&id) || copies.get(&id).is_some() {
            return Some(failed(self.over_as(copies, &id)));
        }
        if self.regions.len() + self.unwanted.len() >= REGIONS_MAX {
            return Some(failed(RegionFailure::Busy));
        }
        let stage = Stage::Making(by);
        self.regions.insert(id, Region { owner, bytes, stage });
        cx.out.effect(Effect::Allocate { id, bytes, copies: wanted, copies_min });
        None
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        id: ObjectId,
        offset: u64,
        data: InlineBytes,
    ) -> Option<RegionReply> {
        let Some(Region { bytes, stage, .. }) = self.regions.get(&id) else {
            return Some(failed(self.over_as(copies, &id)));
        };
        let end = offset.checked_add(data.0.len() as u64);
        Some(match stage {
            Stage::Making(_) => failed(RegionFailure::Unknown),
            Stage::Sealing(_) => failed(RegionFailure::Sealed),
            Stage::Open if end.is_none_or(|end| end > *bytes) => {
                failed(RegionFailure::Beyond { bytes: *bytes })
            }
            Stage::Open => {
                cx.out.effect(Effect::WriteRegion { id, offset, bytes: data });
                RegionReply::Done
            }
        })
    }

    fn seal(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        by: Question,
        id: ObjectId,
    ) -> Option<RegionReply> {
        let Some(region) = self.regions.get_mut(&id) else {
            return Some(self.repeated(by, &id).unwrap_or(failed(self.over_as(copies, &id))));
        };
        match &mut region.stage {
            Stage::Making(_) => return Some(failed(RegionFailure::Unknown)),
            Stage::Sealing(told) if told.contains(&by) => return Some(RegionReply::Pending),
            Stage::Sealing(told) => told.push(by),
            Stage::Open => {
                region.stage = Stage::Sealing(vec![by]);
                cx.out.effect(Effect::SealRegion(id));
            }
        }
        None
    }

    fn free(
        &mut self,
        cx: &mut Context<'_>,
        copies: &Copies,
        by: Question,
        (id, is_abandoned): (ObjectId, bool),
    ) -> Option<RegionReply> {
        let region = self.regions.get(&id);
        match region.map(|region| &region.stage) {
            Some(Stage::Sealing(_)) if is_abandoned => Some(RegionReply::Done),
            // How it ends decides what is left to do.
            Some(Stage::Sealing(_)) => Some(RegionReply::Pending),
            Some(_) => {
                let why = match is_abandoned {
                    true => RegionFailure::AllocatorGone,
                    false => RegionFailure::Freed,
                };
                self.end(cx, id, why, vec![by]);
                Some(RegionReply::Done)
            }
            None if is_abandoned => Some(RegionReply::Done),
            None => Some(self.repeated(by, &id).unwrap_or(failed(self.over_as(copies, &id)))),
        }
    }

    /// A region that is not sealed ends.
    fn end(&mut self, cx: &mut Context<'_>, id: ObjectId, why: RegionFailure, by: Vec<Question>) {
        let Some(Region { owner, stage, .. }) = self.regions.get(&id) else { return };
        let owner = owner.0;
        match stage {
            Stage::Making(asked) => {
                answer(cx, *asked, failed(why));
                self.unwanted.insert(id);
            }
            Stage::Open => cx.out.effect(Effect::EndRegion(id)),
            Stage::Sealing(_) => return,
        }
        self.regions.remove(&id);
        self.remember(id, Over { failure: why, by, reply: RegionReply::Done });
        cx.send(owner, Message::RegionOver { id });
    }

    /// The memory of a region is there, or the store refused it.
    pub(crate) fn allocated(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        result: Result<(), Code>,
    ) {
        if self.unwanted.remove(&id) {
            if result.is_ok() {
                cx.out.effect(Effect::EndRegion(id));
            }
            return;
        }
        let Some(region) = self.regions.get_mut(&id) else { return };
        let Stage::Making(asked) = region.stage else { return };
        let reply = match result {
            Ok(()) => RegionReply::Done,
            Err(code) => failed(RegionFailure::Refused(code)),
        };
        match result {
            Ok(()) => region.stage = Stage::Open,
            Err(code) => {
                self.regions.remove(&id);
                let failure = RegionFailure::Refused(code);
                self.remember(id, Over { failure, by: vec![asked], reply });
            }
        }
        answer(cx, asked, reply);
    }

    /// The store has sealed a region, or could not.
    pub(crate) fn sealed(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        is_sealed: bool,
        result: Result<(), Code>,
    ) {
        let Some(Region { owner, stage: Stage::Sealing(told), .. }) = self.regions.remove(&id)
        else {
            return;
        };
        let reply = match result {
            Ok(()) => RegionReply::Done,
            Err(code) => failed(RegionFailure::Refused(code)),
        };
        told.iter().for_each(|by| answer(cx, *by, reply));
        let failure = match result {
            Err(code) if !is_sealed => RegionFailure::Refused(code),
            _ => RegionFailure::Sealed,
        };
        self.remember(id, Over { failure, by: told, reply });
        cx.send(owner.0, Message::RegionOver { id });
    }

    /// Regions end whose allocating node was given up or started again.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        let is_gone = |(_, region): &(&ObjectId, &Region)| is_gone(cx.view, region.owner);
        let gone: Vec<_> = self.regions.iter().filter(is_gone).map(|(id, _)| *id).collect();
        for id in gone {
            self.end(cx, id, RegionFailure::AllocatorGone, Vec::new());
        }
    }

    /// The answer to a question that was answered when the region ended, and is asked again.
    fn repeated(&self, by: Question, id: &ObjectId) -> Option<RegionReply> {
        self.over.get(id).filter(|over| over.by.contains(&by)).map(|over| over.reply)
    }

    fn remember(&mut self, id: ObjectId, over: Over) {
        if self.over.insert(id, over).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > REGIONS_OVER_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.over.remove(&oldest);
        }
    }

    /// What is to be said of an id that no region under construction has.
    fn over_as(&self, copies: &Copies, id: &ObjectId) -> RegionFailure {
        match self.over.get(id) {
            Some(over) => over.failure,
            None if copies.get(id).is_some() => RegionFailure::Sealed,
            None => RegionFailure::Unknown,
        }
    }
}

/// Whether the map says that what allocated regions there is gone. A node is connected to another
/// one only as the start that its map knows, so an owner was known to the map before.
fn is_gone(view: &View, (slot, incarnation): (Slot, u64)) -> bool {
    let node = view.map().node(slot);
    view.is_out(slot) || node.is_some_and(|node| node.member.incarnation != incarnation)
}

fn answer(cx: &mut Context<'_>, (to, question): Question, reply: RegionReply) {
    cx.send(to, Message::RegionAnswered { question, reply });
}
