//! Pulls: how a copy of an object comes to this node.
//!
//! ```text
//!   queued ──────► landing ─────► reading ──────► sealed
//!          admitted        memory   │ ▲  │ complete
//!                                   └─┘  │
//!                        another source  └──► no source, given up
//! ```
//!
//! Memory is made only when a pull is admitted: so many bytes may be in flight, the most urgent
//! class comes first, and one pull is always under way. Of a small object the bytes are asked for
//! at the same time, because the answer takes longer than the memory; those of a large one would
//! fill the connection until it is made. A segment that arrived is not asked for again, whichever
//! source sent it. A pull without any source left ends, so that it keeps no memory
//! from others.

mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plasmon_cluster::Slot;
use plasmon_proto::ObjectId;
use plasmon_proto::parts::Span;

use crate::event::{Class, Effect, Ticket};
use crate::limits::{
    FLIGHT_PER_CAPACITY, INLINE_BYTES_MAX, MOVED_MS, READ_EARLY_BYTES_MAX, READ_RANGES_MAX,
    STALL_MS,
};
use crate::message::{InlineBytes, Message, ObjectParts, TransferNo};
use crate::record::{Birth, Content};
use crate::time::{Mono, Timers};
use crate::view::Context;

use segments::Segments;

/// What is to be pulled.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) id: ObjectId,
    pub(crate) birth: Birth,
    pub(crate) content: Content,
    pub(crate) class: Class,
    /// Nodes that have it, the best first.
    pub(crate) sources: Vec<Slot>,
    /// Whether clients may see the copy.
    pub(crate) visible: bool,
    /// Whether a primary asked this node to hold it.
    pub(crate) hold: bool,
    /// Of a pull that brings no copy: what it reads parts of.
    pub(crate) parts: Option<PartsOf>,
}

/// What a pull brings instead of a whole object; it has the id of its landing.
#[derive(Clone, Debug)]
pub(crate) enum PartsOf {
    One { of: ObjectId, spans: Arc<Vec<Span>> },
    Many(Arc<Vec<ObjectParts>>),
}

/// How a pull ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The copy is here.
    Sealed,
    /// There was no room for it.
    NoRoom,
    /// Every source failed. With others it can be begun again.
    NoSource,
}

/// A pull that ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) wish: Wish,
    pub(crate) ended: Ended,
}

#[derive(Debug)]
enum Stage {
    Queued,
    Landing(Ticket),
    Reading(Reading),
}

/// What is read into a landing.
#[derive(Debug)]
struct Reading {
    ticket: Ticket,
    /// Whether its memory is there. Nothing arrives before that.
    has_memory: bool,
    missing: Segments,
    transfer: Option<(TransferNo, Slot)>,
    /// A small object that was there before its memory.
    early: Option<InlineBytes>,
    /// Whether the connection was lost since the last segment came.
    interrupted: bool,
}

#[derive(Debug)]
struct Pull {
    wish: Wish,
    order: u64,
    stage: Stage,
    /// When bytes of it last came.
    moved: Option<Mono>,
}

impl Pull {
    /// Whether the object comes in a message.
    fn is_inline(&self) -> bool {
        self.wish.content.bytes() <= INLINE_BYTES_MAX
    }

    fn is_in_flight(&self) -> bool {
        !matches!(self.stage, Stage::Queued)
    }
}

/// The pulls of this node, at most one for each id.
#[derive(Debug)]
pub(crate) struct Pulls {
    by_id: BTreeMap<ObjectId, Pull>,
    queue: BTreeSet<(Class, u64, ObjectId)>,
    landings: BTreeMap<Ticket, ObjectId>,
    transfers: BTreeMap<TransferNo, ObjectId>,
    bytes_in_flight: u64,
    bytes_in_flight_max: u64,
    next: u64,
    timers: Timers<ObjectId>,
    /// Nodes whose connection was lost: they are asked last.
    down: BTreeSet<Slot>,
    /// When bytes of any pull last came.
    moved: Option<Mono>,
}

