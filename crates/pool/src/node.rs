//! One node of a pool: takes events apart and gives them to the parts.

use std::sync::Arc;

use plasmon_cluster::{DrainReport, Epoch, GroupNo, Map, Slot};
use plasmon_proto::ObjectId;

use crate::checksums::{ChecksumServes, Checksums};
use crate::config::Config;
use crate::copies::{Copies, Copy};
use crate::creations::Creations;
use crate::directory::Directory;
use crate::event::{Call, Effect, Event, Fate, Refusal, Told};
use crate::gather::{GatherServes, Gathers};
use crate::limits::{HELD_AGAIN_MS, MESSAGES_MAX};
use crate::listing::Listings;
use crate::looks::Looks;
use crate::lookup::Lookups;
use crate::message::{Envelope, HoldOutcome, Message};
use crate::notices::Notices;
use crate::origin::{Commit, Overdue, Requests};
use crate::outbox::Outbox;
use crate::parts::PartsReads;
use crate::places::Places;
use crate::pull::{Ended, Outcome, Pulls, Wish};
use crate::record::{Birth, is_copies};
use crate::refusals::Refusals;
use crate::region_asks::RegionAsks;
use crate::regions::Regions;
use crate::serve::Serves;
use crate::survey;
use crate::time::Mono;
use crate::verify::Verifications;
use crate::view::{Context, View};
use crate::vouch::Vouching;

/// How a commit ended.
type CommitResult = Result<(), Refusal>;

/// One node of a pool.
#[derive(Debug)]
pub struct Node {
    view: View,
    out: Outbox,
    directory: Directory,
    copies: Copies,
    requests: Requests,
    refusals: Refusals,
    lookups: Lookups,
    creations: Creations,
    looks: Looks,
    pulls: Pulls,
    serves: Serves,
    vouching: Vouching,
    places: Places,
    listings: Listings,
    verifications: Verifications,
    checksums: Checksums,
    checksum_serves: ChecksumServes,
    notices: Notices,
    parts: PartsReads,
    regions: Regions,
    region_asks: RegionAsks,
    gathers: Gathers,
    gather_serves: GatherServes,
    /// When to say again which hidden copies are held.
    held_due: Option<Mono>,
    /// What was last reported of draining nodes.
    drains: Vec<DrainReport>,
}

macro_rules! context {
    ($node:ident, $now:ident) => {
        &mut Context { now: $now, view: &$node.view, out: &mut $node.out }
    };
}

mod answers;
mod checksums;
mod creations;
mod demotions;
mod drains;
mod durable;
mod gathers;
mod listings;
mod messages;
mod notices;
mod orders;
mod parts;
mod regions;
mod repairs;
mod transfers;
mod verify;
mod vouching;

impl Node {
    /// A node that has just been started: it knows no map, and nothing of its store's copies.
    pub fn new(config: Config) -> Self {
        Self {
            directory: Directory::new(config.repair_bytes_per_s),
            pulls: Pulls::new(config.capacity_bytes, config.first_number()),
            vouching: Vouching::new(config.isolated_serve_ms),
            view: View::new(config),
            out: Outbox::default(),
            copies: Copies::default(),
            requests: Requests::new(),
            refusals: Refusals::default(),
            lookups: Lookups::new(config.first_number()),
            looks: Looks::default(),
            serves: Serves::default(),
            creations: Creations::default(),
            places: Places::new(config.first_number()),
            listings: Listings::new(config.first_number()),
            verifications: Verifications::new(config.first_number()),
            checksums: Checksums::new(config.first_number()),
            checksum_serves: ChecksumServes::default(),
            notices: Notices::new(config.first_number()),
            parts: PartsReads::new(config.first_number()),
            regions: Regions::default(),
            region_asks: RegionAsks::new(config.first_number()),
            gathers: Gathers::new(config.first_number()),
            gather_serves: GatherServes::default(),
            held_due: None,
            drains: Vec::new(),
        }
    }

