//! The folder of an authority.
//!
//! ```text
//! FOLDER/ca.key               signs; stays here
//! FOLDER/ca.pem               all nodes trust it
//! FOLDER/issued               the certificates that were made, a line each
//! FOLDER/revoked.crl          those that are not valid any more
//! FOLDER/nodes/NODE/          what a node needs: cert.pem, key.pem, ca.pem, revoked.crl
//! FOLDER/etcd/HOST/           what an etcd needs, the same
//! ```
//!
//! Each file is replaced as a whole. A certificate is in the file `issued` before it is in the
//! folder of its node, so that it can be revoked in any case.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::authority::{Authority, Issued, Revocation, Subject, Validity};
use crate::records::Record;

/// The modes of keys and their folders, and of what is not secret.
const SECRET: u32 = 0o600;
const SECRET_FOLDER: u32 = 0o700;
const OPEN: u32 = 0o644;

/// How long an authority and its lists are valid: nodes trust it as long as they have its
/// certificate.
const AUTHORITY_SECONDS: u64 = 10 * 366 * 86_400;

/// Certificates are valid from a time before they are made, for clocks differ.
const EARLIER_SECONDS: u64 = 3600;

/// A node that a certificate is to be made for.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// What the certificate is for.
    pub subject: Subject<'a>,
    /// How long it shall be valid.
    pub seconds: u64,
}

/// A server of etcd that a certificate is to be made for.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// The names and addresses by which clients reach it. Its folder has the first one.
    pub hosts: &'a [&'a str],
    /// How long the certificate shall be valid.
    pub seconds: u64,
}

/// What the names of servers begin with, in the file `issued` and where they are revoked. No node
/// is called so: they have names without a `/`.
pub const SERVER_PREFIX: &str = "etcd/";

/// A certificate that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The folder with what the node needs.
    pub folder: PathBuf,
    /// The last second of the certificate, since 1970.
    pub until: u64,
    /// Whether the folder had a certificate before.
    pub is_renewed: bool,
}

/// The folder of an authority.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    authority: Authority,
    records: Vec<Record>,
    is_new: bool,
}

