//! Comparing the contents of the copies of a pool: every node reads its own, and what they found is
//! put side by side.
//!
//! ```text
//!   node a ── page ──┐
//!   node b ── page ──┼──► in the order of ids, as far as all nodes are ──► same, or differing
//!   node c ── page ──┘
//! ```
//!
//! All nodes are asked at the same time, each over a connection of its own. A node that does not
//! answer is named, and the others are compared without it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use plasmon_proto::pool::{Birth, Slot};
use plasmon_proto::pool_admin::{Reply, Request};
use plasmon_proto::pool_checksum::{ChecksumPage, ChecksumQuery, CopyChecksum};
use plasmon_proto::pool_status::{NodeState, PoolNode};
use plasmon_proto::{Code, Name, ObjectId};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool::{self, Door};

const COMPARING: &str = "having the contents of the pool compared";

/// For so long a pool daemon that has ended is waited for.
const AGAIN_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// Objects whose copies differ that are described; of others only the number is.
pub const DIFFERENCES_MAX: usize = 10_000;

/// What was found when the contents of all copies of a pool were compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentComparison {
    /// Copies that were read.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects with several copies that are all the same.
    pub same: u64,
    /// Objects of which one copy was found: there is nothing to compare it with.
    pub single: u64,
    /// Objects whose copies differ.
    pub differing: u64,
    /// Copies that their nodes could not read, or that are not what the log of their node has.
    pub unreadable: u64,
    /// Copies whose records in the logs of their nodes are damaged, and that can be read.
    pub damaged_records: u64,
    /// Objects with copies that differ, cannot be read, or have damaged records.
    pub damaged: u64,
    /// Those of them that were repaired.
    pub repaired: u64,
    /// The objects with such copies, in the order of their ids; at most [`DIFFERENCES_MAX`].
    pub differences: Vec<ContentDifference>,
    /// Nodes whose copies were not read, or not all of them.
    pub unanswered: Vec<Slot>,
}

/// An object whose copies differ, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDifference {
    /// The object.
    pub id: ObjectId,
    /// What it is called, if it has a name.
    pub name: Option<Name>,
    /// Its copies, as they were read last.
    pub copies: Vec<ContentCopy>,
    /// Its incarnation.
    pub birth: Birth,
    /// What became of it.
    pub outcome: ContentOutcome,
}

/// What became of an object whose copies were not all right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentOutcome {
    /// It was found, and no repair was asked for.
    #[default]
    Found,
    /// All its copies are right, and there are as many as shall be.
    Repaired,
    /// Its copies differ, and nothing says which is right.
    Undecided,
    /// No copy is right; those that there are stay.
    NoneRight,
    /// Not all its copies were right in time.
    Unfinished,
    /// It was deleted meanwhile.
    Ended,
}

/// A copy as its node has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentCopy {
    /// The node.
    pub slot: Slot,
    /// Bytes of data and metadata.
    pub bytes: u64,
    /// Their CRC32C; `None` where they cannot be read, or are not what the log has.
    pub crc: Option<u32>,
    /// Whether the log of the node has these bytes, as its checksums say; `None` where it has no
    /// record of them.
    pub logged: Option<bool>,
}

impl ContentCopy {
    pub(crate) fn of(slot: Slot, copy: &CopyChecksum) -> Self {
        Self { slot, bytes: copy.bytes, crc: copy.crc, logged: copy.logged }
    }
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContentProgress {
    /// Which part of all ids is compared, between 0 and 1.
    pub part: f64,
    /// Copies that were read.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ContentComparison {
    /// Whether all copies were read, and all are right or were repaired.
    pub fn is_right(&self) -> bool {
        self.damaged == self.repaired && self.unanswered.is_empty()
    }
}

impl Client {
    /// Has every node of the pool read the copies that its programs can see, and compares those of
    /// each object with one another. Nothing is changed, and what is spilled stays on its disk.
    /// `progress` is told now and then. [`Code::TimedOut`] when it takes longer than `within`,
    /// which may be [`Duration::MAX`].
    pub fn pool_compare(
        &self,
        within: Duration,
        mut progress: impl FnMut(ContentProgress),
    ) -> Result<ContentComparison> {
        let nodes = self.pool_nodes()?;
        let mut sides = Vec::new();
        let mut found = ContentComparison::default();
        sides.extend(live_nodes(&nodes).into_iter().map(Side::new));
        let down = nodes.iter().filter(|node| node.state == NodeState::Down);
        found.unanswered.extend(down.map(|node| node.slot));
        let (deadline, mut again) = (Deadline::after(within), None);
        while sides.iter().any(|side| side.query.is_some()) {
            interrupt::check(COMPARING)?;
            if deadline.is_past() {
                return Err(Error::new(Code::TimedOut, COMPARING));
            }
            read_pages(self.socket(), &mut sides, &mut found, &mut again)?;
            found.compare(&mut sides);
            progress(found.progress(&sides));
        }
        Ok(found)
    }
}

/// The nodes that can be asked.
pub(crate) fn live_nodes(nodes: &[PoolNode]) -> Vec<Slot> {
    let is_live = |node: &&PoolNode| match node.state {
        NodeState::Up | NodeState::Draining | NodeState::Drained => true,
        NodeState::Down | NodeState::Out => false,
    };
    nodes.iter().filter(is_live).map(|node| node.slot).collect()
}

/// One node.
#[derive(Debug)]
struct Side {
    slot: Slot,
    /// The connection over which a page is asked for. It is made anew for each: a node may wait
    /// for others for longer than a connection may say nothing.
    door: Option<Door>,
    /// What was read, and not compared.
    copies: VecDeque<CopyChecksum>,
    /// Where its next page begins; `None` after the last.
    query: Option<ChecksumQuery>,
}

impl Side {
    fn new(slot: Slot) -> Self {
        let query = Some(ChecksumQuery::default());
        Self { slot, door: None, copies: VecDeque::new(), query }
    }

