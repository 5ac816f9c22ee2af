//! Taking a store over from a keeper.
//!
//! ```text
//! keeper ── labelled descriptors ──► Inventory ──► control: next epoch
//!                                               ├► index: the table that control names, writable
//!                                               ├► extents, sessions with their channels
//!                                               └► spill files of this store
//!                                    slots + attributes ──► Recovered ──► Store::recover
//!                                    rings of every session, drained before the first answer
//! ```
//!
//! Nothing that was sealed is lost: what the index shows is there, and what was in a ring and not
//! yet applied is applied now, also for clients that died in the meantime.
//!
//! What a client can reach never fails the start. Without listening socket, control page or index
//! there is no store; everything else that cannot be used is given up singly, and logged:
//!
//! | what | what happens instead |
//! |---|---|
//! | a channel | the session is abandoned; while its process lives, everything counts as pinned |
//! | an extent | the objects in it are corrupt |
//! | a slot that is no object, or contradicts another one | that object is corrupt |
//! | the wake page | another one; sleeping clients look by themselves |
//! | a message of the keeper that cannot be read | what it was about is missing, as above |

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use plasmon_proto::Attributes;
use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::Access;
use plasmon_shm::index::resize::Index;
use plasmon_shm::{
    ChannelDaemon, ControlDaemon, IndexWriter, Listener, Memfd, SlotImage, State, WakePage,
};
use plasmon_spill::{FileMeta, FolderLock};
use plasmon_store::event::{RecoveredExtent, RecoveredObject};

use crate::directory::{SharedTables, entry_of};
use crate::extents::Extents;
use crate::sessions::{DETACHED_MAX, Session, Sessions, writer_mark};
use plasmon_keeper::KeeperHandle;
use plasmon_keeper::Label;
use plasmon_keeper::{HeldDescriptors, KeeperLink};
use plasmon_shm::shortage::is_failure_of_machine;

/// Why a store cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadInventory {
    /// The keeper did not have something that every store has.
    #[error("the keeper holds no {0}")]
    Missing(&'static str),
    /// Something that it had cannot be used.
    #[error("{what}: {source}")]
    Unusable {
        /// What.
        what: String,
        /// Why.
        source: io::Error,
    },
}

impl BadInventory {
    /// Whether the machine is out of something for the moment.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Self::Unusable { source, .. } if is_failure_of_machine(source))
    }
}

/// What a keeper held, sorted.
#[derive(Debug)]
pub(crate) struct Inventory {
    /// The listening socket with its lock.
    pub(crate) listener: Listener,
    /// The store's token.
    pub(crate) store_token: u64,
    /// Everything shared.
    pub(crate) shared: SharedTables,
    /// The extents.
    pub(crate) extents: Extents,
    /// Extents that the previous daemon had dropped, and that processes may still have mapped.
    pub(crate) dropped: Vec<(ExtentId, Arc<Memfd>)>,
    /// The lock on the spill folder.
    pub(crate) spill_lock: Option<FolderLock>,
    /// Whether the rings are passed over, because daemons died while they applied them.
    pub(crate) distrusts_rings: bool,
}

/// Daemons that may die in a row before they serve; the next one passes the rings over. What is in
/// them is lost then, but not what the index lists.
const RINGS_TRUSTED_STARTS: u32 = 2;

#[derive(Default)]
struct SortedDescriptors {
    listener: Option<Listener>,
    control: Option<(u64, OwnedFd)>,
    wakes: Option<Memfd>,
    tables: BTreeMap<u64, OwnedFd>,
    spill_lock: Option<FolderLock>,
    extents: Extents,
    sessions: Vec<Session>,
}

/// Hands the listening socket and its lock over.
pub(crate) fn hold_listener(link: &KeeperLink, listener: &Listener) -> io::Result<()> {
    let (socket, lock) = listener.duplicate()?;
    let fds: Vec<_> =
        std::iter::once(socket.as_fd()).chain(lock.as_ref().map(AsFd::as_fd)).collect();
    link.hold(&Label::Listener, &fds)
}

