//! A session: the shared memory of one process and one channel, from one welcome of the daemon.
//!
//! A session lives until nothing borrows from it, which may be longer than its connection: buffers
//! keep reading while the daemon is down, after a disconnect, and in a forked child.
//!
//! ```text
//! welcomed ──(daemon restarted, kept our channel)──► the same session, another connection
//!     └──────(fork, or the daemon lost everything)──► ended: a new session takes its place
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::message::{MissingClaims, PendingObject, Resume, Welcome};
use plasmon_proto::object::Level;
use plasmon_proto::pool::Slot;
use plasmon_proto::ring::{Completion, Record, Submission};
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::channel::{ChannelClient, InFlight};
use plasmon_shm::control::ControlReader;
use plasmon_shm::edge::{self, Mutation};
use plasmon_shm::eventfd::Doorbell;
use plasmon_shm::growing::GrowingMap;
use plasmon_shm::index::IndexReader;
use plasmon_shm::map::ReadMap;
use plasmon_shm::reader::Reader;
use plasmon_shm::wake_page::WakePage;
use plasmon_shm::writer::WriteExtent;

use crate::acks::Acks;
use crate::error::{Error, Result};
use crate::ids::{HomedIds, Ids};
use crate::leases::Leases;

const CONNECTING: &str = "connecting to the store";

/// Where the doorbell is among the descriptors of a welcome. All others are those of the session.
const DOORBELL_AT: usize = 3;

/// What the threads of a process share about writing.
#[derive(Debug)]
pub(crate) struct WriteState {
    /// For puts, which hold this lock anyway.
    pub(crate) ids: Ids,
    /// For objects of a pool.
    pub(crate) homed_ids: HomedIds,
    pub(crate) leases: Leases,
    /// What became of submissions.
    pub(crate) verdicts: Acks,
    completions_lost: u64,
    refusals_lost: u64,
    /// Large objects under construction.
    creating: BTreeMap<ObjectId, PendingObject>,
    /// Mappings of growing extents that are idle, the last used at the end.
    growing_maps: VecDeque<(ExtentId, GrowingMap)>,
    /// Small objects under construction: few at a time, and every one comes and goes.
    announced: BTreeSet<ObjectId>,
    /// The connection whose daemon was told last what this session holds.
    link: u64,
    /// Objects given up while the daemon was being told that they are held.
    given_up: Vec<ObjectId>,
}

/// The shared memory of one welcome.
#[derive(Debug)]
pub(crate) struct Session {
    /// Unique in this process: what threads remember their view of the index by.
    pub(crate) number: u64,
    pub(crate) welcome: Welcome,
    pub(crate) memory: Memory,
    writing: Mutex<WriteState>,
    /// Held by the thread that maps memory to write to and closes it to new writers, which would
    /// refuse the mapping of another thread.
    mapping: Mutex<()>,
}

/// How the session reads and pins.
#[derive(Debug)]
pub(crate) enum Memory {
    /// In the shared index, with its own ledger and rings.
    Channel(Channel),
    /// By asking the daemon, which counts the pins.
    Socket(SocketMemory),
}

/// The shared memory of a client with a channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) reader: Arc<Reader>,
    /// The daemon's; every daemon gives one of its own.
    doorbell: Mutex<Arc<Doorbell>>,
    /// Shared with the other clients of this user, if they trust each other.
    wakes: Option<WakePage>,
}

/// What a client without a channel has mapped.
#[derive(Debug)]
pub(crate) struct SocketMemory {
    pub(crate) maps: Mutex<HashMap<ExtentId, KeptMap>>,
    control: ControlReader,
}

/// A mapping that is kept for the next object in its extent, without being told when that is gone.
#[derive(Debug)]
pub(crate) enum KeptMap {
    /// Kept until another extent is mapped: the daemon can take its memory away all the same.
    Kept(Arc<ReadMap>),
    /// Kept while an object in it is read: its memory stays as long as it is mapped.
    Shared(Weak<ReadMap>),
}

impl KeptMap {
    /// The mapping, if it is still there.
    pub(crate) fn get(&self) -> Option<Arc<ReadMap>> {
        match self {
            Self::Kept(map) => Some(Arc::clone(map)),
            Self::Shared(map) => map.upgrade(),
        }
    }

