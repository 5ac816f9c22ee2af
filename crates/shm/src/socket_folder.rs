//! Where the store's socket is when no setting names it, and which folder is safe for it.
//!
//! 1. `$XDG_RUNTIME_DIR/plasmon/store.sock`
//! 2. `$TMPDIR/plasmon-UID/store.sock`, with `/tmp` for a missing `TMPDIR`
//!
//! The daemon and its clients ask here, so that a folder that one of them takes is right for the
//! other. The folder is made with mode 0700. One that exists must belong to the effective user of
//! this process, and no other user may write to it, or a stranger could put a socket there. Others
//! may pass through it: a store can admit them.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket: `sun_path` has 108 bytes and ends in a zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

const SOCKET_NAME: &str = "store.sock";

/// The bits of a mode that let the group and others write.
pub const OTHERS_WRITE: u32 = 0o022;

/// The socket of this user's store, in a folder that nothing has checked yet.
pub fn default_socket() -> PathBuf {
    match runtime_folder() {
        Some(runtime) => runtime.join("plasmon").join(SOCKET_NAME),
        None => {
            let uid = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("plasmon-{uid}")).join(SOCKET_NAME)
        }
    }
}

/// The folder that the login session gives this user, in which only this user can make another.
pub fn runtime_folder() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Makes the folder of a daemon's socket where it is missing. The default folder must be safe; one
/// that a setting names is as the user of that setting wants it.
pub fn prepare(socket: &Path) -> io::Result<()> {
    make(socket)?;
    if socket == default_socket() { check(socket) } else { Ok(()) }
}

/// Makes the socket's folder where it is missing, for this user alone.
pub fn make(socket: &Path) -> io::Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Refuses a folder that another user made or may write to, with
/// [`io::ErrorKind::PermissionDenied`]: the socket in it could be a trap.
pub fn check(socket: &Path) -> io::Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    let found = fs::symlink_metadata(folder)?;
    let uid = rustix::process::geteuid().as_raw();
    if found.is_dir() && found.uid() == uid && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let text = format!(
        "{} must be a directory of user {uid} that no other user may write to; remove it or set \
         PLASMON_SOCKET",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let socket = base.path().join("store").join(SOCKET_NAME);
        assert_eq!(check(&socket).unwrap_err().kind(), io::ErrorKind::NotFound);
        make(&socket).unwrap();
        make(&socket).unwrap();
        let folder = socket.parent().unwrap();
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
        let safe = |mode| {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            check(&socket).is_ok()
        };
        assert_eq!([0o700, 0o710, 0o750, 0o711, 0o755].map(safe), [true; 5]);
        assert_eq!([0o720, 0o770, 0o702, 0o777, 0o1777].map(safe), [false; 5]);
        assert!(safe(0o700));
        let link = base.path().join("link");
        symlink(folder, &link).unwrap();
        let refused = check(&link.join(SOCKET_NAME)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("link must be a directory"), "{refused}");
    }
}