    /// Asks for the next page, if what is here has been compared.
    fn ask(&mut self, store: &Path) -> Result<()> {
        let Some(query) = self.query.filter(|_| self.copies.is_empty()) else { return Ok(()) };
        let door = Door::open(store, COMPARING)?;
        door.send(1, &Request::Checksums { node: self.slot, query })?;
        self.door = Some(door);
        Ok(())
    }

    /// Takes the page that was asked for, if one was. A node that does not answer is named.
    fn take(&mut self, store: &Path, found: &mut ContentComparison) -> Result<()> {
        let Some((door, query)) = self.door.take().zip(self.query) else { return Ok(()) };
        door.await_reply(store)?;
        let (1, Reply::Checksums(page)) = door.receive()? else {
            return Err(Error::unexpected(COMPARING));
        };
        match page.filter(|page| query.is_answered_by(page)) {
            Some(ChecksumPage { copies, next }) => {
                self.copies = copies.into();
                self.query = next;
            }
            None => {
                self.query = None;
                found.unanswered.push(self.slot);
            }
        }
        Ok(())
    }
}

/// Has all nodes read on at the same time whose copies are compared so far. A pool daemon of this
/// machine that has ended is waited for until `again`, which is set by the first failure.
fn read_pages(
    store: &Path,
    sides: &mut [Side],
    found: &mut ContentComparison,
    again: &mut Option<Deadline>,
) -> Result<()> {
    let asked: Vec<Result<()>> = sides.iter_mut().map(|side| side.ask(store)).collect();
    let taken = sides.iter_mut().map(|side| side.take(store, found));
    // All are taken, whatever becomes of the first.
    let taken: Vec<Result<()>> = taken.collect();
    let Err(error) = asked.into_iter().chain(taken).collect::<Result<()>>() else {
        *again = None;
        return Ok(());
    };
    let may_come = error.code() == Code::Unreachable && pool::has_socket(store);
    let deadline = *again.get_or_insert(Deadline::after(AGAIN_WITHIN));
    if !may_come || deadline.is_past() {
        return Err(error);
    }
    edge::sleep(interrupt::pause(PAUSE, deadline));
    Ok(())
}

impl ContentComparison {
    /// Compares as far as all nodes have read.
    fn compare(&mut self, sides: &mut [Side]) {
        let end = frontier(sides);
        let mut by_object: BTreeMap<(ObjectId, Birth), Vec<(Slot, CopyChecksum)>> = BTreeMap::new();
        for side in sides {
            let is_covered = |id: ObjectId| end.is_none_or(|end| Some(id) <= end);
            while side.copies.front().is_some_and(|copy| is_covered(copy.id)) {
                if let Some(copy) = side.copies.pop_front() {
                    // Another incarnation under the same id is another object.
                    by_object.entry((copy.id, copy.birth)).or_default().push((side.slot, copy));
                }
            }
        }
        for (of, copies) in by_object {
            self.add(of, &copies);
        }
    }

    fn progress(&self, sides: &[Side]) -> ContentProgress {
        let part = frontier(sides).map_or(1.0, |end| end.map_or(0.0, position));
        ContentProgress { part, copies: self.copies, bytes: self.bytes }
    }