    /// Whether an object in it is read.
    pub(crate) fn is_used(&self) -> bool {
        match self {
            Self::Kept(map) => Arc::strong_count(map) > 1,
            Self::Shared(map) => map.strong_count() > 0,
        }
    }
}

/// Mappings of idle growing extents that are kept: as many as the daemon keeps extents idle.
const GROWING_MAPS_MAX: usize = 64;

/// Mappings that were found to be gone, to be dropped without the lock they were found under.
#[derive(Debug, Default)]
pub(crate) struct StaleMappings {
    extents: Vec<Arc<WriteExtent>>,
    growing: Vec<GrowingMap>,
}

impl Session {
    /// Maps what came with a welcome.
    pub(crate) fn new(welcome: Welcome, fds: Vec<OwnedFd>) -> Result<Self> {
        static SESSIONS: AtomicU64 = AtomicU64::new(1);
        let wanted = match (welcome.channel, welcome.wake_page) {
            (true, true) => 5,
            (true, false) => 4,
            (false, _) => 2,
        };
        if fds.len() != wanted {
            return Err(Error::unexpected(CONNECTING));
        }
        let failed = |error: io::Error| Error::io(CONNECTING, error);
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(|| Error::unexpected(CONNECTING));
        let control = ControlReader::new(next()?).map_err(failed)?;
        let index = IndexReader::new(next()?, welcome.index.number, welcome.index.slots);
        let index = index.map_err(failed)?;
        let memory = if welcome.channel {
            let channel = ChannelClient::new(next()?).map_err(failed)?;
            let doorbell = Mutex::new(Arc::new(Doorbell::adopt(next()?)));
            // Without it, what this client waits for the daemon tells a moment later.
            let wakes = next().ok().and_then(|fd| {
                let unusable = |error: &io::Error| tracing::warn!(%error, "no wake page");
                WakePage::new(fd).inspect_err(unusable).ok()
            });
            let reader = Arc::new(Reader::new(control, index, channel).map_err(failed)?);
            Memory::Channel(Channel { reader, doorbell, wakes })
        } else {
            Memory::Socket(SocketMemory { maps: Mutex::default(), control })
        };
        let writing =
            Mutex::new(WriteState::new(Leases::new(welcome.capacity_bytes, welcome.level)));
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { number, welcome, memory, writing, mapping: Mutex::default() })
    }

    /// The shared memory, if this client has a channel.
    #[inline]
    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.memory {
            Memory::Channel(channel) => Some(channel),
            Memory::Socket(_) => None,
        }
    }

    /// Which node of its pool the store is, as it says at this moment: the home of ids that are
    /// made now. `None` without a pool, and until the pool daemon has said so for the first time.
    #[inline]
    pub(crate) fn home(&self) -> Option<Slot> {
        match &self.memory {
            Memory::Channel(channel) => channel.reader.control().home(),
            Memory::Socket(memory) => memory.control.home(),
        }
    }

    pub(crate) fn writing(&self) -> MutexGuard<'_, WriteState> {
        // Accounting that is whole at every step; a panic in between would be a fault of ours.
        edge::lock(&self.writing)
    }

    /// From here to the end one thread maps memory to write to.
    pub(crate) fn mapping(&self) -> MutexGuard<'_, ()> {
        edge::lock(&self.mapping)
    }

    /// Takes what the daemon completed, if there is anything. Cheap when there is not.
    #[inline]
    pub(crate) fn drain(&self) {
        if let Some(channel) = self.channel()
            && channel.reader.channel().has_completions()
        {
            self.drain_now(channel);
        }
    }

    /// The same, for a caller who must know what became of its submissions: completions may also
    /// have been lost without any that is left in the ring.
    pub(crate) fn drain_fully(&self) {
        if let Some(channel) = self.channel() {
            self.drain_now(channel);
        }
    }

    #[cold]
    fn drain_now(&self, channel: &Channel) {
        let mut writing = self.writing();
        let dropped = writing.drain(&channel.reader);
        drop(writing);
        drop(dropped);
    }

    /// Unmaps what is gone, whether this client was notified or not.
    pub(crate) fn let_go(&self) {
        let Some(channel) = self.channel() else { return };
        let mut writing = self.writing();
        let mut dropped = writing.drain(&channel.reader);
        writing.forget_gone(&channel.reader, &mut dropped);
        drop(writing);
        drop(dropped);
    }

    /// Keeps a writable mapping for the next time. A client without a channel does so only at level
    /// leased, where it could not make the mapping again: it is not told when the extent is gone,
    /// and has to ask.
    pub(crate) fn keep_map(&self, extent: ExtentId, map: &Arc<WriteExtent>) {
        if self.channel().is_none() && self.welcome.level != Level::Leased {
            return;
        }
        let mut writing = self.writing();
        let displaced = writing.leases.keep(extent, Arc::clone(map));
        drop(writing);
        drop(displaced);
    }

    /// Keeps the mapping of a growing extent for the next time that this client is given it.
    /// Without a channel there would be no notice when the extent is gone.
    pub(crate) fn keep_growing_map(&self, extent: ExtentId, map: GrowingMap) {
        if self.channel().is_none() {
            return;
        }
        let mut writing = self.writing();
        writing.growing_maps.push_back((extent, map));
        let full = writing.growing_maps.len() > GROWING_MAPS_MAX;
        let displaced = if full { writing.growing_maps.pop_front() } else { None };
        drop(writing);
        drop(displaced);
    }

    /// Gives every lease back that is not being written; whether there were any.
    pub(crate) fn return_leases(&self) -> bool {
        let Some(channel) = self.channel() else {
            return false;
        };
        let ranges = self.writing().leases.give_up();
        for range in &ranges {
            // A full ring keeps the range leased until this client disconnects.
            let submitted = channel.submit(&[Submission::LeaseReturn(*range).encode()]);
            channel.ring_for(&submitted);
        }
        !ranges.is_empty()
    }

    /// What the new connection with this number must know about this session. Memory that was
    /// granted on an earlier one and is not known here by now goes back to the daemon. Nothing is
    /// carved or submitted from here on, until [`Self::go_on`].
    pub(crate) fn resume(&self, link: u64) -> Option<Resume> {
        let channel = self.channel()?;
        let mut writing = self.writing();
        let dropped = writing.drain(&channel.reader);
        writing.link = link;
        // Whatever was asked for is forgotten with the old connection; what still comes is welcome.
        writing.leases.suspend();
        // The daemon applies what is in the ring before it reads this.
        let mut leases = writing.leases.ranges();
        if edge::is_broken(Mutation::ResumeWithoutLeases) {
            leases.clear();
        }
        let creating = writing.creating.values().cloned().collect();
        drop(writing);
        drop(dropped);
        Some(Resume { token: self.welcome.token, leases: joined(leases), creating })
    }

    /// A daemon knows this session and has kept all of it but what is lost; `fds` came with its
    /// welcome.
    pub(crate) fn resumed(&self, fds: Vec<OwnedFd>, lost: &MissingClaims) -> Result<()> {
        let (Some(channel), Some(doorbell)) = (self.channel(), fds.into_iter().nth(DOORBELL_AT))
        else {
            return Err(Error::unexpected(CONNECTING));
        };
        let doorbell = Arc::new(Doorbell::adopt(doorbell));
        *channel.doorbell.lock().unwrap_or_else(PoisonError::into_inner) = doorbell;
        // Extents that grew ended with the daemon before this one, which notified no client.
        let mut writing = self.writing();
        let mut dropped = writing.drain(&channel.reader);
        writing.forget_gone(&channel.reader, &mut dropped);
        writing.leases.lose(&lost.leases);
        lost.creating.iter().for_each(|id| writing.clear_creating(id));
        drop(writing);
        drop(dropped);
        if *lost != MissingClaims::default() {
            let (ranges, objects) = (lost.leases.len(), lost.creating.len());
            tracing::warn!(ranges, objects, "memory was lost when the previous daemon died");
        }
        let announced: Vec<ObjectId> = self.writing().announced.iter().copied().collect();
        for id in announced {
            // A daemon that was restarted has forgotten objects without their own memory.
            self.submit_muted(channel, Submission::Announce { id });
        }
        // Records may have come into the ring while no thread could be woken.
        channel.reader.channel().forget_rung();
        channel.ring();
        Ok(())
    }

    /// The connection is there again: what is held may be carved. Gives what is to be aborted.
    pub(crate) fn go_on(&self) -> Vec<ObjectId> {
        let mut writing = self.writing();
        writing.leases.go_on();
        std::mem::take(&mut writing.given_up)
    }

    /// Another session takes this one's place: nothing is carved or submitted any more.
    pub(crate) fn end(&self) {
        let mut writing = self.writing();
        writing.leases.suspend();
        let maps = writing.leases.retain(|_| false);
        drop(writing);
        drop(maps);
    }

    /// Says that this process reads and writes nothing of the session any more.
    pub(crate) fn leave(&self) {
        if let Some(channel) = self.channel() {
            channel.reader.channel().leave();
        }
    }

    /// Submits a record whose refusal is of no interest, if there is room.
    fn submit_muted(&self, channel: &Channel, submission: Submission) {
        let mut writing = self.writing();
        let submitted = channel.submit(&[submission.encode()]);
        if submitted.count > 0 {
            let head = channel.reader.channel().head();
            writing.verdicts.mute(submitted.position, head);
        }
        drop(writing);
        channel.ring_for(&submitted);
    }

    /// Submissions that the daemon has not applied yet.
    pub(crate) fn unapplied(&self) -> u64 {
        self.channel().map_or(0, |channel| {
            let channel = channel.reader.channel();
            channel.tail().wrapping_sub(channel.head())
        })
    }
}

