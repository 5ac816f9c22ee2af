//! The certificates of a pool's nodes: an authority that signs them, and the folder in which
//! `plasmon pool init-certs` keeps it.
//!
//! * [`Authority`]: makes certificates and lists of revoked ones, in memory.
//! * [`Folder`]: what was made so far, on a disk.
//!
//! What certificates are for is said by names that are given here; nodes read them, and check them,
//! in `plasmon-net`. There is no unsafe code.
//!
//! ```
//! use plasmon_certs::{Authority, Subject, Validity};
//!
//! let validity = Validity { from: 1_800_000_000, until: 1_900_000_000 };
//! let authority = Authority::make("prod", validity)?;
//! let subject = Subject { name: "a", uri: "plasmon://prod/a" };
//! let issued = authority.issue(&subject, validity)?;
//! assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
//! assert!(issued.key.contains("PRIVATE KEY"));
//! # Ok::<(), plasmon_certs::Error>(())
//! ```

#![forbid(unsafe_code)]

mod authority;
mod folder;
mod records;

use std::io;
use std::path::PathBuf;

pub use authority::{Authority, Issued, Revocation, Serial, Subject, Validity, is_host};
pub use folder::{Folder, Made, Node, SERVER_PREFIX, Server};
pub use records::Record;

/// Why certificates cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library that makes them refuses: change what was asked for.
    #[error("the certificate cannot be made: {0}")]
    Refused(String),
    /// A file of the folder is not what was written there: repair it, or begin in another folder.
    #[error("{}: {why}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No certificate was made for this node or etcd: look for its name in the file `issued`.
    #[error(
        "no certificate that is not revoked was made for {}{node} in {}",
        if node.starts_with(SERVER_PREFIX) { "" } else { "node " },
        folder.display()
    )]
    Unknown {
        /// The name of the node, or [`SERVER_PREFIX`] and a host.
        node: String,
        /// The folder.
        folder: PathBuf,
    },
    /// The file system refuses.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}
