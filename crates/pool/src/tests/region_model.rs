//! A region as its programs see it, in simulations: what they wrote, what they were told, and what
//! may lie in it once it is sealed.

use plasmon_proto::ObjectId;
use plasmon_proto::region::{RegionFailure, RegionReply};
use plasmon_testkit::Random;

use crate::time::Mono;

/// Each write of a region has bytes of its own, and there are 256.
pub(super) const WRITES_MAX: usize = 250;

/// What a program asks of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Allocate,
    /// The place of the write.
    Write(usize),
    Seal,
    Free,
    Look,
}

/// A write, whose bytes are all the same and those of no other.
#[derive(Clone, Debug)]
struct Write {
    offset: u64,
    bytes: u64,
    begin: Mono,
    /// The machine of the program.
    at: usize,
    /// When its connection to the home was lost. What the home has received of that may be done
    /// later, but before anything that comes over the next one.
    lost: Option<Mono>,
    /// When it was over for certain: nothing of it comes later.
    end: Option<Mono>,
    is_done: bool,
    /// How often the home put it there.
    applied: u32,
}

impl Write {
    fn has(&self, at: u64) -> bool {
        (self.offset..self.offset + self.bytes).contains(&at)
    }
}

/// What has happened to a region that may be why it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Causes {
    /// A program freed it.
    pub(super) is_freed: bool,
    /// What allocated it is gone, or its pool daemon.
    pub(super) is_owner_gone: bool,
    /// The pool daemon of its home has ended.
    pub(super) is_home_gone: bool,
    /// Its home was given up.
    pub(super) is_home_out: bool,
    /// Its home's store or the pool refused it.
    pub(super) is_refused: bool,
}

/// A region.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) id: ObjectId,
    pub(super) home: usize,
    pub(super) bytes: u64,
    pub(super) copies: (u8, u8),
    /// The machine and the number of the program that allocated it.
    pub(super) owner: (usize, u64),
    /// Whether its allocation was answered.
    pub(super) is_allocated: bool,
    pub(super) causes: Causes,
    /// What was in it when its home sealed it.
    pub(super) sealed: Option<Vec<u8>>,
    writes: Vec<Write>,
    /// When a program was first told that nothing is written any more.
    closed: Option<Mono>,
    /// When a program was first told that it is over.
    over: Option<Mono>,
}

impl Region {
    pub(super) fn new(
        id: ObjectId,
        home: usize,
        (bytes, copies): (u64, (u8, u8)),
        owner: (usize, u64),
    ) -> Self {
        Self {
            id,
            home,
            bytes,
            copies,
            owner,
            is_allocated: false,
            causes: Causes::default(),
            sealed: None,
            writes: Vec::new(),
            closed: None,
            over: None,
        }
    }

    /// Whether programs write to it.
    pub(super) fn is_in_use(&self) -> bool {
        self.is_allocated && self.closed.is_none() && self.writes.len() < WRITES_MAX
    }

    /// A new write of a program on a machine: what is asked, where, and the bytes. Now and then it
    /// is not within the region.
    pub(super) fn write(
        &mut self,
        dice: &mut Random,
        (at, begin): (usize, Mono),
    ) -> (Ask, u64, Vec<u8>) {
        let beyond = if dice.percent(10) { dice.below(20) } else { 0 };
        let offset = dice.below(self.bytes + 1);
        let bytes = dice.below(self.bytes - offset + 1) + beyond;
        let (lost, end, is_done, applied) = (None, None, false, 0);
        self.writes.push(Write { offset, bytes, begin, at, lost, end, is_done, applied });
        let place = self.writes.len() - 1;
        (Ask::Write(place), offset, vec![place as u8 + 1; bytes as usize])
    }

    /// The home puts bytes into it.
    pub(super) fn applied(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(value) = bytes.first() else { return Ok(()) };
        let write = self.writes.get_mut(usize::from(*value).wrapping_sub(1));
        let is_it = |write: &&mut Write| {
            (write.offset, write.bytes) == (offset, bytes.len() as u64) && write.applied == 0
        };
        match write.filter(is_it) {
            Some(write) if write.end.is_none() => {
                write.applied += 1;
                Ok(())
            }
            other => Err(format!("a write of {} comes late or twice: {other:?}", self.id)),
        }
    }

    /// The program that asked is gone, and its node.
    pub(super) fn left(&mut self, ask: Ask, now: Mono) {
        if let Ask::Write(place) = ask {
            self.writes[place].lost = Some(now);
        }
    }

