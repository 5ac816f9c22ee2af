//! Files below a folder, reached without leaving it.
//!
//! Paths in a skeleton are untrusted, and so is what lies in the folder of data beside it: no
//! symbolic link is followed, and a pipe or a device is not a file of data. Each
//! folder is opened from the one above it, so that what was looked at is what is used.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, mkdirat, open, openat, readlinkat, renameat, renameat_with,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::folder::DRAFT;

/// Access to files that are made, before the user's mask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// And to folders.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// The folder `within` another one. With `make` those that are not there are made.
fn folder(root: &Path, within: &Path, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut at = open(root, flags, Mode::empty())?;
    for part in within.components() {
        let Component::Normal(name) = part else { return Err(leads_out()) };
        if make {
            match mkdirat(&at, name, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(io_error)?;
    }
    Ok(at)
}

/// The folder that something is in, and its name there.
fn place<'a>(root: &Path, within: &'a Path, make: bool) -> io::Result<(OwnedFd, &'a Path)> {
    let (Some(parent), Some(name)) = (within.parent(), within.file_name()) else {
        return Err(leads_out());
    };
    Ok((folder(root, parent, make)?, Path::new(name)))
}

/// Opens a file that is there.
pub(crate) fn open_file(root: &Path, within: &Path, writable: bool) -> io::Result<File> {
    let (parent, name) = place(root, within, false)?;
    let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    // Opening a pipe must not wait for its other end.
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(openat(&parent, name, flags, Mode::empty()).map_err(io_error)?.into())
}

/// Opens a file for reading that a path names, which may lead through links: only files are.
///
/// # Errors
///
/// The system's error, or that it is not a file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(open(path, flags, Mode::empty())?.into())
}

/// Makes a file that is not there yet, and the folders that it is in.
pub(crate) fn create_file(root: &Path, within: &Path) -> io::Result<File> {
    let (parent, name) = place(root, within, true)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(&parent, name, flags, FILE_MODE).map_err(io_error)?.into())
}

/// Opens a file that is there, so that what is written is appended.
pub(crate) fn append_file(root: &Path, within: &Path) -> io::Result<File> {
    let (parent, name) = place(root, within, false)?;
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    regular(openat(&parent, name, flags, Mode::empty()).map_err(io_error)?.into())
}

/// Whether something has a name.
pub(crate) fn is_there(root: &Path, within: &Path) -> bool {
    let found = place(root, within, false)
        .map(|(parent, name)| statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
    found.unwrap_or(false)
}

/// Removes a file, and then the folders that it was in and that are empty now, up to that of the
/// data.
pub(crate) fn remove_file(root: &Path, within: &Path) -> io::Result<()> {
    let (parent, name) = place(root, within, false)?;
    unlinkat(&parent, name, AtFlags::empty())?;
    for folder in within.ancestors().skip(1).take_while(|folder| folder.iter().count() > 2) {
        let (parent, name) = place(root, folder, false)?;
        if unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}

/// Removes a link if it leads to this.
pub(crate) fn unlink(root: &Path, within: &Path, target: &str) -> io::Result<()> {
    let (parent, name) = place(root, within, false)?;
    if readlinkat(&parent, name, Vec::new())?.as_bytes() == target.as_bytes() {
        unlinkat(&parent, name, AtFlags::empty())?;
    }
    Ok(())
}

/// Removes a folder if it is empty.
pub(crate) fn remove_folder(root: &Path, within: &Path) -> io::Result<()> {
    let (parent, name) = place(root, within, false)?;
    Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

/// Makes a folder, and those that it is in; whether there was none.
pub(crate) fn create_folder(root: &Path, within: &Path) -> io::Result<bool> {
    let (parent, name) = place(root, within, true)?;
    match mkdirat(&parent, name, FOLDER_MODE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a symbolic link to something in its own folder, in the place of an earlier link.
pub(crate) fn link(root: &Path, within: &Path, target: &str) -> io::Result<()> {
    let (parent, name) = place(root, within, false)?;
    let draft = format!("{DRAFT}link-{target}");
    symlinkat(target, &parent, &*draft)?;
    renameat(&parent, &*draft, &parent, name).map_err(|error| {
        // The draft has no other name: nothing else can miss it.
        let _ = unlinkat(&parent, &*draft, AtFlags::empty());
        error.into()
    })
}

/// Gives a file another name, which nothing has yet; the folders that it is in are made.
pub(crate) fn rename(root: &Path, old: &Path, new: &Path) -> io::Result<()> {
    let (from, old) = place(root, old, false)?;
    let (to, new) = place(root, new, true)?;
    Ok(renameat_with(&from, old, &to, new, RenameFlags::NOREPLACE)?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a file of data but a pipe or a device",
    ))
}

/// The system's error when it meets a link that is not to be followed.
fn io_error(error: Errno) -> io::Error {
    if matches!(error, Errno::LOOP | Errno::MLINK | Errno::NOTDIR) {
        let text = "a symbolic link leads there, which the connector does not follow: the folder \
                    of data must lie beside the HDF5 file";
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    error.into()
}

fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of the folder")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_made_renamed_and_opened() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let [old, new] = ["x.arrow/draft", "x.arrow/g/y.arrow"].map(Path::new);
        create_file(root, old).expect("made");
        assert!(create_file(root, old).is_err(), "it is there");
        rename(root, old, new).expect("renamed");
        open_file(root, new, true).expect("opened");
        create_file(root, old).expect("made");
        let taken = rename(root, old, new).expect_err("taken");
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            open_file(root, Path::new("x.arrow/n"), false).expect_err("none").kind(),
            io::ErrorKind::NotFound
        );
    }

    /// A file from elsewhere could bring a folder of data that was a link to another one.
    #[test]
    fn no_link_and_no_path_leads_out() {
        let base = tempfile::tempdir().expect("a folder");
        let (root, outside) = (base.path().join("root"), base.path().join("outside"));
        std::fs::create_dir_all(root.join("x.arrow")).expect("folders");
        std::fs::create_dir_all(&outside).expect("a folder");
        std::fs::write(outside.join("y.arrow"), "data").expect("a file");
        symlink(&outside, root.join("z.arrow")).expect("a link");
        symlink(outside.join("y.arrow"), root.join("x.arrow/y.arrow")).expect("a link");
        let ours = Path::new("x.arrow/own");
        create_file(&root, ours).expect("made");
        for wrong in ["z.arrow/y.arrow", "x.arrow/y.arrow", "../outside/y.arrow", "/etc/passwd"] {
            let wrong = Path::new(wrong);
            for writable in [false, true] {
                assert!(open_file(&root, wrong, writable).is_err(), "{}", wrong.display());
            }
            assert!(rename(&root, ours, &wrong.join("n")).is_err(), "{}", wrong.display());
        }
        assert!(create_file(&root, Path::new("z.arrow/new")).is_err());
        assert_eq!(std::fs::read_dir(&outside).expect("listed").count(), 1);
    }

    /// Opening a pipe waited for its other end, without an end.
    #[test]
    fn a_pipe_is_not_a_file() {
        let root = tempfile::tempdir().expect("a folder");
        let pipe = root.path().join("p.arrow");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, FILE_MODE, 0)
            .expect("a pipe");
        assert!(open_file(root.path(), Path::new("p.arrow"), false).is_err());
        assert!(open_regular(&pipe).is_err());
    }
}