impl Folder {
    /// The folder of the authority of this pool. Where there is none it is made.
    pub fn open(path: &Path, cluster: &str, now: u64) -> Result<Self, Error> {
        make_folder(path)?;
        let (key, certificate) = (path.join("ca.key"), path.join("ca.pem"));
        let is_new = !key.try_exists().map_err(io_error(&key))?;
        let authority = if is_new {
            let validity = Validity { from: earlier(now), until: now + AUTHORITY_SECONDS };
            let authority = Authority::make(cluster, validity)?;
            // Without its key the certificate is worth nothing, and is made again.
            write(&certificate, authority.certificate(), OPEN)?;
            write(&key, &authority.key(), SECRET)?;
            authority
        } else {
            Authority::open(cluster, read(&certificate)?, &read(&key)?)?
        };
        let records = match read(&path.join("issued")) {
            Ok(text) => records(&path.join("issued"), &text)?,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), authority, records, is_new })
    }

    /// Whether the authority was made now.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// What all nodes trust.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The certificates that were made so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Makes a key and a certificate for a node. One that the node had before stays valid until its
    /// time is over, or it is revoked.
    pub fn issue(&mut self, node: &Node<'_>, now: u64) -> Result<Made, Error> {
        let validity = Validity { from: earlier(now), until: now.saturating_add(node.seconds) };
        let issued = self.authority.issue(&node.subject, validity)?;
        self.keep(node.subject.name.to_owned(), &issued, validity.until)
    }

    /// Makes a key and a certificate for a server of etcd, whose name is [`SERVER_PREFIX`] and its
    /// first host.
    pub fn issue_server(&mut self, server: &Server<'_>, now: u64) -> Result<Made, Error> {
        let validity = Validity { from: earlier(now), until: now.saturating_add(server.seconds) };
        let issued = self.authority.issue_server(server.hosts, validity)?;
        let host = server.hosts.first().copied().unwrap_or_default();
        self.keep(format!("{SERVER_PREFIX}{host}"), &issued, validity.until)
    }

    /// Writes down that a certificate was made, and then the files.
    fn keep(&mut self, name: String, issued: &Issued, until: u64) -> Result<Made, Error> {
        let folder = self.folder_of(&name);
        self.records.push(Record { serial: issued.serial, until, revoked_at: None, node: name });
        self.write_records()?;
        make_folder(&folder)?;
        let certificate = folder.join("cert.pem");
        let is_renewed = certificate.try_exists().map_err(io_error(&certificate))?;
        write(&folder.join("key.pem"), &issued.key, SECRET)?;
        write(&certificate, &issued.certificate, OPEN)?;
        write(&folder.join("ca.pem"), self.authority.certificate(), OPEN)?;
        Ok(Made { folder, until, is_renewed })
    }

    /// Revokes all certificates of a node; how many. The list shows it after
    /// [`write_list`](Self::write_list).
    pub fn revoke(&mut self, node: &str, now: u64) -> Result<usize, Error> {
        let of_node = |record: &&mut Record| record.node == node && record.revoked_at.is_none();
        let mut count = 0;
        for record in self.records.iter_mut().filter(of_node) {
            record.revoked_at = Some(now);
            count += 1;
        }
        if count == 0 {
            return Err(Error::Unknown { node: node.to_owned(), folder: self.path.clone() });
        }
        self.write_records()?;
        Ok(count)
    }

    /// Writes the list of revoked certificates, also into the folders of the nodes; its place.
    pub fn write_list(&self, now: u64) -> Result<PathBuf, Error> {
        let revoked: Vec<Revocation> = self
            .records
            .iter()
            .filter_map(|it| Some(Revocation { serial: it.serial, at: it.revoked_at? }))
            .collect();
        let validity = Validity { from: earlier(now), until: now + AUTHORITY_SECONDS };
        // Lists are made in the order of time.
        let list = self.authority.revoke(&revoked, now, validity)?;
        let path = self.path.join("revoked.crl");
        write(&path, &list, OPEN)?;
        for record in &self.records {
            let folder = self.folder_of(&record.node);
            // The folder of a node may be gone.
            if folder.try_exists().map_err(io_error(&folder))? {
                write(&folder.join("revoked.crl"), &list, OPEN)?;
            }
        }
        Ok(path)
    }

    fn folder_of(&self, name: &str) -> PathBuf {
        match name.strip_prefix(SERVER_PREFIX) {
            Some(host) => self.path.join("etcd").join(host),
            None => self.path.join("nodes").join(name),
        }
    }

    fn write_records(&self) -> Result<(), Error> {
        let lines: String = self.records.iter().map(|record| record.line() + "\n").collect();
        write(&self.path.join("issued"), &lines, OPEN)
    }
}

fn records(path: &Path, text: &str) -> Result<Vec<Record>, Error> {
    let damaged = |number: usize| Error::Damaged {
        file: path.to_owned(),
        why: format!("line {} is no certificate that was made", number + 1),
    };
    let lines = text.lines().enumerate();
    lines.map(|(number, line)| Record::parse(line).ok_or_else(|| damaged(number))).collect()
}

fn earlier(now: u64) -> u64 {
    now.saturating_sub(EARLIER_SECONDS)
}

fn io_error(file: &Path) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_owned();
    move |source| Error::Io { file, source }
}

fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(SECRET_FOLDER).create(path).map_err(io_error(path))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(io_error(path))
}