    /// A program is answered; what is wrong with that.
    pub(super) fn answered(
        &mut self,
        ask: Ask,
        (at, begin, now): (usize, Mono, Mono),
        reply: RegionReply,
    ) -> Result<(), String> {
        if is_of_home(ask, reply) {
            // It came over a connection that was made after those that were lost.
            let is_over = |it: &&mut Write| it.at == at && it.lost.is_some_and(|lost| lost < begin);
            for write in self.writes.iter_mut().filter(is_over) {
                write.end.get_or_insert(now);
            }
        }
        let wrong = |what: &str| Err(format!("{what}: {ask:?} {reply:?} {begin:?}"));
        let is_before = |told: Option<Mono>| told.is_some_and(|told| told < begin);
        let (is_closed, is_over) = (is_before(self.closed), is_before(self.over));
        match (ask, reply) {
            (Ask::Allocate, RegionReply::Done) => self.is_allocated = true,
            (Ask::Look, RegionReply::Open { .. }) if is_over => return wrong("it is over"),
            (Ask::Look, RegionReply::Open { bytes }) if bytes == self.bytes => {}
            (Ask::Write(_), RegionReply::Done) if is_closed => return wrong("it is over"),
            (Ask::Write(place), RegionReply::Done) => {
                let write = &mut self.writes[place];
                (write.end, write.is_done) = (Some(now), true);
                let is_within = write.offset + write.bytes <= self.bytes;
                if !is_within || write.applied == 0 && write.bytes > 0 {
                    return wrong("it was not written");
                }
            }
            (Ask::Seal, RegionReply::Done) => {
                self.is_over(now);
                if self.sealed.is_none() {
                    return wrong("it is not sealed");
                }
            }
            (Ask::Free, RegionReply::Done) => self.is_over(now),
            (_, RegionReply::Failed(failure)) => return self.failed(ask, now, failure),
            _ => return wrong("no answer to that"),
        }
        Ok(())
    }

    fn is_over(&mut self, now: Mono) {
        self.closed.get_or_insert(now);
        self.over.get_or_insert(now);
    }

    fn failed(&mut self, ask: Ask, now: Mono, failure: RegionFailure) -> Result<(), String> {
        let (is_write, causes) = (matches!(ask, Ask::Write(_)), self.causes);
        if let Ask::Write(place) = ask {
            let write = &mut self.writes[place];
            match failure {
                RegionFailure::Interrupted | RegionFailure::Lost => write.lost = Some(now),
                // It may still be on its way.
                RegionFailure::Unreachable => {}
                _ if write.applied > 0 => {
                    return Err(format!("a write that was done is answered with {failure:?}"));
                }
                _ => write.end = Some(now),
            }
        }
        let (is_ending, is_so) = match failure {
            RegionFailure::Beyond { bytes } => (false, is_write && bytes == self.bytes),
            // It may not be an object yet.
            RegionFailure::Sealed => {
                self.closed.get_or_insert(now);
                (false, self.sealed.is_some())
            }
            RegionFailure::Freed => (true, causes.is_freed),
            // The node of its owner ends it when its home is back after it was given up.
            RegionFailure::AllocatorGone => (true, causes.is_owner_gone || causes.is_home_out),
            RegionFailure::Refused(_) => (true, ask == Ask::Allocate || causes.is_refused),
            RegionFailure::Unknown => (true, causes.is_home_gone),
            // Its home may be back, and has it until it is told.
            RegionFailure::Lost => (false, causes.is_home_out),
            RegionFailure::NoNode => (false, ask == Ask::Allocate),
            RegionFailure::Unreachable => (false, true),
            RegionFailure::Interrupted => (false, is_write),
            RegionFailure::Busy => (false, false),
        };
        // A program that cannot know whether it is allocated does not use it.
        if is_ending {
            self.is_over(now);
        }
        let what = || format!("{ask:?} is answered with {failure:?}, but {causes:?}");
        is_so.then_some(()).ok_or_else(what)
    }

    /// Each byte of what was sealed is the last that was written there, or one of several that were
    /// under way at one time.
    pub(super) fn check_sealed(&self) -> Result<(), String> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        if sealed.len() as u64 != self.bytes {
            return Err(format!("{} was sealed with {} bytes", self.id, sealed.len()));
        }
        for (at, value) in (0..).zip(sealed) {
            let over = |write: &&Write| write.is_done && write.has(at);
            let after = |end: Mono| self.writes.iter().filter(over).find(|it| it.begin > end);
            let instead = match usize::from(*value) {
                0 => self.writes.iter().find(over),
                place => match self.writes.get(place - 1) {
                    Some(write) if write.has(at) && write.applied > 0 => write.end.and_then(after),
                    other => return Err(format!("{} at {at}: {value}, {other:?}", self.id)),
                },
            };
            if let Some(write) = instead {
                return Err(format!("{} at {at}: {value} instead of {write:?}", self.id));
            }
        }
        Ok(())
    }
}

/// Whether the home of a region says this, and not the node that was asked.
fn is_of_home(ask: Ask, reply: RegionReply) -> bool {
    let RegionReply::Failed(failure) = reply else { return true };
    match failure {
        RegionFailure::Beyond { .. }
        | RegionFailure::Sealed
        | RegionFailure::Freed
        | RegionFailure::Refused(_)
        | RegionFailure::Unknown => true,
        RegionFailure::AllocatorGone => ask != Ask::Allocate,
        RegionFailure::NoNode
        | RegionFailure::Lost
        | RegionFailure::Unreachable
        | RegionFailure::Interrupted
        | RegionFailure::Busy => false,
    }
}
