//! The client against a real etcd that encrypts: what it does, and each refusal with its sentence.
//! etcd reads its certificate for each connection, so one etcd has many in turn.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use plasmon_certs::{Authority, Issued, Revocation, Subject, Validity};
use plasmon_etcd::{Change, Client, Error, Operation, Options, OwnCertificate, Seen, Tls};
use plasmon_testkit::{Etcd, EtcdTls, TEST_TIMEOUT, until};
use tempfile::TempDir;

const HERE: &[&str] = &["127.0.0.1", "localhost"];

fn now() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn hour() -> Validity {
    Validity { from: now() - 60, until: now() + 3600 }
}

/// The files of an etcd and of a client, in a folder.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Files {
    /// An authority, and a certificate of etcd.
    fn new() -> Self {
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::make("prod", hour()).unwrap(),
        };
        fs::write(files.path("ca.pem"), files.authority.certificate()).unwrap();
        files.serve(&files.authority, HERE, hour());
        let client = files.client_of(&files.authority);
        files.write("client", &client);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, issued: &Issued) {
        fs::write(self.path(&format!("{name}.pem")), &issued.certificate).unwrap();
        let key = self.path(&format!("{name}.key"));
        fs::write(&key, &issued.key).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    }

    /// Has etcd show another certificate from now on.
    fn serve(&self, authority: &Authority, hosts: &[&str], validity: Validity) -> Issued {
        let issued = authority.issue_server(hosts, validity).unwrap();
        self.write("etcd", &issued);
        issued
    }

    fn client_of(&self, authority: &Authority) -> Issued {
        let subject = Subject { name: "a", uri: "plasmon://prod/a" };
        authority.issue(&subject, hour()).unwrap()
    }

    /// An etcd that takes all clients, or those with certificates alone.
    fn start(&self, asks: bool) -> Option<Etcd> {
        let (certificate, key) = (self.path("etcd.pem"), self.path("etcd.key"));
        let authority = self.path("ca.pem");
        let clients = asks.then_some(&*authority);
        let tls = EtcdTls { certificate: &certificate, key: &key, clients };
        let etcd = Etcd::start_encrypted(tls)?;
        // It reads its files once more before it serves.
        let mut client = Client::new(options(&etcd, self.tls(true))).unwrap();
        until("etcd serves", || client.get(b"/").is_ok());
        Some(etcd)
    }

    fn tls(&self, shows: bool) -> Tls {
        let own =
            OwnCertificate { certificate: self.path("client.pem"), key: self.path("client.key") };
        Tls { authority: self.path("ca.pem"), own: shows.then_some(own), revoked: None }
    }
}

fn options(etcd: &Etcd, tls: Tls) -> Options {
    Options { tls: Some(tls), ..Options::new(etcd.endpoints()) }
}

fn put(key: &str, value: &[u8]) -> Operation {
    Operation::Put(key.into(), value.into(), None)
}

/// The sentence with which a new client is refused.
fn refusal(options: Options) -> String {
    match Client::new(options).unwrap().get(b"/a") {
        Err(Error::Encryption { tried }) => tried,
        other => panic!("{other:?}"),
    }
}

/// Reads changes until so many have come.
fn changes(client: &mut Client, from: i64, count: usize) -> Vec<Change> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let (mut found, mut next) = (Vec::new(), from);
    while found.len() < count {
        assert!(Instant::now() < deadline, "waited too long for {count} changes");
        let mut watch = client.watch(b"/", next).unwrap();
        while found.len() < count {
            let Seen::Changes(revision, changes) = watch.next_changes().unwrap() else { break };
            found.extend(changes);
            next = revision + 1;
        }
    }
    found
}

