//! Why remote memory cannot be written, or cannot be written now.

use crate::version::Version;

/// Why a call did not do what it was asked to. The pool's own lanes do it instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no libfabric: install it (Debian: `libfabric1`), or go on without.
    #[error("libfabric is not installed: {reason}")]
    NoLibrary {
        /// What the loader says.
        reason: String,
    },
    /// The library is too old: install a later one.
    #[error("libfabric {found} is too old: 1.17 or later is needed")]
    OldLibrary {
        /// Its version.
        found: Version,
    },
    /// The provider has no endpoint here that can do what is needed: choose another.
    #[error("provider {provider} cannot be used here: {reason}")]
    NoProvider {
        /// The provider.
        provider: String,
        /// Why.
        reason: String,
    },
    /// A write into this process's own memory did not arrive: choose another provider.
    #[error("the self-test of provider {provider} failed: {reason}")]
    SelfTest {
        /// The provider.
        provider: String,
        /// What happened.
        reason: String,
    },
    /// A call of libfabric failed.
    #[error("{call}: {message} (error {code})")]
    Call {
        /// The call.
        call: &'static str,
        /// The error's number.
        code: i32,
        /// What libfabric says of it.
        message: String,
    },
    /// A peer said something else than the name of an endpoint of this provider.
    #[error("a peer gave {bytes} bytes that are not the name of an endpoint")]
    BadName {
        /// How many bytes it gave.
        bytes: usize,
    },
    /// As many peers are known as may be.
    #[error("{PEERS_MAX} endpoints are known already")]
    Peers,
    /// A write would leave its window, or its source: a bug of the caller.
    #[error("a write of {bytes} bytes at {offset} does not fit the {window_bytes} of its window")]
    Bounds {
        /// Where it would begin in the window.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// The bytes of the window.
        window_bytes: u64,
    },
    /// Writes are made faster than they end: try again after one has.
    #[error("{WRITES_MAX} writes are under way already")]
    Busy,
    /// A call of the provider does not end: the process has to.
    #[error("the provider does not answer, and its endpoint cannot be closed")]
    Stuck,
    /// The endpoint was closed, and its windows with it.
    #[error("the endpoint is closed")]
    Closed,
}

/// Endpoints that one endpoint writes to at most: the nodes of a pool, several times over, for each
/// has another one after each start.
pub const PEERS_MAX: usize = 4096;

/// Writes that one endpoint has under way, or waiting, at most.
pub const WRITES_MAX: usize = 1024;

impl Error {
    /// Whether the call may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Busy)
    }
}