impl Inventory {
    /// Sorts what the keeper held and takes it into use.
    pub(crate) fn sort(link: KeeperLink, held: HeldDescriptors) -> Result<Self, BadInventory> {
        let mut sorted = SortedDescriptors::default();
        let distrusts_rings = held.failed_starts >= RINGS_TRUSTED_STARTS;
        for (label, fds) in held.labelled {
            sorted.put(label, fds)?;
        }
        let mut keeper = KeeperHandle::taken(link);
        let listener = sorted.listener.ok_or(BadInventory::Missing("listening socket"))?;
        let (store_token, control) = sorted.control.ok_or(BadInventory::Missing("control page"))?;
        let control =
            Memfd::adopt(control).and_then(ControlDaemon::adopt).map_err(unusable("control"))?;
        let wakes = match sorted.wakes {
            Some(wakes) => wakes,
            None => {
                let wakes = WakePage::create().map_err(unusable("wake page"))?;
                let pages = [control.memfd().as_fd(), wakes.as_fd()];
                keeper.hold(&Label::Control { store: store_token }, &pages);
                wakes
            }
        };
        let number = control.table();
        let table = sorted.tables.remove(&number).ok_or(BadInventory::Missing("index table"))?;
        let table = Memfd::adopt(table)
            .and_then(|memfd| IndexWriter::adopt(memfd, number))
            .map_err(unusable("index table"))?;
        // Tables that the daemon before was about to give up, or had not announced yet.
        sorted.tables.keys().for_each(|number| keeper.forget(&Label::Index { number: *number }));
        let mut sessions = Sessions::new(DETACHED_MAX);
        for session in sorted.sessions {
            sessions.insert(session);
        }
        forget_lost_extents(&control, &sorted.extents);
        let index = Index::new(table);
        let shared = SharedTables { index, control, wakes, sessions, keeper, grown: false };
        let (mut extents, mut dropped) = (sorted.extents, Vec::new());
        let is_dropped = |extent: &ExtentId| shared.control.writer(*extent).is_none();
        let gone: Vec<_> = extents.iter().map(|(extent, _)| extent).filter(is_dropped).collect();
        for extent in gone {
            dropped.extend(extents.remove(extent).map(|memfd| (extent, memfd)));
        }
        extents.set_first_birth(shared.control.births());
        let spill_lock = sorted.spill_lock;
        Ok(Self { listener, store_token, shared, extents, dropped, spill_lock, distrusts_rings })
    }
}

fn unusable(what: &str) -> impl FnOnce(io::Error) -> BadInventory + use<> {
    let what = what.to_owned();
    move |source| BadInventory::Unusable { what, source }
}

impl SortedDescriptors {
    /// Puts what belongs to one label where it belongs. Fails only for what may work for the next
    /// daemon: this one has no room for it.
    fn put(&mut self, label: Label, fds: Vec<OwnedFd>) -> Result<(), BadInventory> {
        let mut fds = fds.into_iter();
        let Some(first) = fds.next() else {
            tracing::error!(?label, "the keeper held no descriptor for this; it is given up");
            return Ok(());
        };
        match label {
            Label::Listener => self.listener = Some(Listener::adopt(first, fds.next())),
            Label::Control { store } => {
                self.control = Some((store, first));
                self.wakes = fds.next().and_then(|fd| Memfd::adopt(fd).ok());
            }
            Label::Index { number } => drop(self.tables.insert(number, first)),
            Label::SpillFolder => self.spill_lock = Some(FolderLock::adopt(first)),
            Label::Extent(extent) => match Memfd::adopt(first) {
                Ok(memfd) => drop(self.extents.insert(extent, memfd)),
                Err(source) if may_pass(&source) => return Err(unusable("an extent")(source)),
                Err(error) => {
                    tracing::error!(?extent, %error, "an extent is given up with its objects");
                }
            },
            Label::Session { token, pid, uid, writes } => {
                let (channel, lost_channel) = match fds.next() {
                    None => (None, None),
                    Some(fd) => adopt_channel(fd, pid)?,
                };
                self.sessions.push(Session {
                    token,
                    pid,
                    uid,
                    access: if writes { Access::ReadWrite } else { Access::ReadOnly },
                    process: first,
                    is_abandoned: lost_channel.is_some(),
                    channel,
                    lost_channel,
                    doorbell: None,
                    client: None,
                    is_deaf: false,
                });
            }
        }
        Ok(())
    }
}

