//! What lives where, in memory: some hundred bytes for each object.
//!
//! A record counts or not by the numbers of all records of its id alone, in whatever order they are
//! found: the put with the largest number lives, unless a dead record says that this number is
//! dead. A dead record is needed as long as a put of its id that it ends lies in any segment.

use std::collections::{BTreeMap, HashMap};

use plasmon_proto::ObjectId;

use crate::Lsn;
use crate::format::{DeadRecord, PAYLOAD_ALIGN, PutRecord};

/// How often a record is written: at both ends of its frame and in the summary.
const RECORD_COPIES: u64 = 3;

/// What a dead record costs.
const DEAD_CHARGE: u64 = RECORD_COPIES * DeadRecord::ENCODED_BYTES as u64;

/// Where a record and its payload are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// The segment.
    pub(crate) segment: u64,
    /// Where its frame begins in it.
    pub(crate) frame: u64,
    /// Where the payload begins in the segment.
    pub(crate) payload: u64,
    /// Bytes of payload.
    pub(crate) bytes: u64,
    /// The checksum in the record.
    pub(crate) crc: u32,
    /// Bytes of the record.
    pub(crate) record_bytes: u32,
}

impl RecordPlace {
    /// The place of a record of a frame.
    pub(crate) fn of(segment: u64, frame: u64, record: &PutRecord) -> Self {
        let PutRecord { bytes, crc, .. } = *record;
        let payload = frame + record.offset;
        let record_bytes = PutRecord::encoded_bytes(record.description.len(), bytes);
        let record_bytes = u32::try_from(record_bytes).unwrap_or(u32::MAX);
        Self { segment, frame, payload, bytes, crc, record_bytes }
    }

    fn charge(&self) -> u64 {
        let records = RECORD_COPIES * u64::from(self.record_bytes);
        self.bytes.next_multiple_of(PAYLOAD_ALIGN) + records
    }
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Bytes of what lives in it.
    pub(crate) live_bytes: u64,
    /// Objects that live in it.
    pub(crate) objects: u64,
    /// Puts in it, of whatever is left of them.
    pub(crate) puts: u64,
}

/// What is left of an id in the segments besides what lives.
#[derive(Clone, Copy, Debug, Default)]
struct Remains {
    /// Puts that do not live.
    puts: u32,
    /// The dead record with the largest number of what is dead, and its segment.
    dead: Option<(DeadRecord, u64)>,
}

/// What lives where.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: HashMap<Lsn, RecordPlace>,
    newest: HashMap<ObjectId, Lsn>,
    remains: HashMap<ObjectId, Remains>,
    accounts: BTreeMap<u64, Account>,
    /// Whether all records were seen: until then a dead record may come before what it ends.
    settled: bool,
}

impl Index {
    /// Objects that live.
    pub(crate) fn objects(&self) -> u64 {
        self.places.len() as u64
    }

