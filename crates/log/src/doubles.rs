//! A device in memory that writes down what was done to it, and tells every image that a loss of
//! power may leave on a disk that keeps its promises.
//!
//! What was written and not synced is divided into units of the size that the disk writes whole; of
//! each unit the old bytes may be there, or those of any write since the last sync. A removed
//! segment may be there again until another one is made.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plasmon_shm::checksum;

use crate::device::{Capabilities, Device, LINE_BYTES, SUPERBLOCKS, Segment};

/// What is on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The segments.
    pub segments: BTreeMap<u64, Vec<u8>>,
    /// The superblocks.
    pub superblocks: [Vec<u8>; SUPERBLOCKS],
}

/// A file of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A segment.
    Segment(u64),
    /// A superblock.
    Superblock(usize),
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A segment was made; it is durable.
    Create(u64, u64),
    /// A segment was made of another one, with some of its bytes; that is durable.
    Recycle(u64, u64, u64),
    /// Bytes were written.
    Write(Target, u64, Vec<u8>),
    /// What was written to a file is durable.
    Sync(Target),
    /// A segment was cut.
    Shrink(u64, u64),
    /// A segment was removed.
    Remove(u64),
    /// The test says something, such as what was acknowledged.
    Note(u64),
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making a segment, of nothing or of another one.
    Create,
    /// Writing to one.
    Write,
    /// Syncing one.
    Sync,
    /// Reading one.
    Read,
    /// Writing a superblock.
    Superblock,
    /// Anything: the device is gone.
    Any,
}

/// A failure that is to come.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Of what.
    pub operation: Operation,
    /// How many succeed before.
    pub after: u32,
    /// How often it fails then.
    pub times: u32,
    /// With what.
    pub kind: io::ErrorKind,
}

#[derive(Debug, Default)]
struct State {
    image: Image,
    events: Vec<Event>,
    fault: Option<Fault>,
    reads_cache: bool,
    in_place: bool,
    notes_first_writes: bool,
    room_bytes: Option<u64>,
}

/// The device. Its copies are the same one.
#[derive(Clone, Debug, Default)]
pub struct SimDevice {
    state: Arc<Mutex<State>>,
}

