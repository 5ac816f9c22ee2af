//! What the tests share: a log on a simulated device, objects with known payloads, and what may be
//! found after a loss of power.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use plasmon_proto::ObjectId;
use plasmon_proto::object::{Attributes, ObjectMeta, Sizes};
use plasmon_spill::FileMeta;
use plasmon_testkit::{Random, pattern};

use crate::doubles::{Event, Image, PowerLoss, SimDevice, makes_durable};
use crate::{DeviceKind, LogConfig, LogError, Lsn, ObjectLog, Opened, Source, open_on};

/// Bytes of a segment: the fewest that there can be.
pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024;

pub(crate) fn config(bytes_max: Option<u64>) -> LogConfig {
    LogConfig {
        folder: "simulated".into(),
        device: DeviceKind::File,
        bytes_max,
        segment_bytes: SEGMENT_BYTES,
        power_loss_protection: false,
    }
}

pub(crate) fn id(which: u8) -> ObjectId {
    ObjectId::new([which; 20])
}

/// A version of an object; it says itself which one it is.
pub(crate) fn object(which: u8, version: u64, bytes: usize) -> FileMeta {
    let sizes = Sizes { data: bytes as u64, ..Sizes::default() };
    let meta = ObjectMeta { sizes, created_ms: version, ..ObjectMeta::default() };
    FileMeta::new(id(which), 0, meta, Attributes::default())
}

thread_local! {
    /// Payloads that were made before: they are compared thousands of times.
    static PAYLOADS: RefCell<HashMap<(u8, u64, usize), Vec<u8>>> = RefCell::default();
}

/// The payload of a version.
pub(crate) fn payload(which: u8, version: u64, bytes: usize) -> Vec<u8> {
    let make = || pattern(u64::from(which) << 32 | version, bytes);
    PAYLOADS.with_borrow_mut(|it| it.entry((which, version, bytes)).or_insert_with(make).clone())
}

/// Seeds to try, fewer than `count` unless more are asked for.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("PLASMON_LOG_SEED"), number("PLASMON_LOG_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, many) => (0..many.unwrap_or(count)).collect(),
    }
}

pub(crate) fn read(
    log: &mut dyn ObjectLog,
    lsn: Lsn,
    object: &FileMeta,
) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    let room = object.sizes.footprint().unwrap();
    log.read(lsn, room, &mut |at, piece| {
        assert_eq!(at, bytes.len() as u64);
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

/// The objects that a log has, by their first byte: version and size. Their payloads are compared.
pub(crate) fn living(opened: &mut Opened) -> BTreeMap<u8, u64> {
    let mut living = BTreeMap::new();
    for found in &opened.found {
        let (which, version) = (found.object.id.as_bytes()[0], found.object.created_ms);
        let bytes = read(&mut *opened.log, found.lsn, &found.object).unwrap();
        assert!(bytes == payload(which, version, bytes.len()), "object {which} version {version}");
        assert_eq!(bytes.len() as u64, found.object.sizes.data);
        assert_eq!(living.insert(which, version), None, "object {which} was found twice");
    }
    living
}

/// What a change makes of an object: a version, or nothing.
pub(crate) type Change = (u8, Option<u64>);

/// What was acknowledged, and what was appended since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) acknowledged: BTreeMap<u8, u64>,
    pub(crate) appended: Vec<Change>,
}

impl Moment {
    /// Whether objects may be what a loss of power leaves of this.
    pub(crate) fn check(&self, living: &BTreeMap<u8, u64>) {
        let ids: BTreeSet<u8> = living.keys().chain(self.acknowledged.keys()).copied().collect();
        for which in ids {
            let found = living.get(&which).copied();
            let may_be = self.appended.contains(&(which, found));
            let is_acknowledged = found == self.acknowledged.get(&which).copied();
            assert!(
                is_acknowledged || may_be,
                "object {which}: found {found:?}, of {self:?}, which has {living:?}"
            );
        }
    }

    fn apply(&mut self) {
        for (which, version) in std::mem::take(&mut self.appended) {
            match version {
                Some(version) => self.acknowledged.insert(which, version),
                None => self.acknowledged.remove(&which),
            };
        }
    }
}

/// A log on a simulated device, and what it has to have.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) device: SimDevice,
    pub(crate) log: Box<dyn ObjectLog>,
    config: LogConfig,
    /// The record and the size of each object that was put and not deleted.
    pub(crate) records: BTreeMap<u8, (Lsn, u64, usize)>,
    version: u64,
    now: Moment,
    /// For each note in the device's events.
    pub(crate) moments: Vec<Moment>,
}

