//! The certificates of this node, read again when their files change.
//!
//! ```text
//! files ──(looked at every second)──► Credentials, current ──► each new connection
//!            └── what cannot be used is said, and the ones before stay in use
//! ```
//!
//! Files are read by a thread of their own: the core waits for no disk. Connections that are up go
//! on with what they began with, unless their peer's certificate is revoked by then (`links`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use plasmon_membership::encryption::Encryption as Report;
use plasmon_net::handshake::Encryption;
use plasmon_net::tls::{Credentials, Pem, date};

/// So often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// From so many seconds before its end on a certificate is spoken of, once a day.
const SOON_SECONDS: u64 = 30 * DAY_SECONDS;

const DAY_SECONDS: u64 = 86_400;

/// Where the certificates are.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate of the node.
    pub certificate: PathBuf,
    /// Its key, which other users cannot read.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
    /// The list of revoked certificates.
    pub revoked: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting} {}: {why}", file.display())]
pub struct Error {
    setting: &'static str,
    file: PathBuf,
    why: String,
}

/// The certificates that are current; clones are the same.
#[derive(Clone, Debug)]
pub struct Certificates {
    shared: Arc<Shared>,
    encrypts_data: bool,
}

#[derive(Debug)]
struct Shared {
    files: Files,
    cluster: String,
    node: String,
    current: Mutex<Arc<Credentials>>,
    /// How often they were read.
    generation: AtomicU64,
    is_over: Mutex<bool>,
    ended: Condvar,
}