impl Channel {
    /// Puts as many of the records into the ring as there is room for.
    #[inline]
    pub(crate) fn submit(&self, records: &[Record]) -> InFlight {
        self.reader.channel().submit_many(records, self.reader.control())
    }

    /// Where clients wake each other.
    pub(crate) fn wakes(&self) -> Option<&WakePage> {
        self.wakes.as_ref()
    }

    /// Wakes clients that wait for objects which are on their way. Better done before the daemon is
    /// woken: then they wake up while it publishes.
    #[inline]
    pub(crate) fn wake_waiters(&self, id: &ObjectId) {
        if let Some(page) = &self.wakes
            && let Err(error) = page.hint(id)
        {
            // The daemon will wake them.
            tracing::warn!(%error, "clients that wait for an object cannot be woken");
        }
    }

    /// Has the daemon look at what was submitted, if it does not by itself.
    #[inline]
    pub(crate) fn ring_for(&self, submitted: &InFlight) {
        if submitted.must_ring && self.ring() {
            self.reader.channel().rang(submitted);
        }
    }

    /// Rings the daemon's doorbell; whether it rang.
    pub(crate) fn ring(&self) -> bool {
        let doorbell = Arc::clone(&self.doorbell.lock().unwrap_or_else(PoisonError::into_inner));
        let rang = doorbell.ring();
        if let Err(error) = &rang {
            // The next submission tries again.
            tracing::warn!(%error, "cannot ring the daemon's doorbell");
        }
        rang.is_ok()
    }
}

