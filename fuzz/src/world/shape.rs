//! What kind of store it is.

use plasmon_store::{Config, Store};
use plasmon_testkit::directory::TestDirectory;

use crate::Input;

/// A store with a spill tier, a log and quotas, or without.
pub(super) fn store(input: &mut Input<'_>, capacity_bytes: u64) -> Store<TestDirectory> {
    let shape = input.byte();
    let (spill_bytes_max, durable) = ((shape % 2 == 0).then_some(64 << 20), shape >= 128);
    let client_quota_bytes = [0, 0, 0, 24 << 20][input.below(4)];
    let config =
        Config { spill_bytes_max, durable, client_quota_bytes, ..Config::new(capacity_bytes) };
    let mut store = Store::new(config, TestDirectory::default());
    if durable {
        store.adopt_log(1, Vec::new(), &mut Vec::new());
    }
    store
}