#[test]
fn calls_leases_and_watches_are_encrypted() {
    let files = Files::new();
    let Some(etcd) = files.start(true) else { return };
    let mut client = Client::new(options(&etcd, files.tls(true))).unwrap();
    assert!(client.is_encrypted());
    let lease = client.grant(60).unwrap();
    assert!(client.keep_alive(lease.id).unwrap() > 0);
    // More than one record of TLS, and than every buffer on the way.
    let large: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    let first = client.transact(&[], &[put("/large", &large)]).unwrap().revision;
    for number in 0..40 {
        client.transact(&[], &[put(&format!("/n{number}"), b"small")]).unwrap();
    }
    assert_eq!(client.get(b"/large").unwrap().unwrap().value, large);
    assert_eq!(client.list(b"/").unwrap().kvs.len(), 41);
    // All of them come at once, the small ones in what was decrypted with the large one.
    let seen = changes(&mut client, first, 41);
    let Change::Put(kv) = &seen[0] else { panic!("{:?}", seen[0]) };
    assert_eq!(kv.value, large);
    let mut next = first + 41;
    // What changes while a watch waits.
    let mut watch = client.watch(b"/", next).unwrap();
    let mut writer = Client::new(options(&etcd, files.tls(true))).unwrap();
    for number in 0..3 {
        let text = format!("late{number}");
        let revision = writer.transact(&[], &[put("/late", text.as_bytes())]).unwrap().revision;
        let seen = watch.next_changes().unwrap();
        let Seen::Changes(upto, seen) = seen else { panic!("the watch ended: {seen:?}") };
        assert!(upto == revision && seen.len() == 1, "{seen:?}");
        next = revision + 1;
    }
    drop(watch);
    client.revoke(lease.id).unwrap();
    // One that sees nothing ends by itself.
    let quick =
        Options { watch_timeout: Duration::from_millis(50), ..options(&etcd, files.tls(true)) };
    let mut watch = Client::new(quick).unwrap().watch(b"/", next).unwrap();
    assert_eq!(watch.next_changes(), Ok(Seen::End));
}

#[test]
fn an_etcd_that_hangs_or_ends_is_noticed() {
    let files = Files::new();
    let Some(mut etcd) = files.start(false) else { return };
    let limits = Options {
        call_timeout: Duration::from_millis(300),
        watch_timeout: Duration::from_millis(300),
        ..options(&etcd, files.tls(false))
    };
    let mut client = Client::new(limits.clone()).unwrap();
    let next = client.list(b"/").unwrap().revision + 1;
    let mut watch = client.watch(b"/", next).unwrap();
    etcd.pause(0);
    assert_eq!(watch.next_changes(), Ok(Seen::End));
    // The connection that there is, and a new one, whose handshake is not answered.
    for mut client in [client, Client::new(limits.clone()).unwrap()] {
        let found = client.get(b"/a");
        assert!(matches!(found, Err(Error::Unavailable { .. })), "{found:?}");
    }
    etcd.resume(0);
    let mut client = Client::new(options(&etcd, files.tls(false))).unwrap();
    client.get(b"/a").unwrap();
    // Its connections are over with it, and calls make new ones.
    etcd.kill(0);
    let found = client.get(b"/a");
    assert!(matches!(found, Err(Error::Unavailable { .. })), "{found:?}");
    etcd.restart(0);
    assert_eq!(client.get(b"/a"), Ok(None));
}

#[test]
fn a_certificate_of_etcd_that_does_not_fit_is_refused() {
    let files = Files::new();
    let Some(etcd) = files.start(false) else { return };
    let refused = |tls: Tls, words: &str| {
        let sentence = refusal(options(&etcd, tls));
        let begin = format!("{}: ", etcd.endpoints()[0]);
        assert!(sentence.starts_with(&begin) && sentence.contains(words), "{sentence}");
    };
    let other = Authority::make("prod", hour()).unwrap();
    files.serve(&other, HERE, hour());
    let authority = files.path("ca.pem").display().to_string();
    refused(files.tls(false), &format!("its certificate is not of the authority in {authority}"));
    files.serve(&files.authority, &["etcd.example", "10.0.0.7"], hour());
    refused(
        files.tls(false),
        "its certificate is for etcd.example, 10.0.0.7, and not for 127.0.0.1; name etcd by one",
    );
    let over = Validity { from: now() - 3600, until: now() - 60 };
    files.serve(&files.authority, HERE, over);
    refused(files.tls(false), "its certificate has expired on 20");
    let early = Validity { from: now() + 3600, until: now() + 7200 };
    files.serve(&files.authority, HERE, early);
    refused(files.tls(false), "its certificate is not valid before 20");

    let gone = files.serve(&files.authority, HERE, hour());
    let mut tls = files.tls(false);
    tls.revoked = Some(files.path("revoked.crl"));
    for (revoked, words) in [
        (vec![], None),
        (vec![Revocation { serial: gone.serial, at: now() }], Some("its certificate is revoked")),
    ] {
        let list = files.authority.revoke(&revoked, now(), hour()).unwrap();
        fs::write(files.path("revoked.crl"), list).unwrap();
        match words {
            None => {
                let mut client = Client::new(options(&etcd, tls.clone())).unwrap();
                assert_eq!(client.get(b"/a"), Ok(None));
            }
            Some(words) => refused(tls.clone(), words),
        }
    }
    // A certificate of a node of the same pool, which may be on any machine.
    files.write("etcd", &files.client_of(&files.authority));
    refused(files.tls(false), "its certificate is for a, and not for 127.0.0.1");
}