/// Replaces a file, so that after a crash there is the old one or the new one.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let write = || -> io::Result<()> {
        // One that a crash has left may have another mode.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(io_error(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn node(name: &str) -> Node<'_> {
        // What the name means is not looked at here.
        Node { subject: Subject { name, uri: "plasmon://prod/x" }, seconds: 1000 }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_that_is_opened_again_goes_on_with_its_authority() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("certs");
        let mut first = Folder::open(&path, "prod", NOW).unwrap();
        assert!(first.is_new());
        let made = first.issue(&node("a"), NOW).unwrap();
        let expected = Made { folder: path.join("nodes/a"), until: NOW + 1000, is_renewed: false };
        assert_eq!(made, expected);
        first.write_list(NOW).unwrap();
        let trusted = fs::read_to_string(path.join("ca.pem")).unwrap();
        let key = fs::read(path.join("nodes/a/key.pem")).unwrap();

        let mut second = Folder::open(&path, "prod", NOW + 5).unwrap();
        assert!(!second.is_new());
        assert_eq!((second.authority().certificate(), second.records().len()), (&*trusted, 1));
        second.issue(&node("rack 1, b"), NOW + 5).unwrap();
        assert!(second.issue(&node("a"), NOW + 6).unwrap().is_renewed);
        assert_ne!(fs::read(path.join("nodes/a/key.pem")).unwrap(), key);
        assert_eq!(second.revoke("a", NOW + 7).unwrap(), 2, "both certificates of the node");
        assert!(matches!(second.revoke("a", NOW + 8), Err(Error::Unknown { .. })));
        assert!(matches!(second.revoke("x", NOW + 8), Err(Error::Unknown { .. })));
        second.write_list(NOW + 8).unwrap();
        let list = fs::read(path.join("revoked.crl")).unwrap();
        for name in ["a", "rack 1, b"] {
            let folder = path.join("nodes").join(name);
            assert_eq!(fs::read_to_string(folder.join("ca.pem")).unwrap(), trusted);
            assert_eq!(fs::read(folder.join("revoked.crl")).unwrap(), list);
            assert_eq!((mode(&folder.join("key.pem")), mode(&folder)), (SECRET, SECRET_FOLDER));
        }
        assert_eq!((mode(&path.join("ca.key")), mode(&path)), (SECRET, SECRET_FOLDER));
        let third = Folder::open(&path, "prod", NOW + 9).unwrap();
        let revoked = third.records().iter().filter(|it| it.revoked_at == Some(NOW + 7));
        assert_eq!((third.records().len(), revoked.count()), (3, 2));
    }

    #[test]
    fn servers_have_folders_beside_those_of_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Folder::open(folder.path(), "prod", NOW).unwrap();
        first.issue(&node("h"), NOW).unwrap();
        let hosts = ["h", "10.0.0.7"];
        let made = first.issue_server(&Server { hosts: &hosts, seconds: 9 }, NOW).unwrap();
        let place = folder.path().join("etcd/h");
        assert_eq!((&made.folder, made.until, made.is_renewed), (&place, NOW + 9, false));
        assert_eq!(mode(&place.join("key.pem")), SECRET);
        let mut second = Folder::open(folder.path(), "prod", NOW).unwrap();
        assert_eq!(second.revoke("etcd/h", NOW).unwrap(), 1, "the node is not revoked");
        second.write_list(NOW).unwrap();
        assert!(place.join("revoked.crl").exists());
    }

    #[test]
    fn a_file_that_is_damaged_is_named() {
        let folder = tempfile::tempdir().unwrap();
        Folder::open(folder.path(), "prod", NOW).unwrap();
        fs::write(folder.path().join("issued"), "what is this\n").unwrap();
        let error = Folder::open(folder.path(), "prod", NOW).unwrap_err().to_string();
        assert!(error.contains("issued") && error.contains("line 1"), "{error}");
        fs::remove_file(folder.path().join("issued")).unwrap();
        fs::remove_file(folder.path().join("ca.pem")).unwrap();
        let error = Folder::open(folder.path(), "prod", NOW).unwrap_err().to_string();
        assert!(error.contains("ca.pem"), "{error}");
    }
}
