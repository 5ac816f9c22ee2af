//! Where the store's socket is when nobody says so, and who may have made that folder.
//!
//! The client library looks in the same place:
//!
//! 1. `$XDG_RUNTIME_DIR/plasmon/store.sock`
//! 2. `$TMPDIR/plasmon-UID/store.sock`, with `/tmp` for a missing `TMPDIR`
//!
//! The folder is made with mode 0700. One that exists must belong to this user and be closed to
//! others, or a stranger could put a socket of his own there.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket: `sun_path` has 108 bytes and ends in a zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

const SOCKET_NAME: &str = "store.sock";

/// The socket of this user's store.
pub fn default_socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    match runtime {
        Some(runtime) => Path::new(&runtime).join("plasmon").join(SOCKET_NAME),
        None => {
            let uid = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("plasmon-{uid}")).join(SOCKET_NAME)
        }
    }
}

/// Makes the socket's folder where it is missing. The default folder must be this user's own; a
/// folder that somebody chose by a setting is that person's business.
pub fn prepare(socket: &Path) -> io::Result<()> {
    let Some(folder) = socket.parent() else {
        return Ok(());
    };
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if socket == default_socket() { check_owner(folder) } else { Ok(()) }
}

fn check_owner(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let own = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let text =
        format!("{} must be a folder of this user that nobody else may write to", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