impl WriteState {
    fn new(leases: Leases) -> Self {
        Self {
            ids: Ids::new(),
            homed_ids: HomedIds::new(),
            leases,
            verdicts: Acks::default(),
            completions_lost: 0,
            refusals_lost: 0,
            creating: BTreeMap::new(),
            growing_maps: VecDeque::new(),
            announced: BTreeSet::new(),
            link: 0,
            given_up: Vec::new(),
        }
    }

    /// Takes the completions out of the ring. The caller drops what comes back without the lock.
    #[must_use]
    pub(crate) fn drain(&mut self, reader: &Reader) -> StaleMappings {
        let mut dropped = StaleMappings::default();
        while let Some(completion) = reader.next_completion() {
            match completion {
                // The daemon was not told of it, so it is no lease any more.
                Completion::Lease { .. } if self.leases.is_suspended() => {}
                Completion::Lease { range, .. } => self.leases.granted(range),
                Completion::Refused { position, code, id } => {
                    self.verdicts.refused(position, code, id);
                }
                Completion::ExtentGone(extent) => {
                    dropped.extents.extend(self.leases.forget(extent));
                    dropped.growing.extend(self.take_growing_map(extent));
                }
            }
        }
        let lost = reader.channel().completions_lost();
        if lost != self.completions_lost {
            tracing::warn!(
                count = lost - self.completions_lost,
                "completions from the daemon were lost"
            );
            self.completions_lost = lost;
            let refusals_lost = reader.channel().refusals_lost();
            self.verdicts.lose(refusals_lost - self.refusals_lost);
            self.refusals_lost = refusals_lost;
            // A lease that was lost the daemon has taken back.
            self.leases.forget_asking();
            if !edge::is_broken(Mutation::KeepStaleMapping) {
                self.forget_gone(reader, &mut dropped);
            }
        }
        dropped
    }

