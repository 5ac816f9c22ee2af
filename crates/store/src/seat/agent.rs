//! How a client takes the seat and leaves it.

use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{ObjectMeta, PoolAttributes};
use plasmon_proto::pool::{Birth, Call, Content, Fate, Origin, Refusal, Told, WantedCopies};
use plasmon_proto::{Attributes, Code, ObjectId, Policy};

use super::copies::birth_here;
use super::{Inventory, Reason, no_pool, not_the_agent};
use crate::effect::Effect;
use crate::event::ClientNo;
use crate::extras::Extras;
use crate::ports::Directory;
use crate::records::HIDDEN;
use crate::spill::Backing;
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

impl<D: Directory> Store<D> {
    /// A client asks for the seat; its token was checked by the daemon.
    pub(crate) fn take_seat(&mut self, client: ClientNo, request: u64, here: Origin) {
        if !self.config.pool {
            return self.fail(client, request, no_pool());
        }
        if self.seat.agent.is_some_and(|agent| agent != client) {
            let detail = "another process is this store's pool daemon";
            return self.fail(client, request, Failure::of(Code::InUse).with_detail(detail));
        }
        self.seat.agent = Some(client);
        self.seat.here = Some(here);
        self.seat.deadline_ms = None;
        self.seat.inventory = Some(Inventory::default());
        self.seat.uncommitted.forget_told();
        self.seat.is_behind = false;
        self.work.seat = true;
        self.reply(client, request, Reply::Done);
        self.seat.sweep.told = None;
        self.call_adoptions();
    }

    /// The client that has the seat.
    pub(crate) fn seat_agent(&self) -> Option<ClientNo> {
        self.seat.agent
    }

    /// Whether any client has the seat.
    pub fn has_agent(&self) -> bool {
        self.seat.agent.is_some()
    }

    /// Whether this client has the seat.
    pub fn is_agent(&self, client: ClientNo) -> bool {
        self.seat.is_agent(client)
    }

    /// Whether much of what the agent is told waits for it to be read. As long as that is so it is
    /// not told more of what is here.
    pub fn set_agent_behind(&mut self, is_behind: bool) {
        self.seat.is_behind = is_behind;
        self.work.seat = self.seat.inventory.is_some() && !is_behind;
    }

    /// The client with the seat is gone, or its connection broke.
    pub(crate) fn leave_seat(&mut self, client: ClientNo) {
        if !self.seat.is_agent(client) {
            return;
        }
        self.seat.agent = None;
        self.seat.inventory = None;
        self.seat.uncommitted.forget_told();
        if self.seat.has_pending() {
            self.seat.await_agent(self.now_ms);
        }
    }

    /// Tells the agent something, if there is one that has been told what is here.
    pub(crate) fn call(&mut self, call: Call) {
        if let Some(agent) = self.seat.hears() {
            self.out.push(Effect::Call(agent, call));
        }
    }

    /// Tells the agent a piece of what is here, and after the last what waits.
    pub(crate) fn go_on_with_inventory(&mut self) {
        self.work.seat = false;
        let (Some(agent), Some(mut at)) = (self.seat.agent, self.seat.inventory) else { return };
        if self.seat.is_behind {
            return;
        }
        let mut calls = Vec::new();
        let is_over = match at.spilled {
            None => {
                if self.has_in_memory(&mut at, &mut calls) {
                    at.spilled = Some(0);
                }
                false
            }
            Some(serial) => self.has_in_tier(serial, &mut at, &mut calls),
        };
        self.out.extend(calls.into_iter().map(|call| Effect::Call(agent, call)));
        self.seat.inventory = (!is_over).then_some(at);
        self.work.seat = !is_over;
        if is_over {
            self.call_tombstones();
            if self.objects.durable.has_failed() {
                self.call(Call::LogFailed);
            }
            self.call_pending();
            self.call(Call::InventoryEnd);
        }
    }

