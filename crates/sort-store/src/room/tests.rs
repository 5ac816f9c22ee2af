//! The decisions for given numbers.

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn rows(rows_bytes: u64) -> Sizes {
    Sizes { rows_bytes, file_bytes: 0 }
}

fn to_file(available_bytes: u64) -> Resources {
    Resources { available_bytes, ..Resources::default() }
}

fn to_store(available_bytes: u64, store: StoreRoom) -> Resources {
    Resources { available_bytes, memory_bytes: None, store: Some(store) }
}

fn store(capacity_bytes: u64) -> StoreRoom {
    StoreRoom { capacity_bytes, spills: true, ..StoreRoom::default() }
}

fn spills_with(resources: &Resources) -> u64 {
    match plan(rows(100), resources, Spill::Always) {
        Ok(Plan::Spill { memory_bytes }) => memory_bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_a_quarter_more_and_what_is_read_from_files_must_fit() {
    let sizes = Sizes { rows_bytes: 4000, file_bytes: 1000 };
    assert_eq!(sizes.needed_bytes(), 6000);
    let in_memory = Ok(Plan::InMemory { or_spill_with: None });
    assert_eq!(plan(sizes, &to_file(6000), Spill::Auto), in_memory);
    assert!(matches!(plan(sizes, &to_file(5999), Spill::Auto), Ok(Plan::Spill { .. })));
    assert!(matches!(plan(sizes, &to_file(GIB), Spill::Always), Ok(Plan::Spill { .. })));
    let refused = NoRoom { shortage: Shortage::Memory, needed_bytes: 6000, found_bytes: 5999 };
    assert_eq!(plan(sizes, &to_file(5999), Spill::Never), Err(refused));
    assert_eq!(refused.to_string(), "the sort needs 6,000 bytes and this process can use 5,999");
    let huge = Sizes { rows_bytes: u64::MAX, file_bytes: u64::MAX };
    assert!(matches!(plan(huge, &to_file(GIB), Spill::Auto), Ok(Plan::Spill { .. })));
}

#[test]
fn rows_must_fit_the_store_or_its_spill_tier() {
    let full = StoreRoom { spills: false, ..store(1000) };
    let refused = NoRoom { shortage: Shortage::Store, needed_bytes: 1001, found_bytes: 1000 };
    for spill in [Spill::Auto, Spill::Always, Spill::Never] {
        assert_eq!(plan(rows(1001), &to_store(GIB, full), spill), Err(refused));
    }
    assert!(plan(rows(1000), &to_store(GIB, full), Spill::Auto).is_ok());
    let spilling = to_store(GIB, store(1000));
    assert!(matches!(plan(rows(1001), &spilling, Spill::Auto), Ok(Plan::Spill { .. })));
    let refused = NoRoom { shortage: Shortage::StoreWithoutSpill, ..refused };
    assert_eq!(plan(rows(1001), &spilling, Spill::Never), Err(refused));
}

/// A sort into a store that others had filled ended with an error in the command, and went on
/// through a scratch file in Python.
#[test]
fn a_sort_into_a_store_that_spills_has_a_second_way() {
    let in_memory = |room: StoreRoom, spill| plan(rows(100), &to_store(GIB, room), spill);
    let Ok(Plan::InMemory { or_spill_with: Some(memory_bytes) }) =
        in_memory(store(64 * MIB), Spill::Auto)
    else {
        panic!("no second way");
    };
    assert!(memory_bytes >= MEMORY_BYTES_MIN);
    let none = Ok(Plan::InMemory { or_spill_with: None });
    assert_eq!(in_memory(store(64 * MIB), Spill::Never), none);
    assert_eq!(in_memory(StoreRoom { spills: false, ..store(64 * MIB) }, Spill::Auto), none);
}

/// Memory that the store has already taken from the machine is not available, and the result needs
/// no more of the machine where it goes into it. A result in a file does not go there.
#[test]
fn warm_memory_counts_only_for_a_result_in_the_store() {
    let warm = StoreRoom { warm_bytes: 1250, ..store(GIB) };
    assert!(matches!(plan(rows(1000), &to_store(0, warm), Spill::Auto), Ok(Plan::InMemory { .. })));
    assert!(matches!(plan(rows(1001), &to_store(0, warm), Spill::Auto), Ok(Plan::Spill { .. })));
    assert!(matches!(plan(rows(1000), &to_file(1249), Spill::Auto), Ok(Plan::Spill { .. })));
    // A given number is the limit, whatever is warm and available.
    let given = Resources { memory_bytes: Some(1249), ..to_store(GIB, warm) };
    assert!(matches!(
        plan(rows(1000), &given, Spill::Auto),
        Ok(Plan::Spill { memory_bytes: 1249 })
    ));
}

/// The command took all available memory for a sort into a file, and half of it for one into the
/// store, whatever the store could still take.
#[test]
fn a_spilling_sort_takes_half_of_what_is_left() {
    assert_eq!(spills_with(&to_file(8 * GIB)), 4 * GIB);
    // The store may yet take 2 GiB of the 8.
    let fresh = StoreRoom { used_bytes: GIB, warm_bytes: GIB, ..store(4 * GIB) };
    assert_eq!(spills_with(&to_store(8 * GIB, fresh)), 3 * GIB);
    // It may take everything: an eighth remains.
    assert_eq!(spills_with(&to_store(8 * GIB, store(64 * GIB))), GIB);
    let given = Resources { memory_bytes: Some(5), ..to_file(GIB) };
    assert_eq!(spills_with(&given), 5);
}

#[test]
fn little_memory_is_taken_up_to_a_half() {
    for (available, taken) in [
        (256 * MIB, 128 * MIB),
        (100 * MIB, 50 * MIB),
        (2 * MIB, MIB),
        // Less than a mebibyte would not do.
        (MIB, MIB),
        (0, MIB),
    ] {
        assert_eq!(spills_with(&to_file(available)), taken, "{available}");
    }
    // All that is there may go to the store: what is worth sorting with is more than an eighth.
    assert_eq!(spills_with(&to_store(256 * MIB, store(GIB))), 64 * MIB);
    assert_eq!(spills_with(&to_store(64 * MIB, store(GIB))), 32 * MIB);
}

/// With much memory and a small store a partition was larger than the store, which then had no
/// room for it: the sort failed unless the caller gave less memory.
#[test]
fn a_partition_is_a_small_part_of_the_store() {
    let resources = to_store(64 * GIB, StoreRoom { used_bytes: 80 * MIB, ..store(80 * MIB) });
    assert_eq!(spills_with(&resources) / MEMORY_PER_PARTITION_BYTE, 10 * MIB);
    assert_eq!(spills_with(&to_store(64 * GIB, store(1000))), MEMORY_BYTES_MIN);
}

/// With an empty `$TMPDIR` the command made its scratch file in the working directory.
#[test]
fn scratch_files_are_in_the_chosen_folder_or_the_usual_one() {
    let folder = |chosen: Option<&str>, tmpdir: Option<&str>| {
        scratch_folder(chosen.map(Into::into), tmpdir.map(Into::into))
    };
    assert_eq!(folder(Some("a"), Some("b")), PathBuf::from("a"));
    assert_eq!(folder(None, Some("b")), PathBuf::from("b"));
    assert_eq!(folder(Some(""), Some("b")), PathBuf::from("b"));
    assert_eq!(folder(None, Some("")), PathBuf::from("/var/tmp"));
    assert_eq!(folder(None, None), PathBuf::from("/var/tmp"));
}

#[test]
fn numbers_are_grouped() {
    let found = [0, 12, 999, 1000, 123_456, 1_234_567].map(grouped);
    assert_eq!(found, ["0", "12", "999", "1,000", "123,456", "1,234,567"]);
}