/// Looks at the files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Certificates {
    /// Reads the certificates of a node, and looks at their files from then on. With
    /// `encrypts_data` all lanes are encrypted, and else the control lanes.
    pub fn read(
        files: Files,
        cluster: &str,
        node: &str,
        encrypts_data: bool,
    ) -> Result<(Self, Watch), Error> {
        let stamps = files.stamps();
        let credentials = files.read(cluster, node)?;
        let shared = Arc::new(Shared {
            cluster: cluster.to_owned(),
            node: node.to_owned(),
            current: Mutex::new(Arc::new(credentials)),
            generation: AtomicU64::new(1),
            is_over: Mutex::new(false),
            ended: Condvar::new(),
            files,
        });
        let watched = shared.clone();
        let run = move || watched.run(stamps);
        let thread = std::thread::Builder::new().name("pool-certs".to_owned()).spawn(run);
        let thread = thread.map_err(|error| shared.files.error("pool_tls_cert", error))?;
        let watch = Watch { shared: shared.clone(), thread: Some(thread) };
        Ok((Self { shared, encrypts_data }, watch))
    }

    /// Those that are current.
    pub(crate) fn current(&self) -> Arc<Credentials> {
        self.shared.current().clone()
    }

    /// Changes when others are current.
    pub(crate) fn generation(&self) -> u64 {
        // pairs with the Release in Shared::look
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Which lanes are encrypted.
    pub(crate) fn encryption(&self) -> Encryption {
        if self.encrypts_data { Encryption::Everything } else { Encryption::Control }
    }

    /// What is said of it in etcd.
    pub(crate) fn report(&self) -> Report {
        let not_after = self.current().not_after().unwrap_or(0);
        Report { data: self.encrypts_data, not_after }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.shared.ended.notify_all();
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn current(&self) -> MutexGuard<'_, Arc<Credentials>> {
        lock(&self.current)
    }

    fn run(&self, mut stamps: Stamps) {
        let mut said_day = None;
        loop {
            self.say_end(&mut said_day);
            let waits = |is_over: &mut bool| !*is_over;
            let waited = self.ended.wait_timeout_while(lock(&self.is_over), LOOK_EVERY, waits);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            self.look(&mut stamps, &mut said_day);
        }
    }

    /// Reads the files again if they have changed.
    fn look(&self, stamps: &mut Stamps, said_day: &mut Option<u64>) {
        // What is written while it is read has changed again by the next look.
        let found = self.files.stamps();
        if found == *stamps {
            return;
        }
        *stamps = found;
        match self.files.read(&self.cluster, &self.node) {
            Ok(credentials) => {
                let end = credentials.not_after().map(date).unwrap_or_default();
                tracing::info!("the certificates are read again; that of this node ends on {end}");
                *self.current() = Arc::new(credentials);
                *said_day = None;
                self.generation.fetch_add(1, Ordering::Release);
            }
            Err(error) => tracing::error!(
                "the certificates have changed and cannot be used, those before stay in use: \
                 {error}"
            ),
        }
    }

    /// Says once a day that the certificate of this node ends soon, or has.
    fn say_end(&self, said_day: &mut Option<u64>) {
        let (now, credentials) = (now_seconds(), self.current().clone());
        let Some(end) = credentials.not_after() else { return };
        let day = now / DAY_SECONDS;
        if end > now.saturating_add(SOON_SECONDS) || said_day.replace(day) == Some(day) {
            return;
        }
        if end <= now {
            tracing::error!(
                "the certificate of this node has ended on {}: nodes take no new connection of it",
                date(end)
            );
        } else {
            tracing::warn!("the certificate of this node ends on {}", date(end));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This moment, in seconds since 1970.
fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

/// What shows that a file has changed: device, number, length, and the time of its last change.
type Stamp = (u64, u64, u64, i64, i64);

/// Those of all files; `None` for one that is not there.
type Stamps = Vec<Option<Stamp>>;

impl Files {
    fn stamps(&self) -> Stamps {
        let Self { certificate, key, authority, revoked } = self;
        let files = [certificate, key, authority].into_iter().chain(revoked);
        let stamp = |file: &PathBuf| {
            let found = fs::metadata(file).ok()?;
            Some((found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
        };
        files.map(stamp).collect()
    }

    fn read(&self, cluster: &str, node: &str) -> Result<Credentials, Error> {
        let now = now_seconds();
        let certificate = self.content("pool_tls_cert", &self.certificate)?;
        let key = plasmon_secrets::read_secret(&self.key, "key");
        let key = key.map_err(|error| self.error("pool_tls_key", error))?;
        let authority = self.content("pool_tls_ca", &self.authority)?;
        let revoked = self.revoked.as_ref().map(|file| self.content("pool_tls_crl", file));
        let revoked = revoked.transpose()?;
        let pem = Pem {
            certificate: &certificate,
            key: &key,
            authority: &authority,
            revoked: revoked.as_deref(),
        };
        let credentials = Credentials::new(pem, cluster, node, now);
        let credentials = credentials.map_err(|bad| self.error(bad.setting, bad.why))?;
        match credentials.not_current(now) {
            Some(bad) => Err(self.error(bad.setting, bad.why)),
            None => Ok(credentials),
        }
    }

    fn content(&self, setting: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
        plasmon_secrets::read(path).map_err(|error| self.error(setting, error))
    }

    fn error(&self, setting: &'static str, why: impl ToString) -> Error {
        let file = match setting {
            "pool_tls_key" => &self.key,
            "pool_tls_ca" => &self.authority,
            "pool_tls_crl" => self.revoked.as_ref().unwrap_or(&self.authority),
            _ => &self.certificate,
        };
        Error { setting, file: file.clone(), why: why.to_string() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use plasmon_certs::{Folder, Node, Subject};
    use plasmon_net::tls::uri_of;
    use plasmon_testkit::until;

    use super::*;

    /// The files of a node, which has a new certificate for so many seconds.
    pub(crate) fn files(folder: &Path, cluster: &str, name: &str, seconds: u64) -> Files {
        let now = now_seconds();
        let mut authority = Folder::open(folder, cluster, now).unwrap();
        let uri = uri_of(cluster, name);
        let node = Node { subject: Subject { name, uri: &uri }, seconds };
        let made = authority.issue(&node, now).unwrap();
        authority.write_list(now).unwrap();
        Files {
            certificate: made.folder.join("cert.pem"),
            key: made.folder.join("key.pem"),
            authority: made.folder.join("ca.pem"),
            revoked: Some(made.folder.join("revoked.crl")),
        }
    }

    #[test]
    fn files_that_have_changed_are_read_again_and_bad_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let first = files(folder.path(), "prod", "a", 10 * DAY_SECONDS);
        let (certificates, watch) = Certificates::read(first.clone(), "prod", "a", false).unwrap();
        assert_eq!(
            (certificates.generation(), certificates.encryption()),
            (1, Encryption::Control)
        );
        let before = certificates.current();
        // The new certificate is there before its key, or after it.
        files(folder.path(), "prod", "a", 20 * DAY_SECONDS);
        until("the new certificate is read", || certificates.generation() > 1);
        let after = certificates.current();
        assert!(after.not_after() > before.not_after());
        assert_eq!(certificates.report().not_after, after.not_after().unwrap());

        let mut stamps = first.stamps();
        let generation = certificates.generation();
        for bad in ["", "what is this"] {
            fs::write(&first.certificate, bad).unwrap();
            certificates.shared.look(&mut stamps, &mut None);
            assert!(Arc::ptr_eq(&certificates.current(), &after));
        }
        assert_eq!(certificates.generation(), generation);
        drop(watch);
        let error = Certificates::read(first.clone(), "prod", "a", false).map(drop).unwrap_err();
        let expected = format!("pool_tls_cert {}: ", first.certificate.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn what_is_wrong_is_told_with_the_setting_and_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let good = files(folder.path(), "prod", "a", 100);
        let wrong = |files: &Files, cluster: &str, node: &str| {
            files.read(cluster, node).map(drop).unwrap_err().to_string()
        };
        assert!(good.read("prod", "a").is_ok());
        assert!(wrong(&good, "prod", "b").contains("and not for node b of pool prod"));
        assert!(wrong(&good, "test", "a").contains("and not for node a of pool test"));
        let key = good.key.display().to_string();
        fs::set_permissions(&good.key, fs::Permissions::from_mode(0o640)).unwrap();
        let error = wrong(&good, "prod", "a");
        assert!(error.contains("chmod 600") && error.contains(&key), "{error}");
        fs::set_permissions(&good.key, fs::Permissions::from_mode(0o600)).unwrap();
        for (setting, files) in [
            ("pool_tls_key", Files { key: "/nonexistent".into(), ..good.clone() }),
            ("pool_tls_ca", Files { authority: "/nonexistent".into(), ..good.clone() }),
            ("pool_tls_crl", Files { revoked: Some("/nonexistent".into()), ..good.clone() }),
        ] {
            let error = wrong(&files, "prod", "a");
            assert!(error.starts_with(&format!("{setting} /nonexistent: ")), "{error}");
        }
        let over = files(folder.path(), "prod", "over", 0);
        until("its time is over", || over.read("prod", "over").is_err());
        assert!(wrong(&over, "prod", "over").contains("it has expired on"), "it says when");
    }
}
