//! What was told of each id: births and ends in an order that can have happened, each once.
//!
//! The birth of an object is told by the node that made it, its end by each node that had a copy.
//! So an end comes several times, and nodes are not heard in the order in which things happened. A
//! birth of an id means that everything born before under it has ended: the directory lets go of an
//! id when all copies are gone.
//!
//! ```text
//!   unknown ──born──► alive ──ended──► dead         another birth of an alive id: the end of the
//!      └──────ended───────────────────►┘            one before is told first
//! ```

use std::collections::{BTreeMap, VecDeque};

use plasmon_proto::ObjectId;

use crate::limits::NOTICES_SEEN_MAX;
use crate::message::PoolNotice;
use crate::record::Birth;

/// Births of one id that are remembered beside the last.
const BIRTHS_MAX: usize = 4;

/// What was told of the ids about which something was told last.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    by_id: BTreeMap<ObjectId, Told>,
    /// In the order in which they came.
    order: VecDeque<ObjectId>,
}

/// What was told of an id.
#[derive(Debug)]
struct Told {
    last: PoolNotice,
    /// Births that ended before the last.
    ended: VecDeque<Birth>,
    /// Births whose end came while another one was alive: of ones before it, or of later ones
    /// whose birth has not come yet.
    early: VecDeque<Birth>,
}

impl Seen {
    /// A node tells something; what is to be told of it.
    pub(crate) fn take(&mut self, notice: PoolNotice) -> Vec<PoolNotice> {
        let Some(told) = self.by_id.get_mut(&notice.id) else {
            self.remember(notice.clone());
            return vec![notice];
        };
        if notice.is_born { told.born(notice) } else { told.ended(notice) }
    }

    /// Whether this is an end that would be told although its birth was not.
    pub(crate) fn is_early(&self, notice: &PoolNotice) -> bool {
        let birth = notice.birth;
        let is_known = |told: &Told| {
            told.last.birth == birth
                || told.last.is_born
                || told.ended.contains(&birth)
                || told.early.contains(&birth)
        };
        !notice.is_born && !self.by_id.get(&notice.id).is_some_and(is_known)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn remember(&mut self, last: PoolNotice) {
        let id = last.id;
        let (ended, early) = Default::default();
        self.by_id.insert(id, Told { last, ended, early });
        self.order.push_back(id);
        if self.order.len() > NOTICES_SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }
}

impl Told {
    fn born(&mut self, born: PoolNotice) -> Vec<PoolNotice> {
        if born.birth == self.last.birth || self.ended.contains(&born.birth) {
            return Vec::new();
        }
        let end = |notice: &PoolNotice| PoolNotice { is_born: false, ..notice.clone() };
        let mut told: Vec<_> = self.last.is_born.then(|| end(&self.last)).into_iter().collect();
        push(&mut self.ended, self.last.birth);
        told.push(born.clone());
        let has_ended = self.early.iter().position(|birth| *birth == born.birth);
        if let Some(at) = has_ended {
            self.early.remove(at);
            told.push(end(&born));
        }
        self.last = PoolNotice { is_born: has_ended.is_none(), ..born };
        told
    }

    fn ended(&mut self, ended: PoolNotice) -> Vec<PoolNotice> {
        let birth = ended.birth;
        if birth == self.last.birth {
            return if std::mem::take(&mut self.last.is_born) { vec![ended] } else { Vec::new() };
        }
        if self.ended.contains(&birth) || self.early.contains(&birth) {
            return Vec::new();
        }
        if self.last.is_born {
            push(&mut self.early, birth);
            return Vec::new();
        }
        push(&mut self.ended, self.last.birth);
        self.last = ended.clone();
        vec![ended]
    }
}

fn push(births: &mut VecDeque<Birth>, birth: Birth) {
    births.push_back(birth);
    if births.len() > BIRTHS_MAX {
        births.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::Slot;
    use plasmon_proto::Name;
    use plasmon_testkit::Random;

    use super::*;

    fn notice(serial: u64, is_born: bool) -> PoolNotice {
        let name = Name::new("@ns", "x").unwrap();
        let birth = Birth { slot: Slot(1), boot: 2, serial };
        PoolNotice { id: name.id(), birth, name, data_bytes: serial, metadata_bytes: 0, is_born }
    }

    /// What is told when these come, as serials, negative for ends.
    fn told(came: &[i64]) -> Vec<i64> {
        let mut seen = Seen::default();
        let signed = |told: PoolNotice| {
            let serial = told.birth.serial as i64;
            if told.is_born { serial } else { -serial }
        };
        let take = |serial: &i64| seen.take(notice(serial.unsigned_abs(), *serial > 0));
        came.iter().flat_map(take).map(signed).collect()
    }

    #[test]
    fn each_birth_and_each_end_is_told_once_and_in_order() {
        for (came, expected) in [
            (&[1, -1, -1, 2, -2, -2][..], &[1, -1, 2, -2][..]),
            // Ends of copies that were late.
            (&[1, 2, -1, -1, -2, -1], &[1, -1, 2, -2]),
            // A birth that is later than the end.
            (&[-1, 1, -1], &[-1]),
            // An end that overtakes the birth while the one before is alive.
            (&[1, -2, -1, 2, -2, -1], &[1, -1, 2, -2]),
            (&[1, -2, 2, -1], &[1, -1, 2, -2]),
            // A late end of what was there before anything was told.
            (&[2, -1, -1, -2], &[2, -2]),
            (&[-1, -2, -1, -2], &[-1, -2]),
            (&[1, 1, 1], &[1]),
        ] {
            assert_eq!(told(came), expected, "{came:?}");
        }
    }

    /// Two nodes tell the same lives, each in order, and are heard in any order.
    #[test]
    fn the_streams_of_several_nodes_make_one_in_which_lives_do_not_overlap() {
        let mut dice = Random::new(3);
        for _ in 0..500 {
            let lives = 1 + dice.below(4) as i64;
            let origin: Vec<i64> = (1..=lives).flat_map(|life| [life, -life]).collect();
            let holder: Vec<i64> = (1..=lives).map(|life| -life).collect();
            let (mut one, mut other) = (origin.iter().peekable(), holder.iter().peekable());
            let mut came = Vec::new();
            while one.peek().is_some() || other.peek().is_some() {
                let next = if dice.percent(50) { one.next() } else { other.next() };
                came.extend(next);
            }
            let told = told(&came);
            let mut alive: Option<i64> = None;
            for serial in &told {
                if let Some(life) = alive {
                    assert_eq!(*serial, -life, "{came:?} is told as {told:?}");
                }
                alive = (*serial > 0).then_some(*serial);
            }
            assert_eq!(alive, None, "{came:?} is told as {told:?}");
            let mut once = told.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), told.len(), "{came:?} is told as {told:?}");
            assert_eq!(told.last(), Some(&-lives), "{came:?} is told as {told:?}");
        }
    }

    #[test]
    fn so_many_ids_are_remembered() {
        let mut seen = Seen::default();
        for number in 0..NOTICES_SEEN_MAX as u64 + 10 {
            let id =
                ObjectId::pooled(std::array::from_fn(|at| (number >> (8 * at.min(7))) as u8), None);
            seen.take(PoolNotice { id, ..notice(1, true) });
        }
        assert_eq!((seen.by_id.len(), seen.order.len()), (NOTICES_SEEN_MAX, NOTICES_SEEN_MAX));
    }
}
