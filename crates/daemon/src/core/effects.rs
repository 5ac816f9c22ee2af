//! Carrying out what the store asks for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{Grant, Reply, SpillFile};
use plasmon_proto::object::{Level, Sizes};
use plasmon_proto::ring::{Completion, Submission};
use plasmon_shm::Memfd;
use plasmon_shm::edge::{self, Mutation};
use plasmon_spill::{FileMeta, Incarnation};
use plasmon_store::effect::SpillOrder;
use plasmon_store::event::{OpenedFile, ReadBack, RecordCheck};
use plasmon_store::{ClientNo, Effect, Event, Ticket};

use super::Core;
use super::handshake::io_failure;
use super::supervision::AfterKeeper;
use crate::outbox::PassedDescriptor;
use crate::sessions::writer_mark;
use crate::workers::{Done, FileJob, MemoryJob, NewMemory, SealJob, Target};
use plasmon_keeper::Label;

/// Extents that one question for the status looks at; a third of a microsecond each.
const MEASURED_MAX: usize = 1024;

impl Core {
    pub(super) fn apply_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Reply(client, number, reply) => {
                let reply = self.completed(reply);
                self.reply(client, number, &reply, Vec::new());
            }
            Effect::Lease(client, number, granted) => {
                self.grant(client, number, &Reply::Lease(granted), &granted);
            }
            Effect::Created(client, number, granted) => {
                self.grant(client, number, &Reply::Created(granted), &granted);
            }
            Effect::Resumed(client, lost) => drop(self.lost.insert(client, lost)),
            Effect::Complete(client, completion) => self.complete(client, completion),
            Effect::Call(client, call) => self.call_agent(client, call),
            Effect::CallAdoption(client, call) => self.call_adoption(client, call),
            Effect::Notify(client, notice) => {
                if let Some(peer) = self.peers.get_mut(client) {
                    peer.outbox.notify(notice);
                    self.unsent.insert(client);
                }
            }
            Effect::Reserve { ticket, new_extent_bytes, range, strict } => {
                let wanted = new_extent_bytes.map(|bytes| (bytes, strict));
                self.reserve(ticket, wanted, range);
            }
            Effect::Extend { ticket, new_extent, range } => {
                self.extend(ticket, new_extent, range);
            }
            Effect::Settle { ticket, extent, bytes, strict } => {
                self.settle(ticket, extent, bytes, strict);
            }
            Effect::Lent(range) => self.shared().control.set_lent(&range),
            Effect::Writer(extent, client) => self.set_writer(extent, client),
            Effect::Punch(range) => self.punch(range),
            Effect::Trim { extent, bytes } => self.trim(extent, bytes),
            Effect::Drop(extent) => self.drop_extent(extent),
            Effect::Protect(extent) => self.protect(extent),
            Effect::Harden(ticket, extent) => self.harden(ticket, extent),
            Effect::Spill(ticket, order) => self.spill(ticket, order),
            Effect::Restore(ticket, id, serial, range) => {
                self.restore(ticket, Incarnation { id, serial }, range);
            }
            Effect::Open(ticket, id, serial) => self.open(ticket, Incarnation { id, serial }),
            Effect::CheckFile(ticket, id, serial, sizes) => {
                self.check_file(ticket, Incarnation { id, serial }, sizes);
            }
            Effect::Opened(client, number, ticket, file) => {
                self.pass_file((client, number), ticket, file);
            }
            Effect::Unspill(id, serial) => self.unspill(Incarnation { id, serial }),
            effect @ (Effect::Log(..)
            | Effect::Note(..)
            | Effect::Relog(..)
            | Effect::CheckLog(..)
            | Effect::Unlog(..)
            | Effect::ReadLog(..)) => {
                self.apply_log_effect(effect);
            }
            // The store has counted it.
            Effect::Expel(client, why) => {
                self.expel(client, 0, why);
                self.departures.expelled_total -= 1;
            }
        }
    }

    /// Gives a client the file of a spilled object.
    fn pass_file(&mut self, to: (ClientNo, u64), ticket: Ticket, file: SpillFile) {
        let (client, number) = to;
        match self.tier.opened.remove(&ticket) {
            Some(fd) => {
                let passed = vec![PassedDescriptor::Made(fd)];
                self.reply(client, number, &Reply::SpillFile(file), passed);
            }
            None => {
                tracing::error!(?ticket, "an opened spill file is not in the table of open files");
            }
        }
    }

    /// Tells a client something through its ring. A lease that the client cannot be told about goes
    /// back at once: nothing else would return it.
    fn complete(&mut self, client: ClientNo, completion: Completion) {
        if self.shared().sessions.complete(client, &completion) {
            return;
        }
        tracing::debug!(?client, "a client does not read its completions");
        if let Completion::Lease { position, range } = completion {
            let back = Submission::LeaseReturn(range);
            self.apply_event(Event::Submit(client, position, back, None));
        }
    }

    /// Adds what only the daemon knows.
    fn completed(&mut self, reply: Reply) -> Reply {
        let Reply::Status(mut status) = reply else { return reply };
        let shared = self.store.directory();
        env!("CARGO_PKG_VERSION").clone_into(&mut status.version);
        status.pid = edge::process_id();
        status.keeper_pid = shared.keeper.pid();
        status.epoch = shared.control.epoch();
        status.uptime_ms = self.clock.uptime_ms();
        status.capacity_bytes = self.config.capacity_bytes;
        status.clients = self.peers.ready().count() as u64;
        status.spill_fault.clone_from(&self.tier.fault);
        status.memory_limit_bytes = self.memory_limit_bytes;
        status.longest_turn_us = u64::try_from(self.longest_turn.as_micros()).unwrap_or(u64::MAX);
        status.expelled_total += self.departures.expelled_total;
        status.resident_bytes = self.resident_bytes();
        status.linger_ms = self.config.end_with_last_client.then_some(self.config.linger_ms);
        status.starter_pid = self.lifetime.starter.pid();
        if let Some(log) = &mut status.log {
            *log = self.log.completed(log);
        }
        if let Some(pool) = &self.config.pool {
            status.cluster = pool.cluster.to_string();
            status.node_name.clone_from(&pool.node_name);
        }
        Reply::Status(status)
    }

    /// Bytes that the machine has given for objects.
    fn resident_bytes(&mut self) -> u64 {
        let leaving = self.dropped_extents.iter().take(MEASURED_MAX);
        let leaving = leaving.filter_map(|leaving| leaving.remains.resident_bytes().ok());
        leaving.sum::<u64>() + self.extents.measure(MEASURED_MAX)
    }

    /// Answers with memory and the descriptor to write to it.
    fn grant(&mut self, client: ClientNo, number: u64, reply: &Reply, granted: &Grant) {
        if let Some(memfd) = self.extents.growing(granted.range.extent) {
            return match memfd.writable() {
                Ok(fd) => self.reply(client, number, reply, vec![PassedDescriptor::Made(fd)]),
                Err(error) => self.fail(client, number, io_failure(error)),
            };
        }
        let is_shared = self.config.level == Level::Shared;
        match self.extents.get(granted.range.extent) {
            Some(memfd) => {
                // Without a free descriptor it gets ours, because the memory is its own already.
                // Where memory stays as long as a client has it open, ours would hide that it has.
                let passed = match memfd.writable() {
                    Ok(fd) => PassedDescriptor::Made(fd),
                    Err(_) if is_shared => PassedDescriptor::Extent(Arc::clone(memfd)),
                    Err(error) => return self.fail(client, number, io_failure(error)),
                };
                self.note_recipient(client, granted.range.extent);
                self.reply(client, number, reply, vec![passed]);
            }
            None => tracing::error!(?granted, "memory was granted in an unknown extent"),
        }
    }

    /// Has memory made: in a new extent of this size, which is strict or not, or in one that is
    /// there.
    fn reserve(&mut self, ticket: Ticket, new_extent: Option<(u64, bool)>, range: Range) {
        if new_extent.is_none() && self.extents.await_making(ticket, range) {
            return;
        }
        let job = match (new_extent, self.extents.get(range.extent)) {
            (Some((extent_bytes, strict)), _) => {
                self.shared().control.note_birth(range.extent);
                self.extents.begin_making(range.extent);
                let sealable = strict || self.config.level != Level::Shared;
                Some(MemoryJob::Make { ticket, extent_bytes, range, sealable })
            }
            (None, Some(memfd)) => {
                Some(MemoryJob::Reserve { ticket, memfd: Arc::clone(memfd), range })
            }
            (None, None) => None,
        };
        let accepted = job.is_some_and(|job| self.give_memory_job(job));
        if !accepted {
            self.reserved(ticket, range.extent, false);
        }
    }

    pub(super) fn reserved(&mut self, ticket: Ticket, extent: ExtentId, is_there: bool) {
        let waiting = self.extents.end_making(extent);
        self.apply_event(Event::Reserved(ticket, is_there));
        for (ticket, range) in waiting {
            self.reserve(ticket, None, range);
        }
    }

    pub(super) fn give_memory_job(&mut self, job: MemoryJob) -> bool {
        if let Some((ticket, bytes)) = job.fresh_memory() {
            self.reserving.insert(ticket, bytes);
            self.note_reserving();
        }
        let given = self.workers.memory(job);
        if let Err(error) = &given {
            tracing::error!(%error, "the memory worker does not accept a job");
        }
        given.is_ok()
    }

    /// Writes down what the kernel is being asked for: should it kill the daemon over that, the
    /// next one does not ask again at once.
    fn note_reserving(&mut self) {
        let bytes = self.reserving.values().sum();
        self.shared().control.set_reserving(bytes);
    }

    fn set_writer(&mut self, extent: ExtentId, client: Option<ClientNo>) {
        if self.extents.growing(extent).is_some() {
            // Only a restarted daemon asks for it, and it finds no extent that grows.
            return;
        }
        let shared = self.shared();
        let session = client.and_then(|client| shared.sessions.of_client(client));
        let token = session.and_then(|no| shared.sessions.get(no)).map_or(0, |found| found.token);
        shared.control.set_writer(extent, writer_mark(token));
    }

    fn punch(&mut self, range: Range) {
        if let Some(memfd) = self.extents.get(range.extent) {
            let memfd = Arc::clone(memfd);
            self.give_memory_job(MemoryJob::Punch { memfd, range });
        }
    }

    fn protect(&mut self, extent: ExtentId) {
        let Some(memfd) = self.extents.get(extent) else { return };
        // An extent that a client writes was protected by it, before its first object was
        // published. This one only the daemon writes, so there is no other write to wait for.
        if !memfd.is_future_write_sealed().unwrap_or(false)
            && let Err(error) = memfd.seal_future_write()
        {
            tracing::error!(?extent, %error, "an extent cannot be protected against new writers");
        }
    }

    /// At level leased: whether the kernel refuses new writers, before the first object in an
    /// extent is published. A client that has not seen to that is expelled. The daemon does not do
    /// it for the client: setting the seal waits for every write that is under way, and a client
    /// could keep writes under way.
    pub(super) fn is_protected(&mut self, client: ClientNo, range: &Range) -> bool {
        if !self.store.awaits_protection(client, range) {
            return true;
        }
        let memfd = self.extents.get(range.extent);
        let is_sealed = memfd.is_none_or(|memfd| memfd.is_future_write_sealed().unwrap_or(false));
        if !is_sealed {
            self.expel(client, 0, "its memory is not protected against new writers");
        }
        is_sealed
    }

    /// Makes the kernel refuse every write. It does so only once no process has the memory mapped.
    fn harden(&mut self, ticket: Ticket, extent: ExtentId) {
        let memfd = self.extents.get(extent).map(Arc::clone);
        let given = memfd.is_some_and(|memfd| {
            let job = SealJob { ticket, extent, memfd };
            let given = self.workers.seal(job);
            if let Err(error) = &given {
                tracing::error!(%error, "the seal worker does not accept a job");
            }
            given.is_ok()
        });
        if !given {
            self.apply_event(Event::Hardened(ticket, false));
        }
    }

    fn spill(&mut self, ticket: Ticket, order: SpillOrder) {
        let Some(memfd) = self.extents.get(order.range.extent) else {
            return self.apply_event(Event::Spilled(ticket, false));
        };
        let job = FileJob::Spill {
            ticket,
            memfd: Arc::clone(memfd),
            offset: order.range.offset,
            object: Box::new(FileMeta::new(order.id, order.serial, order.meta, order.attributes)),
        };
        if let Err(error) = self.workers.files(job) {
            tracing::warn!(%error, "nothing can be spilled");
            self.apply_event(Event::Spilled(ticket, false));
        }
    }

    fn unspill(&mut self, which: Incarnation) {
        self.tier.removals.begin();
        if let Err(error) = self.workers.files(FileJob::Remove(which)) {
            tracing::warn!(id = %which.id, %error, "cannot remove the file of a spilled object");
            self.tier.removals.end(false);
        }
    }

    fn restore(&mut self, ticket: Ticket, which: Incarnation, range: Range) {
        let given = self
            .restore_target(range.extent)
            .and_then(|into| self.workers.files(FileJob::Restore { ticket, into, range, which }));
        if let Err(error) = given {
            tracing::error!(id = %which.id, %error, "a spilled object cannot be read back");
            self.apply_event(Event::Restored(ticket, ReadBack::Failed));
        }
    }

    fn check_file(&mut self, ticket: Ticket, which: Incarnation, sizes: Sizes) {
        if let Err(error) = self.workers.files(FileJob::Check { ticket, which, sizes }) {
            tracing::error!(id = %which.id, %error, "a spilled object cannot be checked");
            self.apply_event(Event::LogChecked(ticket, RecordCheck::Failed));
        }
    }

    fn open(&mut self, ticket: Ticket, which: Incarnation) {
        if let Err(error) = self.workers.files(FileJob::Open { ticket, which }) {
            tracing::error!(id = %which.id, %error, "a spilled object's file cannot be opened");
            self.apply_event(Event::Opened(ticket, OpenedFile::Failed));
        }
    }

    /// A file is open for a client, unless that is gone: then it is closed again.
    fn opened(&mut self, ticket: Ticket, outcome: OpenedFile, file: Option<OwnedFd>) {
        self.tier.opened.extend(file.map(|file| (ticket, file)));
        self.apply_event(Event::Opened(ticket, outcome));
        self.tier.opened.remove(&ticket);
    }

    /// The way into an extent that the daemon itself writes to.
    pub(super) fn restore_target(&mut self, extent: ExtentId) -> io::Result<Target> {
        if self.config.level == Level::Leased {
            return self.extents.mapped(extent).map(Target::Mapped);
        }
        let memfd = self.extents.get(extent).ok_or(io::ErrorKind::NotFound)?;
        Ok(Target::Memfd(Arc::clone(memfd)))
    }

    /// Tells the store what the workers finished.
    pub(super) fn collect_work(&mut self) {
        for done in self.workers.finished() {
            match done {
                Done::Reserved { ticket, extent, made } => {
                    self.reserving.remove(&ticket);
                    self.note_reserving();
                    let is_there = match made {
                        Ok(NewMemory::Extent(memfd)) => {
                            self.take_in(extent, memfd);
                            self.when_kept(AfterKeeper::Reserved(ticket, extent));
                            continue;
                        }
                        Ok(NewMemory::Growing(memfd)) => {
                            self.shared().control.set_writer(extent, 0);
                            self.extents.insert_growing(extent, memfd);
                            true
                        }
                        Ok(NewMemory::Nothing) => true,
                        Err(error) => {
                            tracing::warn!(?extent, %error, "the machine has no free memory for \
                                                             it");
                            false
                        }
                    };
                    self.reserved(ticket, extent, is_there);
                }
                Done::Unpunched(range) => self.apply_event(Event::Unpunched(range)),
                Done::Closed { extent, remains } => self.closed(extent, remains),
                Done::Settled { ticket, extent, settled } => {
                    self.settled(ticket, extent, settled);
                }
                Done::Spilled(ticket, done) => self.apply_event(Event::Spilled(ticket, done)),
                Done::Removed(is_gone) => {
                    if self.tier.removals.end(is_gone) {
                        self.shared().control.void_files().clear();
                    }
                }
                Done::Restored(ticket, outcome) => {
                    self.apply_event(Event::Restored(ticket, outcome))
                }
                Done::Opened { ticket, outcome, file } => self.opened(ticket, outcome, file),
                Done::TierOpened { found, lock } => self.tier_opened(found, lock),
                Done::TierFault(fault) => self.tier.fault = fault,
                Done::Logged(ticket, outcome) => {
                    self.apply_event(Event::Logged(ticket, outcome));
                }
                Done::Unlogged(ticket, outcome) => {
                    self.apply_event(Event::Unlogged(ticket, outcome));
                }
                Done::LogChecked(ticket, found) => {
                    self.apply_event(Event::LogChecked(ticket, found));
                }
                Done::LogDamaged(id, lsn) => self.apply_event(Event::LogDamaged(id, lsn)),
                Done::LogOpened(found) => self.log_opened(found),
                Done::LogFigures(figures) => self.log_said(*figures),
                Done::Hardened(ticket, sealed) => self.apply_event(Event::Hardened(ticket, sealed)),
                Done::Keeper(started) => self.keeper_started(started),
                Done::PoolDaemon(started) => self.pool_daemon_started(started),
                Done::Looked(found) => self.looked(found),
            }
        }
    }

    /// A new extent: the keeper has it before a client is promised a byte of it.
    pub(super) fn take_in(&mut self, extent: ExtentId, memfd: Memfd) {
        let shared = self.store.directory_mut();
        if !edge::is_broken(Mutation::HoldNothing) {
            shared.keeper.hold(&Label::Extent(extent), &[memfd.as_fd()]);
        }
        shared.control.set_writer(extent, 0);
        self.extents.insert(extent, memfd);
    }
}
