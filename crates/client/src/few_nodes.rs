//! What a pool lacks that refuses an object for want of nodes.

use std::path::Path;

use plasmon_proto::Code;

use crate::error::Error;
use crate::pool;

/// Adds to such a refusal how many nodes the object needs, and how many the pool has. Any other
/// error stays as it is.
pub(crate) fn explain(store: &Path, copies_min: Option<u8>, error: Error) -> Error {
    if error.code() != Code::NotEnoughNodes {
        return error;
    }
    // Without an answer the refusal is still told.
    let live = pool::status(store).ok();
    let live = live.map(|status| status.nodes_live.saturating_sub(status.nodes_draining));
    let Some(said) = sentence(copies_min, live) else { return error };
    let detail = match error.detail() {
        "" => said,
        before => format!("{before}: {said}"),
    };
    error.with_detail(detail)
}

fn sentence(copies_min: Option<u8>, live: Option<u32>) -> Option<String> {
    let needed = copies_min.map(|copies| format!("it needs {} at least", count(copies.into())));
    let found = live.map(|live| format!("the pool has {} for copies now", count(live)));
    let all: Vec<String> = needed.into_iter().chain(found).collect();
    (!all.is_empty()).then(|| all.join(", and "))
}

fn count(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_said_as_is_known() {
        let cases = [
            (Some(2), Some(1), "it needs 2 nodes at least, and the pool has 1 node for"),
            (Some(1), None, "it needs 1 node at least"),
            (None, Some(0), "the pool has 0 nodes for"),
        ];
        for (copies_min, live, expected) in cases {
            let said = sentence(copies_min, live).unwrap();
            assert!(said.starts_with(expected), "{said}");
        }
        assert_eq!(sentence(None, None), None);
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let other = Error::new(Code::StoreFull, "putting object").with_detail("it is full");
        let before = other.to_string();
        let after = explain(Path::new("/nonexistent/store.sock"), Some(2), other);
        assert_eq!(after.to_string(), before);
        // Nothing answers there.
        let few = Error::new(Code::NotEnoughNodes, "putting object");
        let said = explain(Path::new("/nonexistent/store.sock"), Some(2), few).to_string();
        assert!(
            said.contains("fewer live nodes than the object needs: it needs 2 nodes"),
            "{said}"
        );
    }
}
