//! The folder of a skeleton's data on the disk.
//!
//! ```text
//! out.h5                                    the skeleton
//! out.h5.arrow/                             everything that was written for files of that name
//!   3f2a91c07b5de412/manifest               whose data it is (manifest)
//!   3f2a91c07b5de412/run1/x.arrow           the data
//!   latest -> 3f2a91c07b5de412              that of the file that was made last
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, StatxFlags, flock, statx};
use rustix::io::Errno;

use crate::contained_paths;
use crate::data_id::Mark;
use crate::file_names::data_directory;
use crate::folder::DRAFT;
use crate::identity::Identity;
use crate::manifest::{Entry, Manifest, Owner};

/// The name of a manifest.
const MANIFEST: &str = "manifest";
/// The link to the data that was made last.
const LATEST: &str = "latest";
/// The largest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// The longest line of a manifest: the longest path, in hexadecimal.
const LINE_BYTES_MAX: u64 = 1 << 16;
/// How many numbers are drawn for a folder at most.
const DRAWS: usize = 8;

/// How often to ask for data that is being cleaned up, and how long to wait in between.
const HOLD_TRIES: u32 = 200;
const HOLD_PAUSE: Duration = Duration::from_millis(10);

/// Marks data that a program writes, as long as it is there. It ends with the process at the
/// latest, however that ends.
#[derive(Debug)]
pub struct Hold {
    _manifest: File,
}

/// Some data on the disk.
#[derive(Clone, Debug)]
pub struct Home {
    /// The skeleton's folder.
    root: PathBuf,
    /// The folder of the data, from there.
    within: PathBuf,
}

impl Home {
    /// Makes the folder of new data beside a skeleton, with its manifest. It is complete before it
    /// is found under its name.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn create(skeleton: &Path) -> io::Result<(Self, Identity, Hold)> {
        let (root, name) = split(skeleton)?;
        let folder = data_directory(name);
        let text = folder.to_str().ok_or_else(|| wrong("the file's name is not UTF-8"))?;
        let owner = owner(skeleton)?;
        for _ in 0..DRAWS {
            let (data, generation) = (draw()?, draw()?);
            let within = Path::new(&folder).join(data.to_string());
            if !contained_paths::create_folder(root, &within)? {
                continue;
            }
            let home = Self { root: root.to_owned(), within };
            let hold = home.begin(data, generation, owner.clone())?;
            // A link for people: without it the data is found all the same.
            let _ =
                contained_paths::link(root, &Path::new(&folder).join(LATEST), &data.to_string());
            return Ok((home, Identity { folder: text.to_owned(), data, generation }, hold));
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn begin(&self, data: Mark, generation: Mark, owner: Owner) -> io::Result<Hold> {
        let (draft, manifest) = (self.within.join(format!("{DRAFT}manifest")), self.manifest());
        let mut file = contained_paths::create_file(&self.root, &draft)?;
        let home = file.metadata()?.ino();
        let known = Manifest {
            data,
            owner,
            home,
            generation,
            next: None,
            files: [].into(),
            objects: None,
            stores: [].into(),
            lines: 0,
        };
        file.write_all(known.to_text().as_bytes())?;
        let hold = hold(file)?;
        contained_paths::rename(&self.root, &draft, &manifest)?;
        Ok(hold)
    }

    /// Holds the data for a program that is about to write it: what cleans up leaves it as it is.
    ///
    /// # Errors
    ///
    /// The system's error, or that the data is being cleaned up and that does not end.
    pub fn hold(&self) -> io::Result<Hold> {
        hold(contained_paths::open_file(&self.root, &self.manifest(), false)?)
    }

    /// The data that a skeleton belongs to: in the folder that it was made in, or in the one that
    /// is called after the skeleton now. `None` when it is not there.
    ///
    /// # Errors
    ///
    /// The system's error, or what is wrong with the manifest.
    pub fn find(skeleton: &Path, identity: &Identity) -> io::Result<Option<(Self, Manifest)>> {
        let (root, name) = split(skeleton)?;
        let renamed = Path::new(&data_directory(name)).join(identity.data.to_string());
        let mut found = None;
        for within in [identity.within(), renamed] {
            let home = Self { root: root.to_owned(), within };
            match home.read() {
                Ok(manifest) if manifest.data == identity.data => {
                    return Ok(Some((home, manifest)));
                }
                Ok(_) => found = Some(wrong("the manifest belongs to other data")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found = Some(error),
            }
        }
        found.map_or(Ok(None), Err)
    }

    /// The manifest as it is now.
    ///
    /// # Errors
    ///
    /// The system's error, or what is wrong with the text.
    pub fn read(&self) -> io::Result<Manifest> {
        let file = contained_paths::open_file(&self.root, &self.manifest(), false)?;
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| wrong("the manifest is not UTF-8"))?;
        Manifest::parse(&text).map_err(|why| {
            let path = self.root.join(self.manifest());
            wrong(&format!("{} is damaged: {why}", path.display()))
        })
    }

    /// Adds lines to the manifest, all of them or none.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn add(&self, entries: &[Entry]) -> io::Result<()> {
        let text: String = entries.iter().map(Entry::to_line).collect();
        let mut file = contained_paths::append_file(&self.root, &self.manifest())?;
        let before = whole_lines(&file)?;
        file.set_len(before)?;
        let added = file.write_all(text.as_bytes());
        if added.is_err() {
            // Part of a line must not become the beginning of the next one.
            let _ = file.set_len(before);
        }
        added
    }