impl SimDevice {
    /// A device with this on it.
    pub fn of(image: Image) -> Self {
        let state = State { image, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a reader sees.
    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    /// Changes what is on the disk, as damage does.
    pub fn change(&self, change: impl FnOnce(&mut Image)) {
        change(&mut self.state().image);
    }

    /// All that was done.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// Writes a note between the events.
    pub fn note(&self, what: u64) {
        self.state().events.push(Event::Note(what));
    }

    /// Something fails from now on.
    pub fn fail(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Whether reads may come from a cache.
    pub fn set_reads_cache(&self, reads_cache: bool) {
        self.state().reads_cache = reads_cache;
    }

    /// Whether it is written in place.
    pub fn set_in_place(&self, in_place: bool) {
        self.state().in_place = in_place;
    }

    /// Whether it wants its blocks written before they are needed.
    pub fn set_notes_first_writes(&self, notes: bool) {
        self.state().notes_first_writes = notes;
    }

    /// Takes no more than so many bytes of segments, as a small disk does.
    pub fn set_room(&self, bytes: u64) {
        self.state().room_bytes = Some(bytes);
    }

    /// Whether it has room for so many bytes more.
    fn try_to_hold(&self, bytes: u64) -> io::Result<()> {
        let state = self.state();
        let taken: u64 = state.image.segments.values().map(|segment| segment.len() as u64).sum();
        match state.room_bytes {
            Some(room) if taken + bytes > room => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn try_to(&self, operation: Operation) -> io::Result<()> {
        let mut state = self.state();
        let Some(fault) = &mut state.fault else { return Ok(()) };
        if fault.times == 0 || ![operation, Operation::Any].contains(&fault.operation) {
            return Ok(());
        }
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.times -= 1;
        Err(fault.kind.into())
    }

    fn record(&self, event: Event) -> io::Result<()> {
        let mut state = self.state();
        apply(&mut state.image, &event)?;
        state.events.push(event);
        Ok(())
    }
}

/// Does to an image what was done to the device.
fn apply(image: &mut Image, event: &Event) -> io::Result<()> {
    let absent = || io::Error::from(io::ErrorKind::NotFound);
    match event {
        Event::Create(number, bytes) => {
            image.segments.insert(*number, vec![0; *bytes as usize]);
        }
        Event::Recycle(from, number, bytes) => {
            let mut segment = image.segments.remove(from).ok_or_else(absent)?;
            segment.truncate(*bytes as usize);
            image.segments.insert(*number, segment);
        }
        Event::Write(Target::Segment(number), offset, bytes) => {
            let segment = image.segments.get_mut(number).ok_or_else(absent)?;
            overwrite(segment, *offset, bytes);
        }
        Event::Write(Target::Superblock(slot), offset, bytes) => {
            overwrite(&mut image.superblocks[*slot], *offset, bytes);
        }
        Event::Shrink(number, bytes) => {
            let segment = image.segments.get_mut(number).ok_or_else(absent)?;
            segment.truncate(*bytes as usize);
        }
        Event::Remove(number) => {
            image.segments.remove(number).ok_or_else(absent)?;
        }
        Event::Sync(_) | Event::Note(_) => {}
    }
    Ok(())
}

fn overwrite(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset as usize..end].copy_from_slice(bytes);
}

impl Device for SimDevice {
    fn kind(&self) -> String {
        "simulated".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let State { reads_cache, in_place, notes_first_writes, .. } = *self.state();
        let syncs_itself = false;
        Capabilities { torn_bytes: 1, syncs_itself, reads_cache, in_place, notes_first_writes }
    }

    fn segments(&mut self) -> io::Result<Vec<Segment>> {
        let state = self.state();
        let segments = state.image.segments.iter();
        let bytes = segments.map(|(number, segment)| (*number, segment.len() as u64));
        Ok(bytes.map(|(number, bytes)| Segment { number, bytes }).collect())
    }

    fn create(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        self.try_to(Operation::Create)?;
        self.try_to_hold(bytes)?;
        self.record(Event::Create(number, bytes))
    }

    fn recycle(&mut self, from: u64, number: u64, bytes: u64) -> io::Result<()> {
        self.try_to(Operation::Create)?;
        self.record(Event::Recycle(from, number, bytes))
    }

    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.try_to(Operation::Write)?;
        self.record(Event::Write(Target::Segment(number), offset, bytes.to_vec()))
    }

    fn write_checked(&mut self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<u32> {
        if !self.state().in_place {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.try_to(Operation::Write)?;
        let mut lines = bytes.to_vec();
        lines.resize(bytes.len().next_multiple_of(LINE_BYTES as usize), 0);
        self.record(Event::Write(Target::Segment(number), offset, lines))?;
        Ok(checksum::crc32c(bytes))
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        self.try_to(Operation::Sync)?;
        self.record(Event::Sync(Target::Segment(number)))
    }

    fn read(&mut self, number: u64, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.try_to(Operation::Read)?;
        let state = self.state();
        let segment = state.image.segments.get(&number).ok_or(io::ErrorKind::NotFound)?;
        let from = segment.get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn shrink(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        self.try_to(Operation::Any)?;
        self.record(Event::Shrink(number, bytes))
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        self.try_to(Operation::Any)?;
        self.record(Event::Remove(number))
    }

    fn read_superblock(&mut self, slot: usize) -> io::Result<Vec<u8>> {
        self.try_to(Operation::Any)?;
        Ok(self.state().image.superblocks[slot].clone())
    }

    fn write_superblock(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        self.try_to(Operation::Superblock)?;
        self.record(Event::Write(Target::Superblock(slot), 0, bytes.to_vec()))?;
        self.record(Event::Sync(Target::Superblock(slot)))
    }

    fn segment_name(&self, number: u64) -> String {
        format!("segment {number}")
    }

    fn superblock_name(&self, slot: usize) -> String {
        format!("superblock {slot}")
    }
}

/// Something that a loss of power may undo.
#[derive(Clone, Debug)]
enum Pending {
    /// Of one unit, what was written to it since the last sync, the last one last.
    Unit { target: Target, offset: u64, versions: Vec<Vec<u8>> },
    /// A segment that was removed.
    Removed(u64),
    /// A segment that was cut.
    Cut(u64, u64),
}

impl Pending {
    /// In how many ways it may have ended.
    fn choices(&self) -> usize {
        match self {
            Self::Unit { versions, .. } => versions.len() + 1,
            Self::Removed(_) | Self::Cut(..) => 2,
        }
    }

    /// Whether it was done to this file, and not to an earlier one of the same name.
    fn is_of(&self, file: Target) -> bool {
        match self {
            Self::Unit { target, .. } => *target == file,
            Self::Removed(number) | Self::Cut(number, _) => Target::Segment(*number) == file,
        }
    }

    fn apply(&self, choice: usize, image: &mut Image) {
        if choice == 0 {
            return;
        }
        let event = match self {
            Self::Unit { target, offset, versions } => {
                Event::Write(*target, *offset, versions[choice - 1].clone())
            }
            Self::Removed(number) => Event::Remove(*number),
            Self::Cut(number, bytes) => Event::Shrink(*number, *bytes),
        };
        // A unit of a segment that was removed has gone with it.
        let _ = apply(image, &event);
    }
}

/// Whether an event makes something durable: the images before any other one are among those after
/// it.
pub fn makes_durable(event: &Event) -> bool {
    matches!(event, Event::Sync(_) | Event::Create(..) | Event::Recycle(..) | Event::Note(_))
}

/// What is durable at some moment, and what may be.
#[derive(Clone, Debug)]
pub struct PowerLoss {
    durable: Image,
    pending: Vec<Pending>,
    unit_bytes: u64,
    /// The last note before.
    pub note: Option<u64>,
    /// Events before.
    pub events: usize,
}

impl PowerLoss {
    /// A disk with this on it.
    pub fn of(image: Image, unit_bytes: u64) -> Self {
        Self { durable: image, pending: Vec::new(), unit_bytes, note: None, events: 0 }
    }

    /// One more thing is done. `is_lie`: a sync does nothing.
    pub fn advance(&mut self, event: &Event, is_lie: bool) {
        self.events += 1;
        match event {
            Event::Note(note) => self.note = Some(*note),
            Event::Create(number, _) => {
                self.settle(|pending| matches!(pending, Pending::Removed(_)));
                let target = Target::Segment(*number);
                self.pending.retain(|pending| !pending.is_of(target));
                // In the order of the events a segment is made and durable at once.
                let _ = apply(&mut self.durable, event);
            }
            Event::Recycle(from, ..) => {
                let target = Target::Segment(*from);
                self.settle(|it| it.is_of(target) || matches!(it, Pending::Removed(_)));
                let _ = apply(&mut self.durable, event);
            }
            Event::Write(target, offset, bytes) => {
                for (index, unit) in bytes.chunks(self.unit_bytes as usize).enumerate() {
                    self.write_unit(*target, offset + index as u64 * self.unit_bytes, unit);
                }
            }
            Event::Sync(_) if is_lie => {}
            Event::Sync(target) => self.settle(|pending| match pending {
                Pending::Unit { target: other, .. } => other == target,
                Pending::Cut(number, _) => Target::Segment(*number) == *target,
                Pending::Removed(_) => false,
            }),
            Event::Shrink(number, bytes) => self.pending.push(Pending::Cut(*number, *bytes)),
            Event::Remove(number) => self.pending.push(Pending::Removed(*number)),
        }
    }

    fn write_unit(&mut self, target: Target, offset: u64, unit: &[u8]) {
        let same = self.pending.iter_mut().find_map(|pending| match pending {
            Pending::Unit { target: other, offset: at, versions }
                if *other == target && *at == offset =>
            {
                Some(versions)
            }
            _ => None,
        });
        match same {
            Some(versions) => versions.push(unit.to_vec()),
            None => {
                let versions = vec![unit.to_vec()];
                self.pending.push(Pending::Unit { target, offset, versions });
            }
        }
    }

    fn settle(&mut self, is_settled: impl Fn(&Pending) -> bool) {
        let all = std::mem::take(&mut self.pending).into_iter();
        let (settled, pending): (Vec<Pending>, Vec<Pending>) = all.partition(is_settled);
        self.pending = pending;
        settled.iter().for_each(|it| it.apply(it.choices() - 1, &mut self.durable));
    }

    /// Bytes of a unit.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// Visits the images that a loss of power may leave now: all of them while no more than
    /// `units_max` things may be undone, else some with every number of them done in their order,
    /// and `samples` more.
    pub fn each_image(
        &self,
        units_max: usize,
        samples: usize,
        word: &mut dyn FnMut() -> u64,
        visit: &mut dyn FnMut(Image),
    ) {
        let all: usize = self.pending.iter().map(Pending::choices).fold(1, usize::saturating_mul);
        if self.pending.len() <= units_max && all <= 1 << units_max {
            for number in 0..all {
                let mut left = number;
                visit(self.image_of(&mut |_, pending| {
                    let choice = left % pending.choices();
                    left /= pending.choices();
                    choice
                }));
            }
            return;
        }
        let step = self.pending.len().div_ceil(samples.max(1)).max(1);
        for done in (0..=self.pending.len()).step_by(step) {
            visit(self.image_of(&mut |index, pending| {
                if index < done { pending.choices() - 1 } else { 0 }
            }));
        }
        for _ in 0..samples {
            // Few or many are done, or about half of them.
            let often = [10, 50, 90][(word() % 3) as usize];
            visit(self.image_of(&mut |_, pending| {
                let is_done = word() % 100 < often;
                if is_done { 1 + (word() as usize) % (pending.choices() - 1) } else { 0 }
            }));
        }
    }

    /// The image of which `choose` says how each thing ended.
    fn image_of(&self, choose: &mut dyn FnMut(usize, &Pending) -> usize) -> Image {
        let mut image = self.durable.clone();
        for (index, pending) in self.pending.iter().enumerate() {
            pending.apply(choose(index, pending), &mut image);
        }
        image
    }
}
