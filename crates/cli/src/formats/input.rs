//! Opening a file that is given to the command, and the error when that fails.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::file_type::FileType;

pub(super) fn open(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.metadata()?.is_dir() {
        bail!("{} is a directory", path.display());
    }
    Ok(file)
}

pub(super) fn unreadable(path: &Path, kind: FileType) -> String {
    format!("{} cannot be read as {}", path.display(), kind.key())
}