    /// Removes the files that were written, the manifest and the folders that are empty then. What
    /// else lies there stays.
    ///
    /// # Errors
    ///
    /// The system's error; a file that is not there is none.
    pub fn remove(&self) -> io::Result<()> {
        for file in &self.read()?.files {
            match contained_paths::remove_file(&self.root, &self.within.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        contained_paths::remove_file(&self.root, &self.manifest())?;
        let (folder, data) = (self.within.parent(), self.within.file_name());
        contained_paths::remove_folder(&self.root, &self.within)?;
        if let Some((folder, data)) = folder.zip(data.and_then(OsStr::to_str)) {
            let _ = contained_paths::unlink(&self.root, &folder.join(LATEST), data);
            // Only an empty folder can be removed; any other stays.
            let _ = contained_paths::remove_folder(&self.root, folder);
        }
        Ok(())
    }

    /// The skeleton's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the data, from the skeleton's.
    #[must_use]
    pub fn within(&self) -> &Path {
        &self.within
    }

    /// The inode that the manifest is in.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(contained_paths::open_file(&self.root, &self.manifest(), false)?.metadata()?.ino())
    }

    fn manifest(&self) -> PathBuf {
        self.within.join(MANIFEST)
    }
}

/// Takes the lock of a program that writes some data; any number of them may.
fn hold(manifest: File) -> io::Result<Hold> {
    for _ in 0..HOLD_TRIES {
        match flock(&manifest, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(HOLD_PAUSE),
            // A file system without locks: there nothing is cleaned up in data that is needed.
            _ => return Ok(Hold { _manifest: manifest }),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "plasmon hdf5 gc is cleaning up the data; try again when it has ended",
    ))
}

/// How many bytes of a text are whole lines: a process that was killed may have begun another one.
fn whole_lines(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut tail = vec![0; usize::try_from(length.min(LINE_BYTES_MAX)).unwrap_or(0)];
    let start = length - tail.len() as u64;
    file.read_exact_at(&mut tail, start)?;
    let end = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Ok(start + end as u64)
}

/// The identity of a skeleton.
///
/// # Errors
///
/// The system's error.
pub fn owner(skeleton: &Path) -> io::Result<Owner> {
    let (_, name) = split(skeleton)?;
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(CWD, skeleton, AtFlags::empty(), wanted)?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let birth = found.stx_btime;
    let seconds = u64::try_from(birth.tv_sec).unwrap_or(0);
    let birth = seconds.wrapping_mul(1_000_000_000).wrapping_add(birth.tv_nsec.into());
    let birth = if has_birth { birth } else { 0 };
    Ok(Owner { inode: found.stx_ino, birth, name: name.as_bytes().to_vec() })
}

/// The file in a skeleton's folder that is recorded as the owner of data, whatever it is called.
///
/// # Errors
///
/// The system's error.
pub fn find_owner(skeleton: &Path, recorded: &Owner) -> io::Result<Option<PathBuf>> {
    let (root, _) = split(skeleton)?;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if std::os::unix::fs::DirEntryExt::ino(&entry) == recorded.inode
            && owner(&entry.path()).is_ok_and(|found| found.is(recorded))
        {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// A number drawn at random.
///
/// # Errors
///
/// The system's error.
pub fn draw() -> io::Result<Mark> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Mark(u64::from_le_bytes(bytes)))
}

fn split(skeleton: &Path) -> io::Result<(&Path, &OsStr)> {
    skeleton.parent().zip(skeleton.file_name()).ok_or_else(|| wrong("the file has no name"))
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        folder: tempfile::TempDir,
        skeleton: PathBuf,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let skeleton = folder.path().join("out.h5");
        std::fs::write(&skeleton, "skeleton").expect("a file");
        Fixture { folder, skeleton }
    }