    /// Takes an event; what follows from it is added to `effects`. Time never runs backwards.
    pub fn step(&mut self, now: Mono, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Local(call) => self.call(now, call),
            Event::LocalMany(calls) => calls.into_iter().for_each(|call| self.call(now, call)),
            Event::Peer(Envelope { epoch, from, incarnation, messages }) => {
                for message in messages {
                    self.message(now, (from, incarnation, epoch), message);
                }
            }
            Event::Link { peer, up } => self.link(now, peer, up),
            Event::Map(map) => self.map(now, map),
            Event::Lease(until) => self.view.set_lease(until),
            Event::LeaseLost => self.view.lose_lease(),
            Event::Landed { ticket, room } => {
                let outcome = self.pulls.landed(context!(self, now), ticket, room);
                self.pull_ended(now, outcome);
            }
            Event::CopySealed { id, birth } => self.copy_sealed(now, id, birth),
            Event::Arrived { transfer, segment, intact } => {
                let arrived = self.pulls.arrived(context!(self, now), transfer, segment, intact);
                if let Some((id, outcome)) = arrived {
                    self.progressed(now, id);
                    self.pull_ended(now, outcome);
                }
            }
            Event::Fetched { peer, transfer, bytes } => {
                self.serves.fetched(context!(self, now), (peer, transfer), bytes);
            }
            Event::Interrupted(transfer) => {
                let outcome = self.pulls.interrupted(context!(self, now), transfer);
                self.pull_ended(now, outcome);
            }
            Event::Where { number, id } => self.places.ask(context!(self, now), number, id),
            Event::List { .. } | Event::ListedHere { .. } => self.listing_event(now, event),
            Event::Verify { number, within_ms } => {
                self.verifications.ask(context!(self, now), number, within_ms);
            }
            Event::Checksum { .. } | Event::CopiesRead { .. } => self.checksum_event(now, event),
            Event::Subscribe { .. } | Event::Unsubscribe { .. } | Event::Described { .. } => {
                self.notice_event(now, event);
            }
            Event::Prefetch(ids) => self.prefetch(now, &ids),
            Event::Demote(ids) => self.demote(now, &ids),
            Event::Read { number, landing, request } => {
                self.parts.begin(context!(self, now), &self.copies, (number, landing), request);
            }
            Event::Gather { .. } | Event::Assembled { .. } => self.gather_event(now, event),
            Event::EndRead(number) => self.end_read(now, number),
            Event::Region { .. }
            | Event::RegionOwnerGone(_)
            | Event::Allocated { .. }
            | Event::RegionSealed { .. } => self.region_event(now, event),
            Event::Repair { node, copies } => self.ask_to_repair(now, node, copies),
            Event::Moving(by) => self.moving(now, by),
            Event::Time => {}
        }
        self.time(now);
        self.flush(now, effects);
    }

    /// When to send [`Event::Time`] at the latest.
    pub fn next_deadline(&self) -> Option<Mono> {
        let directory = self.directory.next_deadline().into_iter();
        directory
            .chain(self.requests.next_deadline())
            .chain(self.lookups.next_deadline())
            .chain(self.creations.next_deadline())
            .chain(self.pulls.next_deadline())
            .chain(self.vouching.next_deadline())
            .chain(self.places.next_deadline())
            .chain(self.listings.next_deadline())
            .chain(self.verifications.next_deadline())
            .chain(self.checksums.next_deadline())
            .chain(self.notices.next_deadline())
            .chain(self.parts.next_deadline())
            .chain(self.region_asks.next_deadline())
            .chain(self.gathers.next_deadline())
            .chain(self.held_due)
            .min()
    }

    fn time(&mut self, now: Mono) {
        self.directory.time_passed(context!(self, now));
        let Overdue { deletes, commits } = self.requests.time_passed(context!(self, now));
        for (id, number) in deletes {
            self.lookups.deletes_ended(id, number);
        }
        for (id, birth) in commits {
            self.give_up(now, id, birth);
        }
        self.go_on_creating(now);
        self.lookups.time_passed(context!(self, now));
        for outcome in self.pulls.time_passed(context!(self, now)) {
            self.pull_ended(now, Some(outcome));
        }
        self.places.time_passed(context!(self, now));
        self.listings.time_passed(context!(self, now));
        self.verifications.time_passed(context!(self, now));
        self.checksums.time_passed(context!(self, now));
        self.report_drains();
        self.notices.time_passed(context!(self, now));
        self.parts.time_passed(context!(self, now), &self.copies);
        self.region_asks.time_passed(context!(self, now));
        self.gathers.time_passed(context!(self, now), &self.copies);
        let lookups = &self.lookups;
        let is_wanted =
            |wish: &Wish| wish.hold || wish.parts.is_some() || lookups.class_of(&wish.id).is_some();
        self.pulls.cancel_unwanted(context!(self, now), is_wanted);
        self.vouch(now);
        self.say_held(now);
    }

    /// Says now and then which hidden copies are held: the primary has them published or dropped.
    /// And which copies came from the home of their id, until the primary knows of them: a delete
    /// would not reach them; and which are damaged, as long as no other node is known to have what
    /// is right.
    fn say_held(&mut self, now: Mono) {
        let (requests, copies) = (&self.requests, &self.copies);
        let undecided =
            |(id, _): &(ObjectId, Birth)| !requests.has_commit(id) && !copies.is_sealing(id);
        let hidden = self.copies.hidden().filter(undecided).map(|it| (it, HoldOutcome::Hidden));
        let unnoted = self.copies.unnoted().map(|it| (it, HoldOutcome::Cached));
        let damaged = self.copies.damaged().map(|it| (it, HoldOutcome::Damaged));
        let rest = unnoted.take(MESSAGES_MAX).chain(damaged.take(MESSAGES_MAX));
        let said: Vec<_> = hidden.chain(rest).collect();
        if said.is_empty() {
            self.held_due = None;
            return;
        }
        if *self.held_due.get_or_insert(now.after_ms(HELD_AGAIN_MS)) <= now {
            self.held_due = Some(now.after_ms(HELD_AGAIN_MS));
            for ((id, birth), outcome) in said {
                self.send_held(now, id, birth, outcome);
            }
        }
    }

    /// Handles the messages of the node to itself, and sends the others.
    fn flush(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let sender = (self.view.me(), self.view.config.incarnation, self.view.epoch());
        while let Some(message) = self.out.to_self.pop_front() {
            self.message(now, sender, message);
        }
        self.begin_gather_pulls(now);
        effects.append(&mut self.out.effects);
        let (from, incarnation, epoch) = sender;
        for (to, messages) in std::mem::take(&mut self.out.remote) {
            let mut left = messages;
            while !left.is_empty() {
                let rest = left.split_off(left.len().min(MESSAGES_MAX));
                let messages = std::mem::replace(&mut left, rest);
                let envelope = Envelope { epoch, from, incarnation, messages };
                effects.push(Effect::Send { to, envelope });
            }
        }
    }

    fn link(&mut self, now: Mono, peer: Slot, up: bool) {
        self.region_asks.link(context!(self, now), peer, up);
        if up {
            self.pulls.link_up(peer);
            self.gathers.link_up(peer);
            self.notices.link_up(context!(self, now));
            self.directory.link_up(now, peer);
            self.requests.ask_all(context!(self, now));
            self.lookups.ask_all(context!(self, now));
            self.parts.ask_all(context!(self, now), &self.copies);
            self.gathers.ask_all(context!(self, now), &self.copies);
        } else {
            self.directory.link_down(peer);
            self.notices.link_down(context!(self, now), peer);
            self.serves.link_down(context!(self, now), peer);
            self.gather_serves.link_down(context!(self, now), peer);
            self.gathers.link_down(context!(self, now), peer);
            for outcome in self.pulls.link_down(context!(self, now), peer) {
                self.pull_ended(now, Some(outcome));
            }
        }
    }

    fn map(&mut self, now: Mono, map: Arc<Map>) {
        let missed = map.epoch().0 > self.view.epoch().0 + 1;
        if self.view.set_map(now, map) {
            self.directory.map_changed(context!(self, now), missed);
            self.listings.map_changed(context!(self, now));
            self.checksums.map_changed(context!(self, now));
            self.notices.map_changed(context!(self, now));
            self.regions.map_changed(context!(self, now));
            self.region_asks.map_changed(context!(self, now));
            self.requests.ask_all(context!(self, now));
            self.lookups.ask_all(context!(self, now));
            self.parts.ask_all(context!(self, now), &self.copies);
            self.gathers.ask_all(context!(self, now), &self.copies);
        }
    }

    fn call(&mut self, now: Mono, call: Call) {
        match call {
            Call::Seek { id, number, class } => {
                self.lookups.seek(context!(self, now), id, number, class);
            }
            Call::Unseek(id) => self.lookups.unseek(context!(self, now), id),
            Call::Commit { id, serial, content, copies, copies_min } => {
                let birth = self.view.config.birth(serial);
                self.commit(now, id, Commit::new(birth, content, copies, copies_min));
            }
            Call::CommitKept { id, serial, content, copies, copies_min } => {
                let birth = self.view.config.birth(serial);
                self.commit(now, id, Commit::new(birth, content, copies, copies_min));
                self.copies.keep(&id, birth);
            }
            Call::Looked { id, number } => self.looked(now, id, number),
            Call::Delete { id, number } => match self.copies.get(&id).filter(|copy| copy.visible) {
                Some(copy) => {
                    let birth = copy.birth;
                    self.requests.delete(context!(self, now), id, birth, number);
                }
                None => self.lookups.delete(context!(self, now), id, number),
            },
            Call::Ended { id, birth } => {
                self.copies.remove(&id, birth);
                if self.requests.end_commit(id, birth) {
                    self.notices.committed(context!(self, now), id, birth, false);
                }
                self.vouching.verified(&id);
                self.send_gone(now, id, birth);
            }
            Call::Kept { id, birth } if self.copies.keep(&id, birth) => {
                self.send_held(now, id, birth, HoldOutcome::Held);
            }
            Call::Logged { id, birth } if self.copies.logged(&id, birth) => {
                self.send_held(now, id, birth, HoldOutcome::Held);
            }
            Call::NotLogged { id, birth, is_full } => self.not_logged(now, (id, birth), is_full),
            Call::Damaged { id, birth } => self.damaged(now, id, birth),
            Call::TombstoneAdded { id, birth } => {
                self.view.add_tombstone(id, birth);
                self.directory.tombstone_added(context!(self, now), id, birth);
            }
            Call::TombstoneRemoved { id, birth } => self.view.remove_tombstone(&id, birth),
            // Of an object with a home that the directory may not know the store tells the commit.
            Call::Has { id, birth, content, visible, kept, logged } => {
                self.copies.insert(id, Copy { birth, content, visible, kept, logged });
            }
            Call::Verify { id, number } => self.verify(now, id, number),
            // The daemon that drives this node gives it maps only after the end of the inventory.
            // That its log has failed the others see in the map.
            Call::LogFailed | Call::Kept { .. } | Call::Logged { .. } | Call::InventoryEnd => {}
        }
    }

    fn commit(&mut self, now: Mono, id: ObjectId, commit: Commit) {
        let Commit { birth, content, copies, copies_min, .. } = commit;
        if !is_copies(copies, copies_min) || !content.is_movable() {
            let (serial, result) = (birth.serial, Err(Refusal::StoreFull));
            return self.out.tell(Told::Committed { id, serial, result });
        }
        // One store has one object of an id.
        if let Some(Wish { birth, hold, .. }) = self.pulls.get(&id).cloned() {
            self.pulls.cancel(context!(self, now), id);
            self.lookups.go_on(context!(self, now), id);
            if hold {
                self.send_held(now, id, birth, HoldOutcome::NoRoom);
            }
        }
        if id.home().is_none() {
            self.notices.committing(id);
        }
        self.copies.committing(id, birth, content);
        self.requests.commit(context!(self, now), id, commit);
    }

    /// A pull ended, or needs other sources.
    fn pull_ended(&mut self, now: Mono, outcome: Option<Outcome>) {
        let outcome = outcome.and_then(|outcome| self.parts_ended(now, outcome));
        let Some(Outcome { wish, ended }) = outcome else { return };
        let Wish { id, birth, content, visible, hold, .. } = wish;
        match ended {
            Ended::Sealed => {
                let (kept, logged) = (hold, false);
                self.copies.seal(id, Copy { birth, content, visible, kept, logged });
                self.lookups.arrived(id);
                if !hold && id.home().is_some() {
                    // The directory does not know of what was opened at its home.
                    self.copies.note(id);
                    self.send_held(now, id, birth, HoldOutcome::Cached);
                }
            }
            Ended::NoRoom => {
                self.lookups.fail(context!(self, now), id, Fate::NoRoom);
                if hold {
                    self.send_held(now, id, birth, HoldOutcome::NoRoom);
                }
            }
            Ended::NoSource => self.lookups.ask_later(now, id),
        }
    }

    /// The store has sealed a copy. Before that it could have ended without it, so a primary that
    /// asked for the copy is told now, or when a durable one is in the log.
    fn copy_sealed(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        let Some(copy) = self.copies.sealed(&id, birth).filter(|copy| copy.kept) else { return };
        match self.view.logs(birth, &copy.content) {
            true => self.out.tell(Told::Log { id, birth }),
            false => self.send_held(now, id, birth, HoldOutcome::Held),
        }
    }

    fn send_held(&mut self, now: Mono, id: ObjectId, birth: Birth, outcome: HoldOutcome) {
        let outcome = self.as_logged(&id, birth, outcome);
        context!(self, now).send_to_primary(&id, Message::Held { id, birth, outcome });
    }

    /// There is no copy here. An answer that the primary gave before it hears that may lead to a
    /// copy which it does not know of, so what is wanted of the id is asked once more.
    fn send_gone(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        let cx = context!(self, now);
        cx.send_to_primary(&id, Message::Gone { id, birth });
        self.lookups.ask_anew(cx, id);
    }

    /// A commit ends without an answer: the object may exist.
    fn give_up(&mut self, now: Mono, id: ObjectId, birth: Birth) {
        self.commit_ended(now, (id, birth), Err(Refusal::Unreachable));
    }

    fn commit_ended(&mut self, now: Mono, (id, birth): (ObjectId, Birth), result: CommitResult) {
        let serial = birth.serial;
        self.out.tell(Told::Committed { id, serial, result });
        self.notices.committed(context!(self, now), id, birth, result.is_ok());
        match result {
            Ok(()) => {
                self.copies.publish(&mut self.out, id, birth);
                self.copies.committed(&id, birth);
                self.let_unlogged_go(id, birth);
            }
            Err(refusal) => {
                if refusal != Refusal::Unreachable {
                    self.refusals.note(id, birth);
                }
                self.copies.remove(&id, birth);
                self.end_openers(now, id, birth, false);
            }
        }
    }

    /// Nodes that got a copy from here, which the directory may not know of, are to drop it.
    fn end_openers(&mut self, now: Mono, id: ObjectId, birth: Birth, existed: bool) {
        for slot in self.copies.take_openers(&id) {
            context!(self, now).send(slot, Message::Drop { id, birth, existed });
        }
    }

    /// A primary asks for the copies in its groups. What an earlier primary found is not believed
    /// any more, since the map of the question is known here.
    fn survey(&mut self, now: Mono, from: Slot, groups: &[(GroupNo, Epoch)]) {
        let entries = survey::entries(&self.view, &self.copies, &self.pulls, &self.requests)
            .chain(survey::tombstones(&self.view));
        survey::answer(context!(self, now), from, groups, entries);
    }

    /// What this node would tell a primary of its copies.
    #[cfg(test)]
    pub(crate) fn inventory(&self) -> impl Iterator<Item = crate::message::CopyEntry> + '_ {
        survey::entries(&self.view, &self.copies, &self.pulls, &self.requests)
    }

    /// Whether nothing is under way for the clients of this node or of others.
    pub fn is_idle(&self) -> bool {
        let copies = self.lookups.is_idle() && self.pulls.is_idle() && self.serves.is_idle();
        let parts = self.parts.is_idle() && self.gathers.is_idle() && self.gather_serves.is_idle();
        copies && parts && self.creations.is_empty() && self.region_asks.is_idle()
    }
}
