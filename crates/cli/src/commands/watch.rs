//! `plasmon watch`: what happens to objects, a line each.

use anyhow::Result;
use plasmon_client::{Notification, Store};
use plasmon_proto::message::Filter;
use serde_json::json;

use crate::output::{Output, bytes};

/// Prints notices until `count` of them were printed, or for ever.
pub(super) fn watch(
    store: &Store,
    filter: &Filter,
    count: Option<u64>,
    output: &Output,
) -> Result<()> {
    let mut subscription = store.subscribe(filter)?;
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        match subscription.next(None)? {
            Some(Notification::Notice(notice)) => {
                let document = json!({
                    "id": notice.id.to_string(), "state": notice.state.key(),
                    "data_bytes": notice.data_bytes, "metadata_bytes": notice.metadata_bytes,
                });
                output.value(&document, || {
                    let size = bytes(notice.data_bytes + notice.metadata_bytes);
                    format!("{:<9} {} {size:>10}", notice.state.key(), notice.id)
                })?;
                printed += 1;
            }
            Some(Notification::Lost(lost)) => {
                output.value(&json!({ "lost": lost }), || {
                    format!("{lost} notices were lost: this reader was too slow")
                })?;
            }
            None => {}
        }
    }
    Ok(())
}
