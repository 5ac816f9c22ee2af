//! Connections keep the promises of a transport when they are encrypted, over sockets and over the
//! fake network, and when they could be and are not.

use std::sync::{Arc, OnceLock};

use plasmon_certs::{Authority, Issued, Subject, Validity};
use plasmon_net::fake::{FakeOptions, Path};
use plasmon_net::tcp::TcpStream;
use plasmon_net::tls::{BadCredentials, Credentials, Pem, SecureStream, uri_of};
use plasmon_net::{FileRange, Stream};

use crate::conformance::{Fixture, conformance};
use crate::fake::FakeFixture;
use crate::tcp::TcpFixture;

/// The name of the pool of all tests.
pub(crate) const CLUSTER: &str = "prod";

const DAY: u64 = 86_400;

/// This moment, in seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// From some days before this one to some days after it.
pub(crate) fn days(from: i64, until: i64) -> Validity {
    let at = |days: i64| now().checked_add_signed(days * DAY as i64).unwrap();
    Validity { from: at(from), until: at(until) }
}

/// The authority of the pool of all tests.
pub(crate) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::make(CLUSTER, days(-1, 1000)).unwrap())
}

/// A certificate of this authority for a node of this pool.
pub(crate) fn issue(by: &Authority, cluster: &str, node: &str, validity: Validity) -> Issued {
    let uri = uri_of(cluster, node);
    by.issue(&Subject { name: node, uri: &uri }, validity).unwrap()
}

/// What a node has that shows this certificate and trusts the authority of all tests.
pub(crate) fn credentials(
    issued: &Issued,
    node: &str,
    revoked: Option<&str>,
) -> Result<Arc<Credentials>, BadCredentials> {
    let pem = Pem {
        certificate: issued.certificate.as_bytes(),
        key: issued.key.as_bytes(),
        authority: authority().certificate().as_bytes(),
        revoked: revoked.map(str::as_bytes),
    };
    Credentials::new(pem, CLUSTER, node, now()).map(Arc::new)
}

/// What a node has with which all is well.
pub(crate) fn well(node: &str) -> Arc<Credentials> {
    credentials(&issue(authority(), CLUSTER, node, days(-1, 100)), node, None).unwrap()
}

/// Streams of another transport, encrypted.
struct Encrypted<F> {
    inner: F,
    credentials: [Arc<Credentials>; 2],
}

impl<F> Encrypted<F> {
    fn over(inner: F) -> Self {
        static CREDENTIALS: OnceLock<[Arc<Credentials>; 2]> = OnceLock::new();
        let credentials = CREDENTIALS.get_or_init(|| [well("a"), well("b")]).clone();
        Self { inner, credentials }
    }
}

impl<F: Fixture> Fixture for Encrypted<F> {
    type Stream = SecureStream<F::Stream>;

    fn streams(&mut self) -> (Self::Stream, Self::Stream) {
        let (one, two) = self.inner.streams();
        let [a, b] = &self.credentials;
        let mut one = SecureStream::connect(one, a).unwrap();
        let mut two = SecureStream::accept(two, Some(b.clone()));
        while let (Err(_), _) | (_, Err(_)) = (one.establish(), two.establish()) {
            self.inner.wait();
        }
        assert!(one.certified().unwrap().is_for(CLUSTER, "b"));
        assert_eq!(two.certified().unwrap().to_string(), "node a of pool prod");
        (one, two)
    }

    fn wait(&mut self) {
        self.inner.wait();
    }
}

/// Streams of another transport, which could be encrypted.
struct Clear<F>(F);

impl<F: Fixture> Fixture for Clear<F> {
    type Stream = SecureStream<F::Stream>;

    fn streams(&mut self) -> (Self::Stream, Self::Stream) {
        let (one, two) = self.0.streams();
        (SecureStream::plain(one), SecureStream::accept(two, None))
    }

    fn wait(&mut self) {
        self.0.wait();
    }
}

conformance!(encrypted_over_sockets, Encrypted::over(TcpFixture::new(None)));

conformance!(
    encrypted_over_sockets_with_small_buffers,
    Encrypted::over(TcpFixture::new(Some(4096)))
);

conformance!(
    encrypted_in_virtual_time,
    Encrypted::over(FakeFixture::new(FakeOptions::default(), Path::default()))
);

conformance!(in_clear_over_sockets, Clear(TcpFixture::new(None)));

/// Notes what is sent over another stream.
#[derive(Debug)]
struct Noting(TcpStream, Vec<u8>);

impl Stream for Noting {
    fn recv(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.recv(into)
    }

    fn send(&mut self, bytes: &[u8], more: bool) -> std::io::Result<usize> {
        let count = self.0.send(bytes, more)?;
        self.1.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn send_file(&mut self, range: FileRange<'_>) -> std::io::Result<usize> {
        self.0.send_file(range)
    }

    fn close(&mut self) {
        self.0.close();
    }
}

#[test]
fn nothing_of_what_is_sent_is_on_the_wire() {
    let mut sockets = TcpFixture::new(None);
    let (near, far) = sockets.streams();
    let mut one = SecureStream::connect(Noting(near, Vec::new()), &well("a")).unwrap();
    let mut two = SecureStream::accept(far, Some(well("b")));
    while let (Err(_), _) | (_, Err(_)) = (one.establish(), two.establish()) {
        sockets.wait();
    }
    let secret = b"what only the two sides know";
    let mut found = [0; 28];
    assert_eq!(one.send(secret, false).unwrap(), secret.len());
    while two.recv(&mut found).is_err() {
        sockets.wait();
    }
    assert_eq!(&found, secret);
    let wire = &one.transport().1;
    for hidden in [&secret[..], b"plasmon://", b"pool prod"] {
        assert!(!wire.windows(hidden.len()).any(|part| part == hidden), "it is in clear");
    }
}
