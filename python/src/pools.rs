//! The memory pools of this process, listed so that a put finds the one that a table's buffers lie
//! in.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use plasmon_client::{ObjectId, PutOptions};
use plasmon_columns::Pool;

static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// Lists a pool for as long as it exists.
pub(crate) fn add(pool: &Arc<Pool>) {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|pool| pool.strong_count() > 0);
    pools.push(Arc::downgrade(pool));
}

/// Puts a table: shared when it lies in a pool of this store, else copied.
pub(crate) fn put(
    store: &plasmon_client::Client,
    table: plasmon_columns::Table<'_>,
    options: &PutOptions,
) -> plasmon_columns::Result<ObjectId> {
    let pools: Vec<_> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    };
    let here = pools.iter().filter(|pool| pool.store().socket() == store.socket());
    plasmon_columns::put(store, here.map(|pool| &**pool), table, options).map(|shared| shared.id)
}
