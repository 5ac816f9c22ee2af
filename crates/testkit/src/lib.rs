//! What the tests of several crates share: random numbers, waiting with an end, programs of this
//! workspace, a store with a real daemon, child processes, an etcd, and the index of the store as a
//! map.
//!
//! ```
//! let mut random = plasmon_testkit::Random::new(7);
//! assert!(random.below(6) < 6);
//! ```

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a test, although it is no #[test]"
)]

#[cfg(feature = "store")]
mod child;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "store")]
mod mapped;
#[cfg(feature = "process")]
mod process;
mod random;
#[cfg(feature = "store")]
mod store;

use std::time::{Duration, Instant};

#[cfg(feature = "store")]
pub use child::{ChildProcess, errand, hear, say};
#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdTls};
#[cfg(feature = "store")]
pub use mapped::{mapped_inode, mappings_of, present_bytes};
#[cfg(feature = "directory")]
pub use plasmon_store::doubles as directory;
#[cfg(feature = "process")]
pub use process::*;
pub use random::{Random, mix, pattern};
#[cfg(feature = "store")]
pub use store::TestStore;

/// The longest that anything in a test may take; far more than it does on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::yield_now();
    }
}
