//! What a node keeps on its disk: its uuid, the pool that it belongs to, and its last lease.
//!
//! ```text
//! FOLDER/lock    locked while a pool daemon runs for this node
//! FOLDER/node    uuid, name, and, once it has joined, the id of the cluster
//! FOLDER/lease   the lease of the last start, and the machine and the file that it was written on
//! ```
//!
//! A pool daemon that starts ends the lease of the start before, so that the pool need not wait for
//! its end. That is right only where the earlier process is gone for certain: the lock says so, but
//! not for a folder that was copied, nor for one on another machine. Such a lease is left alone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plasmon_cluster::NodeUuid;
use plasmon_etcd::LeaseId;
use rustix::fs::{FlockOperation, flock};

use crate::random::random;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another pool daemon uses it: stop that one, or choose another folder.
    #[error("another pool daemon runs for the node in {}", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of it is damaged: remove it, and the node is a new one.
    #[error("{} is damaged; without it the node joins as a new one", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// The node belongs to another cluster, or etcd has lost its data: choose another folder.
    #[error(
        "the node in {} belongs to another cluster of this name, or etcd has lost its data; \
         without the folder it joins as a new one",
        folder.display()
    )]
    OtherCluster {
        /// The folder.
        folder: PathBuf,
    },
    /// The file system says no.
    #[error("{}: {error}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The identity of this node. One process at a time has it.
#[derive(Debug)]
pub struct Identity {
    folder: PathBuf,
    lock: File,
    uuid: NodeUuid,
    name: String,
    cluster: Option<[u8; 16]>,
}

impl Identity {
    /// Opens the folder of a node, or makes it with a new uuid. Another `name` than before renames
    /// the node.
    pub fn open(folder: &Path, name: &str) -> Result<Self, Error> {
        let failed = |file: &Path| io_error(file.to_owned());
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::Locked { folder: folder.to_owned() });
            }
            Err(error) => return Err(io_error(path)(error.into())),
        }
        let path = folder.join("node");
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let identity = match fs::read_to_string(&path) {
            Ok(text) => {
                let (uuid, cluster) = parse_node(&text).ok_or(Error::Damaged { file: path })?;
                let identity = Self { folder, lock, uuid, name, cluster };
                if identity.text() == text {
                    // A disk that takes nothing is in the way of a new node alone.
                    return Ok(identity);
                }
                identity
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let uuid = NodeUuid(random().map_err(io_error(path))?);
                Self { folder, lock, uuid, name, cluster: None }
            }
            Err(error) => return Err(io_error(path)(error)),
        };
        identity.write_node()?;
        Ok(identity)
    }

    /// The uuid.
    pub fn uuid(&self) -> NodeUuid {
        self.uuid
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records the cluster that the node joins; an error when it belongs to another one.
    pub fn join(&mut self, cluster: [u8; 16]) -> Result<(), Error> {
        match self.cluster {
            Some(known) if known == cluster => Ok(()),
            Some(_) => Err(Error::OtherCluster { folder: self.folder.clone() }),
            None => {
                self.cluster = Some(cluster);
                self.write_node()
            }
        }
    }

    fn write_node(&self) -> Result<(), Error> {
        self.replace("node", &self.text())
    }

    /// What the file `node` is to say.
    fn text(&self) -> String {
        let cluster = self.cluster.map(hex).unwrap_or_default();
        format!("uuid {}\nname {}\ncluster {cluster}\n", self.uuid, self.name)
    }

    /// The lease of the last start of this node, if it is certain that its process is gone.
    pub fn last_lease(&self) -> Option<LeaseId> {
        let text = fs::read_to_string(self.folder.join("lease")).ok()?;
        let (lease, place) = text.trim_end().split_once(' ')?;
        let here = self.place()?;
        (place == here).then(|| lease.parse().ok().map(LeaseId))?
    }

    /// Records the lease of this start.
    pub fn write_lease(&self, lease: LeaseId) -> Result<(), Error> {
        // Without knowing the place the next start leaves the lease alone.
        let place = self.place().unwrap_or_default();
        self.replace("lease", &format!("{} {place}\n", lease.0))
    }

    /// This start of the machine, and the locked file.
    fn place(&self) -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let file = self.lock.metadata().ok()?;
        Some(format!("{} {} {}", boot.trim(), file.dev(), file.ino()))
    }

    /// Writes a file so that after a crash there is the old one or the new one.
    fn replace(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let draft = self.folder.join(format!("{name}.new"));
        let write = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(io_error(path.clone()))
    }
}

fn io_error(file: PathBuf) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io { file, error }
}

fn parse_node(text: &str) -> Option<(NodeUuid, Option<[u8; 16]>)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let uuid = unhex(field("uuid ")?)?;
    let cluster = field("cluster ")?;
    let cluster = if cluster.is_empty() { None } else { Some(unhex(cluster)?) };
    Some((NodeUuid(uuid), cluster))
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    text.parse().ok().map(|NodeUuid(bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_what_it_is_and_has_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Identity::open(folder.path(), "a").unwrap();
        let uuid = first.uuid();
        let second = Identity::open(folder.path(), "a");
        assert!(matches!(second, Err(Error::Locked { .. })));
        first.join([7; 16]).unwrap();
        first.write_lease(LeaseId(-5)).unwrap();
        drop(first);
        let mut again = Identity::open(folder.path(), "b").unwrap();
        assert_eq!((again.uuid(), again.name()), (uuid, "b"));
        assert_eq!(again.last_lease(), Some(LeaseId(-5)));
        again.join([7; 16]).unwrap();
        assert!(matches!(again.join([8; 16]), Err(Error::OtherCluster { .. })));
    }

    /// A pool daemon did not start again while its disk was full: it wrote what was there already.
    #[test]
    fn a_node_that_is_there_needs_no_room_on_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Identity::open(folder.path(), "a").unwrap();
        first.join([7; 16]).unwrap();
        let uuid = first.uuid();
        drop(first);
        // No file can be made where there is a folder.
        fs::create_dir(folder.path().join("node.new")).unwrap();
        let mut again = Identity::open(folder.path(), "a").unwrap();
        assert_eq!(again.uuid(), uuid);
        again.join([7; 16]).unwrap();
        drop(again);
        assert!(matches!(Identity::open(folder.path(), "b"), Err(Error::Io { .. })));
    }

    #[test]
    fn the_lease_in_a_copied_folder_is_left_alone() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let original = Identity::open(folder.path(), "a").unwrap();
        original.write_lease(LeaseId(5)).unwrap();
        for name in ["node", "lease"] {
            fs::copy(folder.path().join(name), other.path().join(name)).unwrap();
        }
        let copy = Identity::open(other.path(), "a").unwrap();
        assert_eq!((copy.uuid(), copy.last_lease()), (original.uuid(), None));
    }

    #[test]
    fn damaged_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "uuid xy\nname a\ncluster \n", "uuid +123\nname a\ncluster \n"] {
            fs::write(folder.path().join("node"), text).unwrap();
            let opened = Identity::open(folder.path(), "a");
            assert!(matches!(opened, Err(Error::Damaged { .. })), "{text:?}");
        }
    }
}
