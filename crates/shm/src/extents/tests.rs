//! The table of mapped extents: alone, against a plain model, and under threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::map::Populate;
use crate::memfd::Memfd;

fn map(pages: u64) -> ReadMap {
    let memfd = Memfd::create("plasmon-test", pages * 4096).unwrap();
    ReadMap::new(&memfd, pages * 4096, Populate::No).unwrap()
}

fn found(table: &ExtentTable, extent: ExtentId) -> Option<(u64, u64)> {
    table.lookup(extent).map(|mapped| (mapped.base, mapped.bytes))
}

fn read(map: &ReadMap) -> Option<(u64, u64)> {
    Some((map.base().addr() as u64, map.bytes()))
}

#[test]
fn an_extent_is_found_while_it_is_mapped() {
    let table = ExtentTable::new().unwrap();
    for extent in [ExtentId::new(0, 1), ExtentId::new(EXTENTS_MAX as u32 - 1, ExtentId::BIRTH_MAX)]
    {
        assert_eq!(table.lookup(extent), None);
        let map = map(2);
        let expected = read(&map);
        table.insert(extent, map).unwrap();
        assert_eq!(found(&table, extent), expected);
        table.insert(extent, self::map(2)).unwrap();
        assert_eq!(found(&table, extent), expected, "the first mapping stays");
        assert_eq!(table.bytes(extent), Some(8192));
        assert!(table.insert(extent, self::map(1)).is_err(), "its size never changes");
        assert_eq!(found(&table, extent), expected);
        table.remove(extent);
        table.remove(extent);
        assert_eq!(table.lookup(extent), None);
    }
    assert_eq!(table.count(), 0);
}

/// A client that missed the end of an extent kept its mapping for good: when the number
/// came back, it read the bytes of the earlier extent, or beyond the end of its mapping.
#[test]
fn an_extent_is_never_taken_for_one_before_it() {
    let table = ExtentTable::new().unwrap();
    let (old, new) = (ExtentId::new(7, 1), ExtentId::new(7, 1 + (1 << 12)));
    table.insert(old, map(1)).unwrap();
    assert_eq!(table.lookup(new), None);
    let newer = map(3);
    let expected = read(&newer);
    table.insert(new, newer).unwrap();
    assert_eq!(table.lookup(old), None, "the entry belongs to the new one");
    assert_eq!(found(&table, new), expected);
    table.insert(ExtentId::new(7, 2), map(1)).unwrap();
    assert_eq!(found(&table, new), expected, "a late mapping of an earlier one changes nothing");
    table.remove(old);
    assert_eq!(found(&table, new), expected, "removing the old one leaves the new one alone");
    assert_eq!(table.count(), 1);
    table.retain(|extent| extent != new);
    assert_eq!((table.lookup(new), table.count()), (None, 0));
}

#[test]
fn what_lies_beyond_the_mapping_is_not_contained() {
    let mapped = MappedExtent { base: 4096, bytes: 8192 };
    assert!(mapped.contains(0, 8192) && mapped.contains(8192, 0) && mapped.contains(64, 8128));
    assert!(!mapped.contains(0, 8193) && !mapped.contains(8192, 1) && !mapped.contains(64, 8129));
    let longest = MappedExtent { base: 4096, bytes: u64::MAX };
    assert!(longest.contains(64 * u64::from(u32::MAX), (1 << 48) + (1 << 32)), "no overflow");
}

/// Threads look extents up while others come and go at the same indices: what a lookup finds always
/// belongs to the extent that was asked for. Each size names its extent.
#[test]
fn a_lookup_never_mixes_two_extents() {
    const PAGES: u64 = 5;
    let table = ExtentTable::new().unwrap();
    let over = AtomicBool::new(false);
    let extent = |birth: u64| ExtentId::new(3, birth);
    let bytes = |birth: u64| (1 + birth % PAGES) * 4096;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for birth in 1..400 {
                        if let Some(mapped) = table.lookup(extent(birth)) {
                            assert_eq!(mapped.bytes, bytes(birth), "birth {birth}");
                        }
                    }
                }
            });
        }
        for birth in 1..400 {
            table.insert(extent(birth), map(bytes(birth) / 4096)).unwrap();
            assert!(table.lookup(extent(birth)).is_some());
            if birth % 3 == 0 {
                table.remove(extent(birth));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against a plain map: the newest extent of each index that was inserted and not removed is
    /// found, with its own mapping, and nothing else.
    #[test]
    fn it_is_a_map_of_the_newest_extents(
        steps in proptest::collection::vec((0..3u8, 0..3u32, 1..6u64), 0..60)
    ) {
        let table = ExtentTable::new().unwrap();
        let mut kept: BTreeMap<ExtentId, (u64, u64)> = BTreeMap::new();
        let mut newest: BTreeMap<usize, ExtentId> = BTreeMap::new();
        for (step, index, birth) in steps {
            let extent = ExtentId::new(index, birth);
            let place = extent.index();
            match step {
                0 => {
                    let map = map(birth);
                    let expected = read(&map).unwrap();
                    table.insert(extent, map).unwrap();
                    let later = newest.get(&place).is_some_and(|it| it.birth() > birth);
                    if !later && !kept.contains_key(&extent) {
                        kept.insert(extent, expected);
                        newest.insert(place, extent);
                    }
                }
                1 => {
                    table.remove(extent);
                    kept.remove(&extent);
                    if newest.get(&place) == Some(&extent) {
                        newest.remove(&place);
                    }
                }
                _ => {
                    table.retain(|it| it != extent);
                    kept.remove(&extent);
                    if newest.get(&place) == Some(&extent) {
                        newest.remove(&place);
                    }
                }
            }
            for index in 0..3 {
                for birth in 1..6 {
                    let extent = ExtentId::new(index, birth);
                    let expected = (newest.get(&extent.index()) == Some(&extent))
                        .then(|| kept[&extent]);
                    prop_assert_eq!(found(&table, extent), expected);
                }
            }
            prop_assert_eq!(table.count(), kept.len());
        }
    }
}