    /// Adds the copies of one incarnation of an object.
    fn add(&mut self, (id, birth): (ObjectId, Birth), copies: &[(Slot, CopyChecksum)]) {
        let read: Vec<(u32, u64)> =
            copies.iter().filter_map(|(_, copy)| Some((copy.crc?, copy.bytes))).collect();
        let unreadable = copies.len() - read.len();
        self.copies += read.len() as u64;
        self.bytes += read.iter().map(|(_, bytes)| bytes).sum::<u64>();
        self.unreadable += unreadable as u64;
        let has_bad_record =
            |(_, copy): &&(Slot, CopyChecksum)| copy.crc.is_some() && copy.logged == Some(false);
        let bad_records = copies.iter().filter(has_bad_record).count();
        self.damaged_records += bad_records as u64;
        let is_same = read.windows(2).all(|two| two[0] == two[1]);
        match (is_same, read.len()) {
            (false, _) => self.differing += 1,
            (true, 0) => {}
            (true, 1) => self.single += 1,
            (true, _) => self.same += 1,
        }
        let is_damaged = !is_same || unreadable + bad_records > 0;
        self.damaged += u64::from(is_damaged);
        if is_damaged && self.differences.len() < DIFFERENCES_MAX {
            let name = copies.iter().find_map(|(_, copy)| copy.name.clone());
            let copies = copies.iter().map(|(slot, copy)| ContentCopy::of(*slot, copy)).collect();
            let outcome = ContentOutcome::Found;
            self.differences.push(ContentDifference { id, name, copies, birth, outcome });
        }
    }
}

/// Up to which id all nodes have read their copies; `None`: all of them.
fn frontier(sides: &[Side]) -> Option<Option<ObjectId>> {
    sides.iter().filter_map(|side| side.query).map(|query| query.after).min()
}

/// Where an id lies among all, between 0 and 1: they are evenly distributed.
fn position(id: ObjectId) -> f64 {
    let first = id.as_bytes().first_chunk().copied().map_or(0, u32::from_be_bytes);
    f64::from(first) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIRTH: Birth = Birth { slot: Slot(1), boot: 2, serial: 3 };

    fn copy(crc: Option<u32>, bytes: u64) -> CopyChecksum {
        CopyChecksum { id: id(1), birth: BIRTH, bytes, crc, name: None, logged: None }
    }

    fn id(number: u8) -> ObjectId {
        ObjectId::pooled([number; 12], None)
    }

    #[test]
    fn copies_are_the_same_or_named() {
        let mut found = ContentComparison::default();
        let mut add = |number, crcs: &[Option<u32>]| {
            let copies = crcs.iter().enumerate().map(|(at, crc)| (Slot(at as u16), copy(*crc, 5)));
            found.add((id(number), BIRTH), &copies.collect::<Vec<_>>());
            found.clone()
        };
        add(1, &[Some(7), Some(7), Some(7)]);
        let well = add(2, &[Some(7)]);
        assert_eq!((well.same, well.single, well.copies, well.bytes), (1, 1, 4, 20));
        assert!(well.is_right() && well.differences.is_empty());
        let ill = add(3, &[Some(7), Some(8), Some(7)]);
        assert_eq!((ill.differing, ill.same, ill.differences[0].id), (1, 1, id(3)));
        let crcs: Vec<_> = ill.differences[0].copies.iter().map(|copy| copy.crc).collect();
        assert_eq!(crcs, [Some(7), Some(8), Some(7)]);
        let ill = add(4, &[None, Some(8), Some(8)]);
        assert_eq!((ill.unreadable, ill.same, ill.differing, ill.differences.len()), (1, 2, 1, 2));
        let ill = add(5, &[None]);
        assert_eq!((ill.unreadable, ill.single, ill.differences.len()), (2, 1, 3));
        assert!(!ill.is_right());
        found.differences.clear();
        found.add((id(6), BIRTH), &[(Slot(1), copy(Some(1), 5)), (Slot(2), copy(Some(1), 6))]);
        assert_eq!((found.differing, found.differences.len()), (2, 1), "of other lengths");
        found.differences = vec![found.differences[0].clone(); DIFFERENCES_MAX];
        found.add((id(7), BIRTH), &[(Slot(1), copy(None, 5))]);
        assert_eq!((found.unreadable, found.differences.len()), (3, DIFFERENCES_MAX));
        let mut found = ContentComparison::default();
        let logged = |logged| CopyChecksum { logged: Some(logged), ..copy(Some(1), 5) };
        found.add((id(8), BIRTH), &[(Slot(1), logged(true)), (Slot(2), logged(false))]);
        assert_eq!((found.same, found.damaged_records, found.damaged), (1, 1, 1));
        assert!(!found.is_right());
        found.repaired = 1;
        assert!(found.is_right());
    }

    #[test]
    fn the_position_of_an_id_says_how_far_it_is() {
        assert!(position(id(0)) < 0.01 && position(id(255)) > 0.99);
        assert!((position(id(128)) - 0.5).abs() < 0.01);
    }
}
