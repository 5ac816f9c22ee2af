//! Shares, movement, zones, and the same result on every machine.

use std::collections::BTreeSet;

use super::*;
use crate::fixtures::member_in;

fn candidates(zones: &[&str]) -> BTreeMap<Slot, Candidate> {
    let slots = (0..zones.len() as u16).map(Slot);
    let members = slots.zip(zones).map(|(slot, zone)| (slot, member_in(slot.0, zone)));
    members.map(|(slot, member)| (slot, Candidate::new(slot, &member))).collect()
}

/// Nodes that are each a zone.
fn apart(count: u16) -> BTreeMap<Slot, Candidate> {
    let zones: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    candidates(&zones.iter().map(String::as_str).collect::<Vec<_>>())
}

fn choose<'a>(group: GroupNo, candidates: impl IntoIterator<Item = &'a Candidate>) -> Vec<Slot> {
    Choice::of(group, candidates).slots()
}

fn all(candidates: &BTreeMap<Slot, Candidate>) -> Vec<Vec<Slot>> {
    GroupNo::all().map(|group| choose(group, candidates.values())).collect()
}

/// Pairs of a group and a node that are in `after` only.
fn moved(before: &[Vec<Slot>], after: &[Vec<Slot>]) -> usize {
    let pairs = before.iter().zip(after);
    pairs.map(|(old, new)| new.iter().filter(|slot| !old.contains(slot)).count()).sum()
}

/// Two machines that disagree would fight about every group.
#[test]
fn choices_are_golden() {
    let all = all(&apart(7));
    let first: Vec<Vec<u16>> =
        all[..4].iter().map(|slots| slots.iter().map(|slot| slot.0).collect()).collect();
    assert_eq!(first, [[1, 6, 4], [0, 2, 5], [2, 4, 6], [2, 6, 4]]);
}

#[test]
fn logarithms_are_close_and_fall() {
    let exact = |hash: u64| 64.0 - (hash as f64).log2();
    let hashes = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit >> 1)]);
    for hash in hashes.chain((1..1000).map(|part| u64::MAX / 1000 * part)) {
        let found = negative_log2(hash) as f64 / (1_u64 << FRACTION_BITS) as f64;
        assert!((found - exact(hash)).abs() < 1e-6, "{hash:x}: {found}, {}", exact(hash));
        assert!(negative_log2(hash) <= negative_log2(hash - 1), "{hash:x}");
    }
    assert_eq!(negative_log2(0), 64 << FRACTION_BITS);
    assert_eq!(negative_log2(u64::MAX), 1, "a cost that is not negative");
    assert_eq!(LOG2[512], 2_512_394_809, "the table is the same everywhere");
}

#[test]
fn the_share_of_a_node_follows_from_its_weight() {
    let mut nodes = apart(20);
    for (slot, candidate) in &mut nodes {
        candidate.weight = if slot.0 < 10 { 100 } else { 300 };
    }
    nodes.get_mut(&Slot(0)).unwrap().weight = 0;
    // First places alone: the share of a second place is less uneven than the weights.
    let mut firsts = [0_u32; 20];
    all(&nodes).iter().for_each(|slots| firsts[usize::from(slots[0].0)] += 1);
    assert_eq!(firsts[0], 0, "no weight, no groups");
    let [light, heavy] = [&firsts[1..10], &firsts[10..]].map(|part| part.iter().sum::<u32>());
    // 1024 * 900 / 3900 = 236.
    assert!((190..285).contains(&light), "{light} and {heavy}: {firsts:?}");
}

#[test]
fn a_node_that_comes_takes_its_share_and_moves_nothing_else() {
    for count in [3, 4, 10, 50] {
        let (before, after) = (all(&apart(count)), all(&apart(count + 1)));
        let new = Slot(count);
        for (old, new_slots) in before.iter().zip(&after) {
            let kept: Vec<_> = new_slots.iter().filter(|slot| **slot != new).collect();
            assert!(kept.iter().all(|slot| old.contains(slot)), "only the new node is new");
        }
        let ideal = 3 * 1024 / usize::from(count + 1);
        let moves = moved(&before, &after);
        assert!(moves * 10 >= ideal * 6 && moves * 10 <= ideal * 14, "{moves} for {ideal}");
        // Going is coming backwards.
        assert_eq!(moved(&after, &before), moves);
    }
}

#[test]
fn zones_are_used_before_second_nodes_of_zones() {
    let tables: [&[&str]; 5] = [
        &["a", "a", "a", "a", "b"],
        &["a", "a", "b", "b", "c"],
        &["", "", ""],
        &["a", "b"],
        &["a", "a", "a", "b", "b", "b", "c", "c", "d"],
    ];
    for zones in tables {
        let nodes = candidates(zones);
        let distinct = zones.iter().collect::<BTreeSet<_>>().len();
        for slots in all(&nodes) {
            assert_eq!(slots.len(), zones.len().min(ACTING_MAX));
            let in_zones: BTreeSet<_> =
                slots.iter().map(|slot| zones[usize::from(slot.0)]).collect();
            assert_eq!(in_zones.len(), distinct.min(slots.len()), "{zones:?}: {slots:?}");
        }
    }
}

/// The shortcut of [`Targets`] and the order of offers change nothing.
#[test]
fn targets_follow_changes_as_if_all_were_chosen_again() {
    let zones = ["a", "a", "b", "c", "a", "b", "d", "a", "b", "c"];
    let nodes = candidates(&zones);
    let mut targets = Targets::default();
    let seed = 1;
    let mut random = plasmon_testkit::Random::new(seed);
    for round in 0..40 {
        let mut now = nodes.clone();
        now.retain(|_, _| random.percent(70));
        for candidate in now.values_mut() {
            candidate.weight = random.pick(&[100, 100, 100, 0, 50, 150]);
        }
        targets.update(now.clone());
        for group in GroupNo::all() {
            let backwards = choose(group, now.values().rev());
            assert_eq!(targets.of(group), backwards, "seed {seed}, round {round}, group {group}");
        }
    }
}