    /// Bytes of what lives.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.accounts.values().map(|account| account.live_bytes).sum()
    }

    /// Where a record is, if it lives.
    pub(crate) fn place(&self, lsn: Lsn) -> Option<RecordPlace> {
        self.places.get(&lsn).copied()
    }

    /// Whether a record lives, and in this frame.
    pub(crate) fn lives_at(&self, lsn: Lsn, segment: u64, frame: u64) -> bool {
        self.places.get(&lsn).is_some_and(|it| it.segment == segment && it.frame == frame)
    }

    /// What lives in the frames of a segment that begin from `from` on and before `to`, in the
    /// order of the numbers. It looks at everything that lives.
    pub(crate) fn living_in(&self, segment: u64, from: u64, to: u64) -> Vec<(ObjectId, Lsn)> {
        let is_there = |lsn: &Lsn| {
            let place = self.places.get(lsn);
            place.is_some_and(|it| it.segment == segment && (from..to).contains(&it.frame))
        };
        let living = self.newest.iter().filter(|(_, lsn)| is_there(lsn));
        let mut living: Vec<_> = living.map(|(id, lsn)| (*id, *lsn)).collect();
        living.sort_unstable_by_key(|(_, lsn)| *lsn);
        living
    }

    /// What is known of a segment.
    pub(crate) fn account(&self, segment: u64) -> Account {
        self.accounts.get(&segment).copied().unwrap_or_default()
    }

    fn account_mut(&mut self, segment: u64) -> &mut Account {
        self.accounts.entry(segment).or_default()
    }

    /// Takes in a put.
    pub(crate) fn put(&mut self, lsn: Lsn, id: ObjectId, place: RecordPlace) {
        self.account_mut(place.segment).puts += 1;
        let remains = self.remains.get(&id);
        let is_dead = remains.and_then(|it| it.dead).is_some_and(|(dead, _)| dead.of >= lsn);
        let newest = self.newest.get(&id).copied();
        if is_dead || newest.is_some_and(|newest| newest > lsn) {
            self.remains.entry(id).or_default().puts += 1;
            return;
        }
        // An older record, or this one where it was copied from.
        if let Some(newest) = newest {
            self.end(newest, id);
        }
        self.newest.insert(id, lsn);
        self.places.insert(lsn, place);
        let account = self.account_mut(place.segment);
        account.live_bytes += place.charge();
        account.objects += 1;
    }

    /// Takes in the end of an object, which is recorded in `segment`.
    pub(crate) fn dead(&mut self, record: DeadRecord, segment: u64) {
        let id = record.id;
        if let Some(newest) = self.newest.get(&id).copied().filter(|newest| *newest <= record.of) {
            self.newest.remove(&id);
            self.end(newest, id);
        }
        let remains = self.remains.entry(id).or_default();
        let before = remains.dead;
        // One with the same number is a copy, which the record is from here on.
        if before.is_none_or(|(dead, _)| dead.of <= record.of) {
            remains.dead = Some((record, segment));
            self.account_mut(segment).live_bytes += DEAD_CHARGE;
            self.uncharge_dead(before);
        }
        if self.settled {
            self.forget_if_gone(id);
        }
    }

    /// Ends the record that lives.
    fn end(&mut self, lsn: Lsn, id: ObjectId) {
        if let Some(place) = self.places.remove(&lsn) {
            let account = self.account_mut(place.segment);
            account.live_bytes -= place.charge();
            account.objects -= 1;
            self.remains.entry(id).or_default().puts += 1;
        }
    }

    fn uncharge_dead(&mut self, dead: Option<(DeadRecord, u64)>) {
        if let Some((_, segment)) = dead
            && let Some(account) = self.accounts.get_mut(&segment)
        {
            account.live_bytes -= DEAD_CHARGE;
        }
    }

    /// All records were seen.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
        let gone: Vec<_> =
            self.remains.iter().filter(|(_, it)| it.puts == 0).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.forget_if_gone(id));
    }

    fn forget_if_gone(&mut self, id: ObjectId) {
        if self.remains.get(&id).is_some_and(|it| it.puts == 0)
            && let Some(remains) = self.remains.remove(&id)
        {
            self.uncharge_dead(remains.dead);
        }
    }

    /// Whether a dead record has to be kept, if of its id so many puts are removed.
    pub(crate) fn needs_dead(&self, record: &DeadRecord, removed_puts: u32) -> bool {
        let Some(remains) = self.remains.get(&record.id) else { return false };
        let is_this = remains.dead.is_some_and(|(dead, _)| dead.lsn == record.lsn);
        is_this && remains.puts > removed_puts
    }

    /// A segment was removed in which nothing lives, with so many puts of each id.
    pub(crate) fn remove_segment(&mut self, segment: u64, puts: &HashMap<ObjectId, u32>) {
        for (id, count) in puts {
            if let Some(remains) = self.remains.get_mut(id) {
                remains.puts = remains.puts.saturating_sub(*count);
            }
            self.forget_if_gone(*id);
        }
        self.accounts.remove(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_testkit::Random;

    const ID: ObjectId = ObjectId::new([7; 20]);

    fn at(segment: u64) -> RecordPlace {
        RecordPlace { segment, frame: 0, payload: 64, bytes: 100, crc: 0, record_bytes: 90 }
    }

    #[derive(Clone, Copy)]
    enum Step {
        Put(Lsn, u64),
        Dead(Lsn, Lsn, u64),
    }

    fn index_of(steps: &[Step]) -> Index {
        let mut index = Index::default();
        for step in steps {
            match *step {
                Step::Put(lsn, segment) => index.put(lsn, ID, at(segment)),
                Step::Dead(lsn, of, segment) => index.dead(DeadRecord { lsn, of, id: ID }, segment),
            }
        }
        index.settle();
        index
    }

    #[test]
    fn what_lives_follows_from_the_numbers_in_any_order() {
        let put = Step::Put;
        let dead = Step::Dead;
        let cases: [(&[Step], Option<Lsn>); 6] = [
            (&[put(1, 0)], Some(1)),
            (&[put(1, 0), put(2, 1)], Some(2)),
            (&[put(1, 0), dead(2, 1, 0)], None),
            (&[put(1, 0), dead(2, 1, 0), put(3, 1)], Some(3)),
            (&[put(1, 0), put(2, 0), dead(3, 2, 1)], None),
            (&[put(1, 0), put(2, 0), dead(3, 1, 1)], Some(2)),
        ];
        let mut random = Random::new(1);
        for (steps, lives) in cases {
            for _ in 0..20 {
                let mut mixed = steps.to_vec();
                for last in (1..mixed.len()).rev() {
                    mixed.swap(last, random.size_below(last + 1));
                }
                let index = index_of(&mixed);
                let living: Vec<_> = index.places.keys().copied().collect();
                assert_eq!(living, lives.into_iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_dead_record_is_needed_while_an_older_put_is_anywhere() {
        let record = DeadRecord { lsn: 3, of: 2, id: ID };
        let mut index = index_of(&[Step::Put(1, 0), Step::Put(2, 1), Step::Dead(3, 2, 1)]);
        assert!(index.needs_dead(&record, 1), "the put in segment 0 is left");
        index.dead(record, 2);
        index.remove_segment(1, &HashMap::from([(ID, 1)]));
        assert_eq!(index.account(2).live_bytes, DEAD_CHARGE);
        assert!(!index.needs_dead(&record, 1));
        index.remove_segment(0, &HashMap::from([(ID, 1)]));
        assert_eq!((index.account(2).live_bytes, index.remains.len()), (0, 0));
    }

    #[test]
    fn a_copied_record_lives_at_its_new_place() {
        let mut index = index_of(&[Step::Put(1, 0)]);
        index.put(1, ID, at(5));
        assert!(index.lives_at(1, 5, 0) && !index.lives_at(1, 0, 0));
        assert_eq!(index.account(0).objects, 0);
        index.remove_segment(0, &HashMap::from([(ID, 1)]));
        assert_eq!((index.objects(), index.remains.len()), (1, 0));
    }
}
