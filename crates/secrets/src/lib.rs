//! The files that connections are made safe with: keys and tokens, which their owner alone may use,
//! and certificates, which every user may read.
//!
//! * [`read`]: a file that is no secret.
//! * [`read_secret`]: a file that is refused where other users may do anything with it.
//! * [`is_open_to_others`]: the same rule, for a file that is only looked at.
//!
//! What is in the files is checked by the crates that use it. There is no unsafe code.
//!
//! ```
//! use std::fs::{self, Permissions};
//! use std::os::unix::fs::PermissionsExt;
//!
//! let folder = tempfile::tempdir()?;
//! let token = folder.path().join("token");
//! fs::write(&token, "0123456789abcdef")?;
//! fs::set_permissions(&token, Permissions::from_mode(0o600))?;
//! assert_eq!(plasmon_secrets::read_secret(&token, "token")?, b"0123456789abcdef");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The bytes of a file that are read; what comes after them is cut off.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The bits of a mode that let the group and others do anything.
const OTHERS: u32 = 0o077;

/// Why a secret is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not for its owner alone: change its mode.
    #[error("other users may read the {what}: chmod 600 it")]
    OpenToOthers {
        /// What the secret is, such as a key.
        what: &'static str,
    },
}

/// The content of a file that every user may read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    Ok(read_with_metadata(path)?.1)
}

/// The content of a file that its owner alone may use; `what` is what the secret is called in the
/// error.
pub fn read_secret(path: &Path, what: &'static str) -> Result<Vec<u8>, Error> {
    let (found, content) = read_with_metadata(path)?;
    if is_open_to_others(&found) {
        return Err(Error::OpenToOthers { what });
    }
    Ok(content)
}

/// Whether users other than its owner may do anything with a file.
pub fn is_open_to_others(found: &Metadata) -> bool {
    found.permissions().mode() & OTHERS != 0
}

fn read_with_metadata(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
    Ok((found, content))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_secret_is_read_if_its_owner_alone_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "x").unwrap();
        let read_as = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_secret(&path, "key").map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o600, 0o700] {
            assert_eq!(read_as(mode), Ok(b"x".to_vec()), "{mode:o}");
        }
        let refused = "other users may read the key: chmod 600 it";
        for bit in 0..6 {
            assert_eq!(read_as(0o600 | 1 << bit), Err(refused.to_owned()), "{bit}");
        }
        assert_eq!(read(&path).unwrap(), b"x", "what is no secret is read in any case");
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_what_is_too_long_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let kind = |error: Error| match error {
            Error::Io(error) => Some(error.kind()),
            Error::OpenToOthers { .. } => None,
        };
        let missing = read_secret(&path, "key").map_err(kind);
        assert_eq!(missing, Err(Some(io::ErrorKind::NotFound)));
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        for bytes in [FILE_BYTES_MAX, FILE_BYTES_MAX + 1] {
            fs::write(&path, vec![0; bytes as usize]).unwrap();
            assert_eq!(read(&path).unwrap().len() as u64, FILE_BYTES_MAX);
        }
    }
}