    /// Copies in memory, from a record on. Whether that was the last.
    fn has_in_memory(&mut self, at: &mut Inventory, calls: &mut Vec<Call>) -> bool {
        let end = self.objects.records.capacity();
        for _ in 0..EXAMINED_MAX {
            if at.record as usize >= end || calls.len() >= PIECE {
                break;
            }
            let record = at.record;
            at.record += 1;
            let Some(found) = self.objects.records.used(record) else {
                let next = self.objects.records.next_used(record);
                at.record = next.unwrap_or(end as u32);
                continue;
            };
            let is_hidden = found.is(HIDDEN);
            let entry = self.objects.entry(record);
            if !entry.id.is_pooled() {
                continue;
            }
            let withheld = self.seat.withheld(&entry.id).filter(|it| it.record == record);
            let pool = self.pool_attributes(record);
            let Some(birth) = self.birth(&entry.id, pool) else { continue };
            let visible = match withheld.map(|withheld| withheld.reason) {
                // Deleted, and still read.
                None if is_hidden => continue,
                None | Some(Reason::Unvouched) => true,
                Some(Reason::Committing { .. } | Reason::Unpublished) => false,
            };
            let extras = self.objects.extras_of(record);
            calls.push(if visible && self.seat.uncommitted.tell(&entry.id) {
                commit_of(entry.id, birth, &entry.meta, extras)
            } else {
                let content = content_of(&entry.meta, extras, birth);
                let kept = is_kept(&entry.meta, extras);
                let logged = self.objects.durable.has(entry.serial);
                Call::Has { id: entry.id, birth, content, visible, kept, logged }
            });
        }
        at.record as usize >= end
    }

    /// Copies in the tier, from a serial on. Whether that was the last.
    fn has_in_tier(&mut self, serial: u64, at: &mut Inventory, calls: &mut Vec<Call>) -> bool {
        for (scanned, (id, spilled)) in self.objects.tier.from(serial).enumerate() {
            if scanned >= EXAMINED_MAX || calls.len() >= PIECE {
                at.spilled = Some(spilled.serial);
                return false;
            }
            let pool = spilled.extras.attributes.pool;
            let Some(birth) = birth_here(self.seat.here, id, pool).filter(|_| id.is_pooled())
            else {
                continue;
            };
            let extras = Some(&spilled.extras);
            calls.push(if self.seat.uncommitted.tell(id) {
                commit_of(*id, birth, &spilled.meta, extras)
            } else {
                let content = content_of(&spilled.meta, extras, birth);
                let kept = is_kept(&spilled.meta, extras);
                let logged = matches!(spilled.backing, Backing::Log(_));
                let visible = !spilled.unpublished;
                Call::Has { id: *id, birth, content, visible, kept, logged }
            });
            if spilled.corrupt {
                calls.push(Call::Damaged { id: *id, birth });
            }
        }
        true
    }

    /// What waits for an agent, to one that has just been told what is here.
    fn call_pending(&mut self) {
        let committing = self.seat.withheld.iter();
        let committing =
            committing.filter(|(_, it)| matches!(it.reason, Reason::Committing { .. }));
        let ids: Vec<_> = committing.map(|(id, _)| *id).collect();
        for id in ids {
            self.call_commit(&id);
        }
        self.tell_commits();
        let ids: Vec<_> = self.seat.seeks.keys().copied().collect();
        for id in ids {
            self.call_seek(&id);
        }
        let ids: Vec<_> = self.seat.deletes.keys().copied().collect();
        for id in ids {
            self.call_delete(&id);
        }
        self.call_verifications();
        self.sessions.adoptions.pool.is_dirty = true;
    }