    /// Gives up every mapping of an extent that the daemon does not have any more, by the daemon's
    /// own list: what this client was told of their end is lost.
    fn forget_gone(&mut self, reader: &Reader, dropped: &mut StaleMappings) {
        let control = reader.control();
        reader.forget_gone();
        dropped.extents.extend(self.leases.retain(|extent| control.has_extent(extent)));
        let (kept, gone) = std::mem::take(&mut self.growing_maps)
            .into_iter()
            .partition(|(extent, _)| control.has_extent(*extent));
        self.growing_maps = kept;
        let gone: VecDeque<(ExtentId, GrowingMap)> = gone;
        dropped.growing.extend(gone.into_iter().map(|(_, map)| map));
    }

    /// The mapping of an idle growing extent, if it is kept.
    pub(crate) fn take_growing_map(&mut self, extent: ExtentId) -> Option<GrowingMap> {
        let at = self.growing_maps.iter().position(|(known, _)| *known == extent)?;
        self.growing_maps.remove(at).map(|(_, map)| map)
    }

    /// Whether memory granted on this connection was given up since, because the daemon was told
    /// what this session holds before the grant was known here.
    pub(crate) fn is_void(&self, link: u64) -> bool {
        link < self.link
    }

    /// A large object is under construction, or no longer.
    pub(crate) fn set_creating(&mut self, creating: PendingObject) {
        self.creating.insert(creating.id, creating);
    }

    /// Whether a large object is under construction in memory that is still its own.
    pub(crate) fn is_creating(&self, id: &ObjectId) -> bool {
        self.creating.contains_key(id)
    }

    /// A range that was carved is out of the ring's hands again: as submitted next, or carved
    /// again.
    pub(crate) fn close_again(&mut self, range: Range, submits: bool) -> Result<()> {
        let is_leased = self.leases.closed(&range);
        match (is_leased, submits) {
            (false, true) => Err(Error::new(Code::Disconnected, "submitting to the daemon")
                .with_detail("the object's memory was lost when the daemon died: put it again")),
            (true, false) => {
                self.leases.regain(range);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The object is given up. Whether the daemon can be told now; otherwise it is told by
    /// [`Session::go_on`]'s caller.
    pub(crate) fn give_up(&mut self, id: ObjectId) -> bool {
        let now = !self.leases.is_suspended();
        if !now {
            self.given_up.push(id);
        }
        now
    }

    /// A small object is under construction.
    pub(crate) fn announce(&mut self, id: ObjectId) {
        self.announced.insert(id);
    }

    /// An error if this client is writing an object of this id itself. The daemon cannot tell its
    /// put from the end of that writing.
    pub(crate) fn check_unannounced(&self, doing: &'static str, id: &ObjectId) -> Result<()> {
        if self.announced.contains(id) {
            return Err(Error::new(Code::Exists, doing).with_id(*id));
        }
        Ok(())
    }

    /// It was submitted or given up.
    pub(crate) fn clear_announced(&mut self, id: &ObjectId) {
        self.announced.remove(id);
    }

    /// The object was sealed or given up.
    pub(crate) fn clear_creating(&mut self, id: &ObjectId) {
        self.creating.remove(id);
    }
}

/// The memory of an object that was submitted.
pub(crate) fn put_range(record: &Record) -> Option<Range> {
    match Submission::decode(record) {
        Ok(Submission::Put(put)) => put.range(),
        _ => None,
    }
}

/// The same bytes in as few ranges as possible, so that they fit a message.
fn joined(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last)
                if last.extent == range.extent && last.offset + last.bytes == range.offset =>
            {
                last.bytes += range.bytes;
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_become_one() {
        let range = |extent, offset, bytes| Range { extent: ExtentId(extent), offset, bytes };
        let ranges = vec![range(2, 64, 64), range(1, 128, 64), range(1, 0, 128), range(1, 256, 64)];
        let expected = [range(1, 0, 192), range(1, 256, 64), range(2, 64, 64)];
        assert_eq!(joined(ranges), expected);
        assert!(joined(Vec::new()).is_empty());
    }
}
