//! What becomes of the node when the log of its store fails.

use super::Core;

impl Core {
    /// The other nodes are to count no durable copies here, and to ask for none.
    pub(super) fn log_failed(&self) {
        tracing::error!(
            "the log of durable objects has failed: other nodes keep them now; `plasmon status` \
             says why, and a new start of the store tries again"
        );
        self.membership.log_failed();
    }
}