impl Pulls {
    /// No pulls; tickets and transfers are numbered from `first` on.
    pub(crate) fn new(capacity_bytes: u64, first: u64) -> Self {
        Self {
            by_id: BTreeMap::new(),
            queue: BTreeSet::new(),
            landings: BTreeMap::new(),
            transfers: BTreeMap::new(),
            bytes_in_flight: 0,
            bytes_in_flight_max: capacity_bytes / FLIGHT_PER_CAPACITY,
            next: first,
            timers: Timers::new(),
            down: BTreeSet::new(),
            moved: None,
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// The pull of an id, as it was asked for.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Wish> {
        self.by_id.get(id).map(|pull| &pull.wish)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Wish> {
        self.by_id.values().map(|pull| &pull.wish)
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins a pull, or gives the one that is under way more sources and reasons. False when
    /// another incarnation is being pulled.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>, wish: Wish) -> bool {
        let id = wish.id;
        let Some(pull) = self.by_id.get_mut(&id) else {
            let order = self.next();
            self.queue.insert((wish.class, order, id));
            let (stage, moved) = (Stage::Queued, None);
            self.by_id.insert(id, Pull { wish, order, stage, moved });
            self.admit(cx);
            return true;
        };
        if pull.wish.birth != wish.birth {
            return false;
        }
        pull.wish.visible |= wish.visible;
        pull.wish.hold |= wish.hold;
        if !wish.sources.is_empty() {
            pull.wish.sources = wish.sources;
        }
        if wish.class < pull.wish.class && self.queue.remove(&(pull.wish.class, pull.order, id)) {
            self.queue.insert((wish.class, pull.order, id));
        }
        pull.wish.class = pull.wish.class.min(wish.class);
        true
    }

    /// Whether bytes of this copy came a moment ago, or of others while it waits for its turn.
    pub(crate) fn is_moving(&self, now: Mono, id: &ObjectId, birth: Birth) -> bool {
        let pull = self.by_id.get(id).filter(|pull| pull.wish.birth == birth);
        let moved = pull.and_then(|pull| match pull.stage {
            Stage::Queued => self.moved,
            Stage::Landing(_) | Stage::Reading(_) => pull.moved,
        });
        moved.is_some_and(|moved| now < moved.after_ms(MOVED_MS))
    }

    /// Lets clients see the copy once it is here.
    pub(crate) fn publish(&mut self, id: ObjectId, birth: Birth) {
        let pull = self.by_id.get_mut(&id).filter(|pull| pull.wish.birth == birth);
        if let Some(pull) = pull {
            pull.wish.visible = true;
        }
    }

    /// Ends pulls that no client and no primary wants any more.
    pub(crate) fn cancel_unwanted(
        &mut self,
        cx: &mut Context<'_>,
        is_wanted: impl Fn(&Wish) -> bool,
    ) {
        let unwanted: Vec<_> =
            self.iter().filter(|wish| !is_wanted(wish)).map(|wish| wish.id).collect();
        unwanted.into_iter().for_each(|id| self.cancel(cx, id));
    }

    /// Gives up a pull.
    pub(crate) fn cancel(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        self.end(cx, id, true);
        self.admit(cx);
    }

    /// Makes memory for the pulls that are admitted.
    fn admit(&mut self, cx: &mut Context<'_>) {
        while let Some((class, order, id)) = self.queue.first().copied() {
            let Some(pull) = self.by_id.get_mut(&id) else { return };
            let bytes = pull.wish.content.bytes();
            let sum = self.bytes_in_flight.saturating_add(bytes);
            if self.bytes_in_flight > 0 && sum > self.bytes_in_flight_max {
                return;
            }
            self.queue.remove(&(class, order, id));
            self.bytes_in_flight = sum;
            self.next += 1;
            let ticket = Ticket(self.next);
            pull.stage = Stage::Landing(ticket);
            self.landings.insert(ticket, id);
            let Wish { birth, content, .. } = pull.wish;
            cx.out.effect(Effect::Land { ticket, id, birth, content });
            let me = cx.view.me();
            if bytes <= READ_EARLY_BYTES_MAX && pull.wish.sources.iter().any(|slot| *slot != me) {
                // There is a source, so the pull does not end with this.
                self.begin_reading(cx, id, ticket, false);
            }
        }
    }

    fn begin_reading(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        ticket: Ticket,
        has_memory: bool,
    ) -> Option<Outcome> {
        let pull = self.by_id.get_mut(&id)?;
        let missing = Segments::all(pull.wish.content.segments());
        pull.stage = Stage::Reading(Reading {
            ticket,
            has_memory,
            missing,
            transfer: None,
            early: None,
            interrupted: false,
        });
        self.read(cx, id)
    }

    /// The memory of a landing is there, or cannot be had.
    pub(crate) fn landed(
        &mut self,
        cx: &mut Context<'_>,
        ticket: Ticket,
        room: bool,
    ) -> Option<Outcome> {
        let id = *self.landings.get(&ticket)?;
        let pull = self.by_id.get_mut(&id)?;
        match &mut pull.stage {
            Stage::Reading(reading) if room => {
                reading.has_memory = true;
                if let Some(bytes) = reading.early.take() {
                    return self.complete(cx, id, Some(bytes));
                }
                self.timers.set(id, cx.now.after_ms(STALL_MS));
                return None;
            }
            _ if room => return self.begin_reading(cx, id, ticket, true),
            _ => {}
        }
        let wish = pull.wish.clone();
        self.end(cx, id, false);
        self.admit(cx);
        Some(Outcome { wish, ended: Ended::NoRoom })
    }

    /// Asks the next source for what is missing.
    fn read(&mut self, cx: &mut Context<'_>, id: ObjectId) -> Option<Outcome> {
        self.stop(cx, id);
        let number = self.next();
        let pull = self.by_id.get_mut(&id)?;
        let is_inline = pull.is_inline();
        let Stage::Reading(Reading { ticket, missing, transfer, .. }) = &mut pull.stage else {
            return None;
        };
        let me = cx.view.me();
        pull.wish.sources.retain(|slot| *slot != me);
        if pull.wish.sources.is_empty() {
            let wish = pull.wish.clone();
            self.end(cx, id, true);
            self.admit(cx);
            return Some(Outcome { wish, ended: Ended::NoSource });
        }
        let up = pull.wish.sources.iter().position(|slot| !self.down.contains(slot));
        let source = pull.wish.sources.remove(up.unwrap_or(0));
        let no = TransferNo(number);
        *transfer = Some((no, source));
        self.transfers.insert(no, id);
        self.timers.set(id, cx.now.after_ms(STALL_MS));
        let (birth, ranges) = (pull.wish.birth, missing.ranges(READ_RANGES_MAX));
        let segments = ranges.iter().map(|range| range.count).sum();
        if !is_inline {
            cx.out.effect(Effect::Accept { transfer: no, ticket: *ticket, source, segments });
        }
        cx.send(
            source,
            match &pull.wish.parts {
                None => Message::Read { transfer: no, id, birth, ranges },
                Some(PartsOf::One { of, spans }) => {
                    let (id, spans) = (*of, spans.to_vec());
                    Message::ReadParts { transfer: no, id, birth, spans, ranges }
                }
                Some(PartsOf::Many(parts)) => {
                    Message::Gather { transfer: no, parts: parts.to_vec() }
                }
            },
        );
        None
    }

    /// Stops the transfer of a pull.
    fn stop(&mut self, cx: &mut Context<'_>, id: ObjectId) {
        self.timers.clear(id);
        let Some(pull) = self.by_id.get_mut(&id) else { return };
        let is_inline = pull.is_inline();
        let Stage::Reading(reading) = &mut pull.stage else { return };
        if let Some((no, source)) = reading.transfer.take() {
            self.transfers.remove(&no);
            if !is_inline {
                cx.out.effect(Effect::Refuse(no));
            }
            cx.send(source, Message::EndRead { transfer: no });
        }
    }

    fn end(&mut self, cx: &mut Context<'_>, id: ObjectId, abandon: bool) {
        self.stop(cx, id);
        let Some(pull) = self.by_id.remove(&id) else { return };
        self.queue.remove(&(pull.wish.class, pull.order, id));
        if pull.is_in_flight() {
            self.bytes_in_flight -= pull.wish.content.bytes();
        }
        if let Stage::Landing(ticket) | Stage::Reading(Reading { ticket, .. }) = pull.stage {
            self.landings.remove(&ticket);
            if abandon {
                cx.out.effect(Effect::Abandon(ticket));
            }
        }
    }

    /// A segment arrived. The object that it belongs to, and how the pull ended if it did.
    pub(crate) fn arrived(
        &mut self,
        cx: &mut Context<'_>,
        no: TransferNo,
        segment: u32,
        intact: bool,
    ) -> Option<(ObjectId, Option<Outcome>)> {
        let id = *self.transfers.get(&no)?;
        let pull = self.by_id.get_mut(&id)?;
        let Stage::Reading(reading) = &mut pull.stage else { return None };
        if !intact {
            return Some((id, self.read(cx, id)));
        }
        let Reading { missing, transfer, interrupted, .. } = reading;
        *interrupted = false;
        (self.moved, pull.moved) = (Some(cx.now), Some(cx.now));
        missing.remove(segment);
        if !missing.is_empty() {
            self.timers.set(id, cx.now.after_ms(STALL_MS));
            if missing.is_next_page(segment)
                && let Some((_, source)) = *transfer
            {
                pull.wish.sources.insert(0, source);
                return Some((id, self.read(cx, id)));
            }
            return Some((id, None));
        }
        Some((id, self.complete(cx, id, None)))
    }

    /// Content arrives from a source: its transfers do not stand still, be it slow or serve several
    /// in turn. `tell` is told what they bring.
    pub(crate) fn moving(&mut self, now: Mono, from: Slot, mut tell: impl FnMut(ObjectId)) {
        for id in self.read_from(from) {
            self.timers.set(id, now.after_ms(STALL_MS));
            self.moved = Some(now);
            if let Some(pull) = self.by_id.get_mut(&id) {
                pull.moved = Some(now);
            }
            tell(id);
        }
    }

    /// What is read from this source now.
    fn read_from(&self, from: Slot) -> Vec<ObjectId> {
        let of_peer = |pull: &Pull| match pull.stage {
            Stage::Reading(Reading { transfer: Some((_, source)), .. }) => source == from,
            Stage::Queued | Stage::Landing(_) | Stage::Reading(_) => false,
        };
        self.by_id.iter().filter(|(_, pull)| of_peer(pull)).map(|(id, _)| *id).collect()
    }

    /// A small object arrived, from the node that was asked for it. The object, and how the pull
    /// ended if it did.
    pub(crate) fn whole(
        &mut self,
        cx: &mut Context<'_>,
        (from, no): (Slot, TransferNo),
        bytes: InlineBytes,
    ) -> Option<(ObjectId, Option<Outcome>)> {
        let id = *self.transfers.get(&no)?;
        let pull = self.by_id.get_mut(&id)?;
        let is_right = pull.is_inline() && pull.wish.content.bytes() == bytes.0.len() as u64;
        let Stage::Reading(reading) = &mut pull.stage else { return None };
        if reading.transfer != Some((no, from)) {
            return None;
        }
        if !is_right {
            return Some((id, self.read(cx, id)));
        }
        // The transfer has ended for the source.
        reading.transfer = None;
        self.transfers.remove(&no);
        self.timers.clear(id);
        if !reading.has_memory {
            reading.early = Some(bytes);
            return Some((id, None));
        }
        Some((id, self.complete(cx, id, Some(bytes))))
    }

    /// Everything is there, and these bytes are still to be put into the landing.
    fn complete(
        &mut self,
        cx: &mut Context<'_>,
        id: ObjectId,
        bytes: Option<InlineBytes>,
    ) -> Option<Outcome> {
        let pull = self.by_id.get(&id)?;
        let Stage::Reading(Reading { ticket, .. }) = pull.stage else { return None };
        let wish = pull.wish.clone();
        self.end(cx, id, false);
        if let Some(bytes) = bytes {
            cx.out.effect(Effect::Fill { ticket, bytes });
        }
        cx.out.effect(Effect::Seal { ticket, visible: wish.visible, keep: wish.hold });
        self.admit(cx);
        Some(Outcome { wish, ended: Ended::Sealed })
    }

    /// The connection that brought the segments of a transfer was lost. Its source still has the
    /// object: it is asked again after the others, but only once before the next segment comes.
    pub(crate) fn interrupted(&mut self, cx: &mut Context<'_>, no: TransferNo) -> Option<Outcome> {
        let id = *self.transfers.get(&no)?;
        let pull = self.by_id.get_mut(&id)?;
        if let Stage::Reading(reading) = &mut pull.stage
            && let Some((_, source)) = reading.transfer
            && !std::mem::replace(&mut reading.interrupted, true)
        {
            pull.wish.sources.push(source);
        }
        self.read(cx, id)
    }

    /// A source does not serve a transfer. Where its copy is gone, the primary is told.
    pub(crate) fn refused(
        &mut self,
        cx: &mut Context<'_>,
        no: TransferNo,
        is_gone: bool,
    ) -> Option<Outcome> {
        let id = *self.transfers.get(&no)?;
        let pull = self.by_id.get(&id)?;
        if let Stage::Reading(Reading { transfer: Some((_, holder)), .. }) = pull.stage
            && is_gone
        {
            let Wish { id, birth, .. } = pull.wish;
            let id = match &pull.wish.parts {
                None => Some(id),
                Some(PartsOf::One { of, .. }) => Some(*of),
                // Its holder says of which objects.
                Some(PartsOf::Many(_)) => None,
            };
            if let Some(id) = id {
                cx.send_to_primary(&id, Message::Missing { id, birth, holder });
            }
        }
        self.read(cx, id)
    }

    /// The pull of a transfer from this node.
    pub(crate) fn of_transfer(&self, from: Slot, no: TransferNo) -> Option<&Wish> {
        let pull = self.by_id.get(self.transfers.get(&no)?)?;
        let Stage::Reading(Reading { transfer, .. }) = &pull.stage else { return None };
        (*transfer == Some((no, from))).then_some(&pull.wish)
    }

    /// A node is connected.
    pub(crate) fn link_up(&mut self, peer: Slot) {
        self.down.remove(&peer);
    }

    /// The connection to a node was lost.
    pub(crate) fn link_down(&mut self, cx: &mut Context<'_>, peer: Slot) -> Vec<Outcome> {
        self.down.insert(peer);
        let ids = self.read_from(peer);
        ids.into_iter().filter_map(|id| self.read(cx, id)).collect()
    }

    /// Transfers that did not move for long go on with the next source.
    pub(crate) fn time_passed(&mut self, cx: &mut Context<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Some(id) = self.timers.pop(cx.now) {
            match self.by_id.get(&id).map(|pull| &pull.stage) {
                // The source may have sent everything; the store makes room.
                Some(Stage::Reading(Reading { has_memory: false, .. })) => {
                    self.timers.set(id, cx.now.after_ms(STALL_MS));
                }
                _ => outcomes.extend(self.read(cx, id)),
            }
        }
        outcomes
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.by_id.is_empty() && self.bytes_in_flight == 0 && self.transfers.is_empty()
    }
}

#[cfg(test)]
mod tests;