#[test]
fn a_client_without_the_right_certificate_is_refused_by_etcd() {
    let files = Files::new();
    let Some(etcd) = files.start(true) else { return };
    let sentence = refusal(options(&etcd, files.tls(false)));
    assert!(sentence.contains("--client-cert-auth): set pool_etcd_cert and pool"), "{sentence}");
    let other = Authority::make("prod", hour()).unwrap();
    files.write("client", &files.client_of(&other));
    let sentence = refusal(options(&etcd, files.tls(true)));
    let place = files.path("client.pem").display().to_string();
    assert!(sentence.contains(&format!("it refuses the certificate in {place}: ")), "{sentence}");
    // A watch is refused in the same way.
    let watch = Client::new(options(&etcd, files.tls(true))).unwrap().watch(b"/", 1).map(drop);
    assert!(matches!(watch, Err(Error::Encryption { .. })), "{watch:?}");
}

#[test]
fn an_etcd_in_clear_and_one_that_encrypts_are_not_taken_for_each_other() {
    let files = Files::new();
    let Some(plain) = Etcd::start() else { return };
    let secure = files.start(false).unwrap();
    let swap = |etcd: &Etcd, scheme: &str| {
        let endpoint = etcd.endpoints()[0].replace("https://", "");
        vec![format!("{scheme}{endpoint}")]
    };
    let https = Options { tls: Some(files.tls(false)), ..Options::new(swap(&plain, "https://")) };
    let sentence = refusal(https);
    assert!(sentence.contains("without --cert-file") && sentence.contains("etcd://"), "{sentence}");
    let http = Options::new(swap(&secure, "http://"));
    let found = Client::new(http).unwrap().get(b"/a");
    let Err(Error::Unavailable { tried }) = found else { panic!("{found:?}") };
    assert!(tried.contains("with --cert-file") && tried.contains("https://"), "{tried}");
}

#[test]
fn files_are_read_again_for_each_connection_and_bad_ones_are_named() {
    let files = Files::new();
    let Some(etcd) = files.start(true) else { return };
    let mut client = Client::new(options(&etcd, files.tls(true))).unwrap();
    let mut look = || client.watch(b"/", 1).map(drop);
    look().unwrap();
    let named = |found: Result<(), Error>, file: &Path, words: &str| {
        let Err(Error::Encryption { tried }) = found else { panic!("{found:?}") };
        assert!(tried.contains(&format!("{}: {words}", file.display())), "{tried}");
    };
    let (ca, key, certificate) =
        (files.path("ca.pem"), files.path("client.key"), files.path("client.pem"));
    for (file, bad, words) in [
        (&ca, "", "the file has no certificate"),
        (&certificate, "what is this", "the file has no certificate"),
        (&key, "", "the file has no private key"),
    ] {
        let before = fs::read(file).unwrap();
        fs::write(file, bad).unwrap();
        named(look(), file, words);
        fs::write(file, before).unwrap();
        look().unwrap();
    }
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    named(look(), &key, "other users may read the key: chmod 600 it");
    fs::remove_file(&key).unwrap();
    named(look(), &key, "No such file");
    let other = files.client_of(&files.authority);
    fs::write(&key, &other.key).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    named(look(), &key, "it is not the key of the certificate in ");
    // Now the certificate of the new key, too.
    files.write("client", &other);
    look().unwrap();
}