impl World {
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        Self::on(SimDevice::default(), bytes_max)
    }

    /// On a device that is written in place.
    pub(crate) fn in_place() -> Self {
        let device = SimDevice::default();
        device.set_in_place(true);
        Self::on(device, None)
    }

    /// On a device that wants zeros ahead.
    pub(crate) fn with_zeros() -> Self {
        let device = SimDevice::default();
        device.set_notes_first_writes(true);
        Self::on(device, None)
    }

    fn on(device: SimDevice, bytes_max: Option<u64>) -> Self {
        let config = config(bytes_max);
        let log = open_on(Box::new(device.clone()), &config).unwrap().log;
        let (records, now, moments) = (BTreeMap::new(), Moment::default(), Vec::new());
        let mut world = Self { device, log, config, records, version: 0, now, moments };
        world.note();
        world
    }

    pub(crate) fn put(&mut self, which: u8, bytes: usize) -> Result<Lsn, LogError> {
        let version = self.version + 1;
        let payload = payload(which, version, bytes);
        let object = object(which, version, bytes);
        let lsn = self.log.put(&object, Source::Bytes(&payload))?;
        self.version = version;
        self.records.insert(which, (lsn, version, bytes));
        self.append((which, Some(version)));
        Ok(lsn)
    }

    pub(crate) fn dead(&mut self, which: u8) -> Result<(), LogError> {
        if let Some((lsn, ..)) = self.records.get(&which).copied() {
            self.log.dead(&id(which), lsn)?;
            self.records.remove(&which);
            self.append((which, None));
        }
        Ok(())
    }

    /// Puts an object as the daemon does: where there is no room, what is dead makes some. Whether
    /// there was room then.
    pub(crate) fn put_at_last(&mut self, which: u8, bytes: usize) -> bool {
        let mut put = self.put(which, bytes);
        if put.is_err() {
            while self.log.collect(1 << 20).unwrap() {}
            put = self.put(which, bytes);
        }
        self.sync().unwrap();
        assert!(matches!(put, Ok(_) | Err(LogError::Full { .. })), "{put:?}");
        put.is_ok()
    }

    /// Ends one in the same way, for which there is room.
    pub(crate) fn dead_at_last(&mut self, which: u8) {
        if let Err(error) = self.dead(which) {
            assert!(matches!(error, LogError::Full { .. }), "{error:?}");
            while self.log.collect(1 << 20).unwrap() {}
            self.dead(which).unwrap();
        }
    }

    fn append(&mut self, change: Change) {
        self.now.appended.push(change);
        // Until the next note, what was appended may be there.
        if let Some(moment) = self.moments.last_mut() {
            moment.appended.push(change);
        }
    }

    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        self.log.sync()?;
        self.note();
        Ok(())
    }

    /// Everything that was appended is acknowledged from here on.
    fn note(&mut self) {
        self.now.apply();
        self.device.note(self.moments.len() as u64);
        self.moments.push(self.now.clone());
    }

    /// The process is killed and starts again: what was written is there, synced or not.
    pub(crate) fn reopen(&mut self) {
        let mut opened = open_on(Box::new(self.device.clone()), &self.config).unwrap();
        assert_eq!(opened.recovery.damaged, []);
        let living = living(&mut opened);
        self.now.check(&living);
        self.records.clear();
        for found in &opened.found {
            let which = found.object.id.as_bytes()[0];
            let (version, bytes) = (found.object.created_ms, found.object.sizes.data as usize);
            self.records.insert(which, (found.lsn, version, bytes));
        }
        self.log = opened.log;
        // What was seen is durable.
        self.now = Moment { acknowledged: living, appended: Vec::new() };
        self.note();
    }

    /// Every object has its payload.
    pub(crate) fn check_payloads(&mut self) {
        for (which, (lsn, version, bytes)) in self.records.clone() {
            let object = object(which, version, bytes);
            let found = read(&mut *self.log, lsn, &object).unwrap();
            assert!(found == payload(which, version, bytes), "object {which}");
        }
    }

    /// Nothing is to be done for a while.
    pub(crate) fn rest(&mut self) {
        for _ in 0..1000 {
            let is_more = self.log.maintain(1 << 20).unwrap();
            if !(self.log.prepare().unwrap() || is_more) {
                return;
            }
        }
        panic!("the work of an idle log does not end");
    }

    /// Does something at random.
    pub(crate) fn step(&mut self, random: &mut Random) -> Result<(), LogError> {
        let which = random.below(6) as u8;
        match random.below(20) {
            0..9 => {
                let bytes =
                    random.pick(&[0, 1, 60, 100, 100, 700, 4000, 4100, 9000, 30_000, 70_000]);
                self.put(which, bytes).map(|_| ())
            }
            9..13 => self.dead(which),
            13..17 => self.sync(),
            17..19 => {
                self.log.maintain(random.pick(&[1, 10_000, 1 << 20]))?;
                self.log.prepare().map(drop)
            }
            _ => {
                self.reopen();
                Ok(())
            }
        }
    }

    /// What may be found at a loss of power after the note.
    pub(crate) fn moment(&self, note: Option<u64>) -> Moment {
        note.map(|note| self.moments[note as usize].clone()).unwrap_or_default()
    }
}

/// Opens the log in an image and returns what lives; no damage may be seen.
pub(crate) fn open_image(image: &Image) -> (BTreeMap<u8, u64>, SimDevice) {
    let device = SimDevice::of(image.clone());
    let mut opened = open_on(Box::new(device.clone()), &config(None)).unwrap();
    assert_eq!(opened.recovery.damaged, []);
    (living(&mut opened), device)
}

/// Looks at every loss of power during these events.
pub(crate) fn each_loss(
    start: Image,
    events: &[Event],
    unit_bytes: u64,
    visit: &mut dyn FnMut(&PowerLoss),
) {
    let mut loss = PowerLoss::of(start, unit_bytes);
    for event in events {
        if makes_durable(event) {
            visit(&loss);
        }
        loss.advance(event, false);
    }
    visit(&loss);
}
