//! Whose store a socket leads to.
//!
//! A path alone proves nothing: in a directory that others can write to, another user may have made
//! the socket first and serve anything, also Python objects that run code when they are read.
//! So the daemon's user, as the kernel names it, must be one of these:
//!
//! - the caller's own, or root, which may do everything anyway;
//! - the one that the caller expects ([`crate::ConnectOptions::owner`], `$PLASMON_OWNER`);
//! - the one that the path names: the socket's directory is that user's, and neither the directory
//!   nor any directory above it can be written to by users other than that one, the caller and
//!   root.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plasmon_proto::Code;
use plasmon_shm::socket::Connection;
use plasmon_shm::socket_folder::OTHERS_WRITE;

use crate::error::{Error, Result};

const CONNECTING: &str = "connecting to the store";

const ROOT: u32 = 0;

/// The daemon's user. An error if it is one that the caller has no reason to trust.
pub(crate) fn check_owner(
    socket: &Path,
    connection: &Connection,
    expected: Option<u32>,
) -> Result<u32> {
    let owner = connection.peer().map_err(|error| Error::io(CONNECTING, error))?.uid;
    let own = rustix::process::geteuid().as_raw();
    let expected = expected.or_else(named);
    if is_trusted(owner, own, expected) {
        return Ok(owner);
    }
    let why = match expected {
        Some(expected) => format!("it should belong to user {expected}"),
        None => match distrust(socket, owner, own) {
            Ok(None) => return Ok(owner),
            Ok(Some(why)) => format!(
                "{why}; to use that store, pass the option owner or set \
                 PLASMON_OWNER={owner}"
            ),
            Err(error) => return Err(Error::io(CONNECTING, error)),
        },
    };
    let (path, code) = (socket.display(), Code::NotPermitted);
    let text = format!("the daemon on {path} belongs to user {owner}, not to user {own}: {why}");
    Err(Error::new(code, CONNECTING).with_detail(text))
}

/// The user that `$PLASMON_OWNER` names, for programs without an option for it.
fn named() -> Option<u32> {
    std::env::var("PLASMON_OWNER").ok()?.trim().parse().ok()
}

/// Whether the daemon's user needs no further look.
fn is_trusted(owner: u32, own: u32, expected: Option<u32>) -> bool {
    match expected {
        Some(expected) => owner == expected,
        None => owner == own || owner == ROOT,
    }
}

/// Why the path does not show that the socket is its owner's; `None` when it does.
fn distrust(socket: &Path, owner: u32, own: u32) -> io::Result<Option<String>> {
    let parent = socket.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::canonicalize(parent.unwrap_or(Path::new(".")))?;
    if fs::metadata(&directory)?.uid() != owner {
        return Ok(Some(format!(
            "the directory {} does not belong to that user",
            directory.display()
        )));
    }
    for path in directory.ancestors() {
        if !is_closed(&fs::metadata(path)?, owner, own) {
            return Ok(Some(format!("other users can write to the directory {}", path.display())));
        }
    }
    Ok(None)
}

/// Whether only the caller, root and the store's owner can change what lies in a directory.
fn is_closed(found: &Metadata, owner: u32, own: u32) -> bool {
    [ROOT, owner, own].contains(&found.uid()) && found.mode() & OTHERS_WRITE == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_own_store_roots_and_the_expected_one_are_trusted() {
        for (owner, own, expected, trusted) in [
            (1000, 1000, None, true),
            (0, 1000, None, true),
            (1001, 1000, None, false),
            (1001, 0, None, false),
            (1001, 1000, Some(1001), true),
            // Named wrongly is not trusted, also when it is one's own.
            (1000, 1000, Some(1001), false),
            (0, 1000, Some(1001), false),
        ] {
            assert_eq!(is_trusted(owner, own, expected), trusted, "{owner} {own} {expected:?}");
        }
    }

    #[test]
    fn a_directory_is_closed_when_only_its_owner_can_write() {
        let directory = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let is_closed = |mode, owner, own| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            is_closed(&fs::metadata(directory.path()).unwrap(), owner, own)
        };
        for closed in [0o700, 0o711, 0o755, 0o2755] {
            assert!(
                is_closed(closed, own, own + 1) && is_closed(closed, own + 1, own),
                "{closed:o}"
            );
        }
        for open in [0o720, 0o702, 0o775, 0o1777] {
            assert!(!is_closed(open, own, own), "{open:o}");
        }
    }

    #[test]
    fn a_path_that_others_can_change_shows_nothing() {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let own = rustix::process::geteuid().as_raw();
        let why = |owner, path: &str| distrust(&directory.path().join(path), owner, own);
        let found = why(own, "store.sock").unwrap().unwrap();
        assert!(found.ends_with("write to the directory /tmp"), "{found}");
        assert!(
            why(own + 1, "store.sock").unwrap().unwrap().contains("does not belong to that user")
        );
        assert!(why(own, "gone/store.sock").is_err());
    }
}