    #[test]
    fn data_is_found_where_it_was_made_and_where_it_was_moved_with_its_file() {
        let Fixture { folder, skeleton } = fixture();
        let (home, identity, _) = Home::create(&skeleton).expect("made");
        let latest = folder.path().join("out.h5.arrow/latest/manifest");
        assert!(latest.exists());
        let (_, manifest) = Home::find(&skeleton, &identity).expect("read").expect("there");
        assert!(manifest.fits(identity.generation) && manifest.home == home.inode().expect("it"));
        assert!(manifest.owner.is(&owner(&skeleton).expect("known")));
        let renamed = folder.path().join("new.h5");
        std::fs::rename(&skeleton, &renamed).expect("renamed");
        assert!(Home::find(&renamed, &identity).expect("read").is_some());
        assert!(find_owner(&renamed, &manifest.owner).expect("listed").is_some());
        let data = folder.path().join("new.h5.arrow");
        std::fs::rename(folder.path().join("out.h5.arrow"), &data).expect("renamed");
        assert!(Home::find(&renamed, &identity).expect("read").is_some());
        std::fs::remove_dir_all(&data).expect("removed");
        assert!(Home::find(&renamed, &identity).expect("read").is_none());
        std::fs::remove_file(&renamed).expect("removed");
        std::fs::write(&skeleton, "another one").expect("a file");
        assert!(find_owner(&skeleton, &manifest.owner).expect("listed").is_none());
    }

    #[test]
    fn data_is_held_until_the_last_writer_has_ended() {
        let Fixture { folder, skeleton } = fixture();
        let (home, _, first) = Home::create(&skeleton).expect("made");
        let manifest = File::open(folder.path().join(home.within()).join("manifest"));
        let manifest = manifest.expect("there");
        let alone = || flock(&manifest, FlockOperation::NonBlockingLockExclusive);
        let second = home.hold().expect("held");
        assert_eq!(alone(), Err(Errno::WOULDBLOCK));
        drop(first);
        assert_eq!(alone(), Err(Errno::WOULDBLOCK));
        drop(second);
        assert_eq!(alone(), Ok(()));
        let cleaned = home.hold().expect_err("the data is being cleaned up");
        assert_eq!(cleaned.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn each_file_gets_its_own_data() {
        let Fixture { folder, skeleton } = fixture();
        let (first, identity, _) = Home::create(&skeleton).expect("made");
        let (second, other, _) = Home::create(&skeleton).expect("made");
        assert!(first.within() != second.within() && identity != other);
        first.add(&[Entry::Made("x.arrow".to_owned())]).expect("added");
        assert!(first.read().expect("read").files.contains("x.arrow"));
        assert!(second.read().expect("read").files.is_empty());
        let manifest = folder.path().join(first.within()).join("manifest");
        let whole = std::fs::read(&manifest).expect("read");
        std::fs::write(&manifest, [&whole[..], b"made y.ar"].concat()).expect("written");
        first.add(&[Entry::Made("z.arrow".to_owned())]).expect("added");
        let files = first.read().expect("read").files;
        assert!(files.contains("x.arrow") && files.contains("z.arrow") && files.len() == 2);
        // What lies under the number is another file's: a folder was copied over it.
        let [first, second] = [first, second].map(|home| folder.path().join(home.within()));
        std::fs::copy(second.join("manifest"), first.join("manifest")).expect("copied");
        assert!(Home::find(&skeleton, &identity).is_err());
    }
}
