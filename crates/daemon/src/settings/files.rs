//! The files that the settings of a pool name. The pool daemon reads them; here it is checked that
//! it can, so that a mistake is an error of the start.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::bad_start::BadStart;

/// Checks that the files of these settings can be read, and that keys are for their owner alone.
pub(super) fn check(files: &[(&'static str, Option<&Path>)]) -> Result<(), BadStart> {
    for (setting, file) in files {
        let Some(file) = file else { continue };
        let found = look(file, setting.ends_with("_key"));
        found.map_err(|problem| wrong(setting, file, &problem))?;
    }
    Ok(())
}

/// That the file of a setting cannot be used.
pub(super) fn wrong(setting: &'static str, file: &Path, problem: &str) -> BadStart {
    BadStart::Value { key: setting, what: format!("{} {problem}", file.display()) }
}

/// Looks at a file: what it is, or what is wrong with it.
pub(super) fn look(file: &Path, is_secret: bool) -> Result<Metadata, String> {
    let found = fs::metadata(file).map_err(|error| unreadable(&error))?;
    if !found.is_file() {
        return Err("is not a file".to_owned());
    }
    if is_secret {
        check_owner(&found)?;
    }
    File::open(file).map_err(|error| unreadable(&error))?;
    Ok(found)
}

/// Checks that a file is for this user alone.
fn check_owner(found: &Metadata) -> Result<(), String> {
    if plasmon_secrets::is_open_to_others(found) {
        let mode = found.permissions().mode() & 0o777;
        return Err(format!("has mode {mode:04o}, so other users may use it: chmod 600"));
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(format!("belongs to user {}, not to this one, {own}", found.uid()));
    }
    Ok(())
}

/// That a file cannot be read.
pub(super) fn unreadable(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}