/// A channel as it can be used, or its bare descriptor: a client may have done anything to it.
fn adopt_channel(
    fd: OwnedFd,
    pid: u32,
) -> Result<(Option<ChannelDaemon>, Option<OwnedFd>), BadInventory> {
    let kept = fd.try_clone().map_err(unusable("a channel"))?;
    match Memfd::adopt(fd).and_then(ChannelDaemon::adopt) {
        Ok(channel) => Ok((Some(channel), None)),
        // Nothing that the client did. The next daemon may have room for it.
        Err(source) if may_pass(&source) => Err(unusable("a channel")(source)),
        Err(error) => {
            tracing::error!(pid, %error, "a client's channel is damaged; until its process ends, \
                all memory counts as in use by it");
            Ok((None, Some(kept)))
        }
    }
}

/// Whether the next daemon may succeed, because the machine refused this one something. A client
/// that has taken a lease on what it shares causes an `EAGAIN`, for as long as it likes.
fn may_pass(error: &io::Error) -> bool {
    is_failure_of_machine(error) && error.kind() != io::ErrorKind::WouldBlock
}

/// Takes extents off the control page that ended with the daemon before this one, such as those
/// that were growing, so that clients let go of them.
fn forget_lost_extents(control: &ControlDaemon, extents: &Extents) {
    match control.extents() {
        Ok(registered) => {
            let lost = registered.into_iter().filter(|(extent, _)| extents.get(*extent).is_none());
            lost.for_each(|(extent, _)| control.forget_extent(extent));
        }
        Err(error) => tracing::warn!(%error, "extents that are lost stay listed"),
    }
}

/// The extents as the store is told of them.
pub(crate) fn recovered_extents(shared: &SharedTables, extents: &Extents) -> Vec<RecoveredExtent> {
    let writers: HashSet<u64> =
        shared.sessions.iter().map(|(_, session)| writer_mark(session.token)).collect();
    let recovered = |(extent, memfd): (ExtentId, &Arc<Memfd>)| RecoveredExtent {
        extent,
        bytes: memfd.bytes(),
        quarantined: shared.control.writer(extent).is_some_and(|mark| writers.contains(&mark)),
        lent: Some(shared.control.lent(extent)),
        strict: memfd.is_write_sealed().unwrap_or(false),
        resident_bytes: memfd.resident_bytes().unwrap_or(memfd.bytes()),
    };
    let mut recovered: Vec<_> = extents.iter().map(recovered).collect();
    recovered.sort_by_key(|extent| extent.extent);
    recovered
}

/// The objects that the index lists and those in the spill tier, as the store is told of them.
pub(crate) fn recovered_objects(
    shared: &mut SharedTables,
    extents: &Extents,
    spilled: Vec<FileMeta>,
) -> Vec<RecoveredObject> {
    let (mut objects, mut broken) = (Vec::new(), Vec::new());
    let counts = shared.index.table.counts();
    objects.reserve_exact(counts.live + counts.hidden + spilled.len());
    // In the order of the slots, so that the table is read from its start to its end.
    for (slot, state, image) in shared.index.table.iter_from(0) {
        match recovered(slot, state, &image, extents) {
            Some(object) => objects.push(object),
            None => broken.push((slot, state, image.id)),
        }
    }
    for (slot, state, id) in broken {
        tracing::error!(%id, slot, "an index slot does not describe an object; it is given up");
        if state == State::Live {
            shared.index.table.hide(&[slot]);
        }
        shared.index.table.remove(slot);
    }
    objects.extend(spilled_objects(spilled));
    objects
}

/// What a slot lists; `None` when it is no object.
fn recovered(
    slot: u32,
    state: State,
    image: &SlotImage,
    extents: &Extents,
) -> Option<RecoveredObject> {
    // What is in no extent is told as well: the store takes it out of the index.
    let entry = entry_of(image)?;
    let attributes = match entry.meta.sizes.attributes {
        0 => Some(Attributes::default()),
        _ => extents.attributes(entry.range.placement(), &entry.meta.sizes),
    };
    if attributes.is_none() {
        tracing::warn!(id = %entry.id, "an object's attributes cannot be read any more");
    }
    let visible = state != State::Hidden;
    Some(RecoveredObject::in_memory(slot, &entry, visible, attributes.unwrap_or_default()))
}

/// Objects of the spill tier, as the store is told of them.
pub(crate) fn spilled_objects(found: Vec<FileMeta>) -> impl Iterator<Item = RecoveredObject> {
    found.into_iter().map(|object| {
        let meta = object.meta();
        RecoveredObject::spilled(object.id, object.serial, meta, object.attributes)
    })
}