    /// What the agent answers.
    pub(crate) fn tell(&mut self, client: ClientNo, told: Vec<Told>) -> Result<Reply, Failure> {
        if !self.seat.is_agent(client) {
            return Err(not_the_agent());
        }
        for one in told {
            match one {
                Told::Sought { id, number, fate } => self.sought(&id, number, fate),
                Told::Committed { id, serial, result } => self.committed(&id, serial, result),
                Told::Deleted { id, number } => self.delete_answered(&id, number, None),
                Told::DeleteUnreachable { id, number } => {
                    self.delete_answered(&id, number, Some(Code::Unreachable));
                }
                Told::Drop { id, birth } => self.drop_copy(&id, birth),
                Told::Publish { id, birth } => self.publish_copy(&id, birth),
                Told::Keep { id, birth } => self.keep_copy(&id, birth),
                Told::Vouch { ms } => self.vouch(ms),
                Told::Release { id, birth } => self.release_copy(&id, birth),
                Told::Look { id, number } => self.looked(&id, number),
                Told::Verified { id, number, known } => self.verified(&id, number, known),
                Told::Exists { id, number } => self.exists(&id, number),
                Told::Found { id, number } => self.found(&id, number),
                Told::Log { id, birth } => self.log_copy(&id, birth),
                Told::AddTombstone { id, birth } => self.add_tombstone(&id, birth),
                Told::RemoveTombstone { id, birth } => self.remove_tombstone(&id, birth),
                Told::Discard { id, birth } => self.discard_copy(&id, birth),
                Told::Relog { id, birth } => self.relog_copy(&id, birth),
            }
        }
        self.tell_commits();
        self.collect_fresh();
        Ok(Reply::Done)
    }

    /// No agent came in time: what waits for one ends.
    pub(crate) fn end_pending(&mut self) {
        if self.seat.deadline_ms.is_none_or(|at_ms| at_ms > self.now_ms) {
            return;
        }
        self.seat.deadline_ms = None;
        let ids: Vec<_> = self.seat.seeks.keys().copied().collect();
        for id in ids {
            self.sought(&id, u64::MAX, Fate::Unreachable);
        }
        let ids: Vec<_> = self.seat.deletes.keys().copied().collect();
        for id in ids {
            self.delete_answered(&id, u64::MAX, Some(Code::Unreachable));
        }
        let committing = self.seat.withheld.iter();
        let committing =
            committing.filter(|(_, it)| matches!(it.reason, Reason::Committing { .. }));
        let ids: Vec<_> = committing.map(|(id, _)| *id).collect();
        for id in ids {
            self.end_commit(&id, Refusal::Unreachable);
        }
        self.end_unanswered_settles();
        self.end_verifications();
        self.end_adoption_requests();
        self.collect_fresh();
    }
}

/// Whether an object is never evicted.
fn is_kept(meta: &ObjectMeta, extras: Option<&Extras>) -> bool {
    extras.map_or(meta.traits.policy, |extras| extras.policy(meta.traits.policy)) == Policy::Keep
}

/// What has the pool commit an object of this node.
pub(super) fn commit_of(
    id: ObjectId,
    birth: Birth,
    meta: &ObjectMeta,
    extras: Option<&Extras>,
) -> Call {
    let pool = extras.and_then(|extras| extras.attributes.pool);
    let (copies, copies_min) = pool.map_or((1, 1), |pool| (pool.copies, pool.copies_min));
    let (content, serial) = (content_of(meta, extras, birth), birth.serial);
    if id.home().is_some() && is_kept(meta, extras) {
        Call::CommitKept { id, serial, content, copies, copies_min }
    } else {
        Call::Commit { id, serial, content, copies, copies_min }
    }
}

/// What the pool needs to know of an object's bytes.
pub(super) fn content_of(meta: &ObjectMeta, extras: Option<&Extras>, birth: Birth) -> Content {
    let of_copy = |extras: &Extras| extras.attributes.of_copy(birth);
    let attributes = extras.map_or_else(|| Attributes::default().of_copy(birth), of_copy);
    // Both have limits that are far below.
    let short = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    Content {
        data_bytes: meta.sizes.data,
        metadata_bytes: short(meta.sizes.metadata),
        attributes_bytes: short(attributes.encode().len() as u64),
        tag: meta.traits.tag,
        table_crc: 0,
        keeping: extras
            .and_then(|extras| extras.attributes.pool)
            .map(|pool| pool.keeping())
            .unwrap_or_default(),
        durable: extras
            .and_then(|extras| extras.attributes.pool)
            .filter(|pool| pool.is_durable())
            .map(|PoolAttributes { copies, copies_min, .. }| WantedCopies { copies, copies_min }),
    }
}
