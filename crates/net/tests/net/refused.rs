//! What a node that encrypts refuses, and with which words; both sides learn it at once.

use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_certs::{Authority, Issued, Revocation};
use plasmon_net::handshake::{Encryption, Lane, Local, Peer, Purpose, Refusal};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_net::tls::{Credentials, Fault, Pem, SecureStream};
use plasmon_net::{Admitted, Error, Greeting, Stream};
use plasmon_testkit::{Random, TEST_TIMEOUT};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use crate::conformance::local;
use crate::tls::{CLUSTER, authority, credentials, days, issue, now, well};

type Side = Greeting<SecureStream<TcpStream>>;
type Outcome = Result<Admitted<SecureStream<TcpStream>>, Error>;

/// Nothing here takes as long as the deadline of a handshake.
const NOW: Duration = Duration::ZERO;

/// Node 1 is `a`, and node 2 is `b`.
fn node(number: u8, encryption: Encryption) -> Arc<Local> {
    let local = local(number, |local| local.encryption = encryption);
    local.peers.set_names([([1; 16], "a"), ([2; 16], "b")].into_iter());
    local
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let one = TcpStream::connect(listener.address().unwrap()).unwrap();
    (one, accepted(&listener))
}

fn accepted(listener: &TcpListener) -> TcpStream {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the connection does not come");
        if let Some((stream, _)) = listener.accept().unwrap() {
            return stream;
        }
    }
}

/// A side that connects, encrypted with these credentials or not.
fn connecting(
    stream: TcpStream,
    local: &Arc<Local>,
    credentials: Option<&Arc<Credentials>>,
    lane: Lane,
) -> Side {
    let stream = match credentials {
        Some(credentials) => SecureStream::connect(stream, credentials).unwrap(),
        None => SecureStream::plain(stream),
    };
    let purpose = Purpose { lane, node: Some([2; 16]) };
    Greeting::connect(stream, local.clone(), purpose, [1; 32], NOW)
}

fn accepting(
    stream: TcpStream,
    local: &Arc<Local>,
    credentials: Option<&Arc<Credentials>>,
) -> Side {
    let stream = SecureStream::accept(stream, credentials.cloned());
    Greeting::accept(stream, local.clone(), [2; 32], NOW)
}

/// Drives both sides until each has ended; one that has is closed, as a node does it.
fn meet(one: Side, two: Side) -> [Outcome; 2] {
    let mut sides = [Some(one), Some(two)];
    let mut outcomes: [Option<Outcome>; 2] = [None, None];
    let begun = Instant::now();
    while outcomes.iter().any(Option::is_none) {
        assert!(begun.elapsed() < TEST_TIMEOUT, "a side waits: {outcomes:?}");
        for (side, outcome) in sides.iter_mut().zip(&mut outcomes) {
            let Some(driven) = side.as_mut().and_then(|side| side.drive(NOW).transpose()) else {
                continue;
            };
            let side = side.take().unwrap();
            *outcome = Some(driven.map(|peer: Peer| side.into_admitted(peer)));
        }
        std::thread::yield_now();
    }
    outcomes.map(Option::unwrap)
}

/// Two nodes with these credentials open a control lane.
fn control(one: &Arc<Credentials>, two: &Arc<Credentials>) -> [Outcome; 2] {
    let (near, far) = connection();
    let [a, b] = [1, 2].map(|number| node(number, Encryption::Control));
    meet(connecting(near, &a, Some(one), Lane::Control), accepting(far, &b, Some(two)))
}

/// The words of the side that refuses, and those of the other one.
fn words(refusing: &Outcome, refused: &Outcome) -> [String; 2] {
    [refusing, refused].map(|outcome| outcome.as_ref().unwrap_err().to_string())
}

/// What a node has whose authorities are these.
fn trusting(
    issued: &Issued,
    authorities: &[&Authority],
    cluster: &str,
    node: &str,
) -> Arc<Credentials> {
    let trusted: String = authorities.iter().map(|authority| authority.certificate()).collect();
    let pem = Pem {
        certificate: issued.certificate.as_bytes(),
        key: issued.key.as_bytes(),
        authority: trusted.as_bytes(),
        revoked: None,
    };
    Arc::new(Credentials::new(pem, cluster, node, now()).unwrap())
}

#[test]
fn certificates_that_are_not_current_or_of_others_are_refused_with_their_names() {
    let foreign = Authority::make(CLUSTER, days(-1, 100)).unwrap();
    let both = [&foreign, authority()];
    let expired = issue(authority(), CLUSTER, "a", days(-9, -2));
    let early = issue(authority(), CLUSTER, "a", days(2, 9));
    // Nodes do not begin with a certificate that none of their authorities signed, nor with one of
    // another pool. An attacker does.
    let of_foreign = trusting(&issue(&foreign, CLUSTER, "a", days(-1, 9)), &both, CLUSTER, "a");
    let other_pool = trusting(&issue(authority(), "test", "a", days(-1, 9)), &both, "test", "a");
    let good = well("a");
    let (expired, early) =
        (credentials(&expired, "a", None).unwrap(), credentials(&early, "a", None).unwrap());
    for (bad, is_connecting, ours, theirs) in [
        (&expired, true, "has expired on", "it has expired"),
        (&expired, false, "has expired on", "it has expired"),
        (&early, true, "is not valid before", "is not valid yet"),
        (&early, false, "is not valid before", "is not valid yet"),
        (&of_foreign, true, "is not of the authority", "another authority"),
        (&of_foreign, false, "is not of the authority", "another authority"),
        // The connecting side looks first, and the other pool would refuse this one.
        (&other_pool, false, "for no node of pool prod", "for no node of the peer's pool"),
    ] {
        let (refusing, refused) = if is_connecting {
            let [refused, refusing] = control(bad, &good);
            (refusing, refused)
        } else {
            let [refusing, refused] = control(&good, bad);
            (refusing, refused)
        };
        let [told, said] = words(&refusing, &refused);
        assert!(told.contains("node a of pool") && told.contains(ours), "{told}");
        assert!(said.contains("refuses the certificate") && said.contains(theirs), "{said}");
    }
}

#[test]
fn a_certificate_that_is_revoked_is_refused_and_known_to_be_on_open_lanes() {
    let issued = issue(authority(), CLUSTER, "a", days(-1, 9));
    let list = |revoked: &[Revocation]| authority().revoke(revoked, 1, days(-1, 9)).unwrap();
    let other = issue(authority(), CLUSTER, "a", days(-1, 9));
    let revoked = list(&[Revocation { serial: issued.serial, at: now() - 5 }]);
    let ours = issue(authority(), CLUSTER, "b", days(-1, 9));
    let before = credentials(&ours, "b", Some(&list(&[]))).unwrap();
    let after = credentials(&ours, "b", Some(&revoked)).unwrap();
    let bad = credentials(&issued, "a", None).unwrap();

    let [refused, refusing] = control(&bad, &after);
    let [told, said] = words(&refusing, &refused);
    assert!(told.contains("node a of pool prod") && told.contains("is revoked"), "{told}");
    assert!(said.contains("refuses the certificate") && said.contains("is revoked"), "{said}");

    // The lane was opened before that.
    let [_one, two] = control(&bad, &before);
    let two = two.unwrap();
    let certified = two.stream.certified().unwrap();
    assert_eq!(before.revoked(certified), None);
    assert!(matches!(after.revoked(certified), Some(Fault::Revoked { .. })));

    // Another certificate of the node is taken.
    let [one, two] = control(&credentials(&other, "a", None).unwrap(), &after);
    assert!(one.is_ok() && two.is_ok(), "{one:?}, {two:?}");
}

#[test]
fn the_certificate_of_another_node_of_the_pool_is_refused() {
    for (one, two) in [("c", "b"), ("a", "c"), ("b", "a")] {
        let [first, second] = control(&well(one), &well(two));
        let texts = [&first, &second].map(|outcome| match outcome {
            Err(Error::Refused(Refusal::Certificate)) => "refuses",
            Err(Error::RefusedByPeer(Refusal::Certificate)) => "is refused",
            other => panic!("{one}, {two}: {other:?}"),
        });
        // The accepting side looks first.
        let expected =
            if one == "a" { ["refuses", "is refused"] } else { ["is refused", "refuses"] };
        assert_eq!(texts, expected);
    }
}

#[test]
fn sides_of_which_one_does_not_encrypt_tell_each_other() {
    let (good, begun) = (well("a"), Instant::now());
    let (near, far) = connection();
    let (plain, encrypting) = (node(1, Encryption::Nothing), node(2, Encryption::Control));
    let [one, two] = meet(
        connecting(near, &plain, None, Lane::Control),
        accepting(far, &encrypting, Some(&good)),
    );
    assert!(matches!(one, Err(Error::RefusedByPeer(Refusal::Unencrypted))), "{one:?}");
    assert!(matches!(two, Err(Error::Refused(Refusal::Unencrypted))), "{two:?}");

    let (near, far) = connection();
    let (encrypting, plain) = (node(1, Encryption::Control), node(2, Encryption::Nothing));
    let [one, two] = meet(
        connecting(near, &encrypting, Some(&good), Lane::Control),
        accepting(far, &plain, None),
    );
    assert!(matches!(one, Err(Error::RefusedByPeer(Refusal::NoCertificate))), "{one:?}");
    assert!(matches!(two, Err(Error::Tls(Fault::NotConfigured))), "{two:?}");

    // Neither is it another program.
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"PLNFxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] {
        let (near, mut far) = connection();
        let mut one = connecting(near, &encrypting, Some(&good), Lane::Control);
        assert!(far.send(answer, false).is_ok());
        let error = end_of(&mut one);
        assert!(matches!(error, Error::Tls(_)), "{error}");
    }
    assert!(begun.elapsed() < TEST_TIMEOUT);
}

fn end_of(side: &mut Side) -> Error {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < TEST_TIMEOUT, "it does not end");
        match side.drive(NOW) {
            Ok(None) => std::thread::yield_now(),
            Ok(Some(peer)) => panic!("{peer:?}"),
            Err(error) => return error,
        }
    }
}

#[test]
fn bulk_lanes_in_clear_belong_to_an_encrypted_control_lane() {
    let [a, b] = [1, 2].map(|number| node(number, Encryption::Control));
    let [one, two] = {
        let (near, far) = connection();
        let (near, far) = (
            connecting(near, &a, Some(&well("a")), Lane::Control),
            accepting(far, &b, Some(&well("b"))),
        );
        meet(near, far).map(Result::unwrap)
    };
    assert!(one.bulk_token.is_some() && one.bulk_token == two.bulk_token);
    let bulk = |a: &Arc<Local>, b: &Arc<Local>| {
        let (near, far) = connection();
        meet(connecting(near, a, None, Lane::Bulk(1)), accepting(far, b, Some(&well("b"))))
    };
    // Without what the control lane has agreed on, the token of the pool does not open them.
    let [_, refusing] = bulk(&a, &b);
    assert!(matches!(refusing, Err(Error::Refused(Refusal::Token))), "{refusing:?}");
    let [_, refusing] = bulk(&node(1, Encryption::Nothing), &b);
    assert!(matches!(refusing, Err(Error::Refused(Refusal::Token))), "{refusing:?}");
    a.peers.set_bulk_token(&one.peer.node, one.bulk_token.clone());
    b.peers.set_bulk_token(&two.peer.node, two.bulk_token.clone());
    let opened = bulk(&a, &b);
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    let opened = opened.map(Result::unwrap);
    assert!(opened.iter().all(|side| side.stream.certified().is_none()));
    assert!(opened.iter().all(|side| side.bulk_token.is_none()));

    // A node that encrypts everything says so, and an encrypted lane is taken by both kinds.
    let everything = node(2, Encryption::Everything);
    let [refused, _] = bulk(&a, &everything);
    assert!(matches!(refused, Err(Error::RefusedByPeer(Refusal::Unencrypted))), "{refused:?}");
    for accepting_node in [&everything, &b] {
        let (near, far) = connection();
        let near = connecting(near, &a, Some(&well("a")), Lane::Bulk(0));
        let opened = meet(near, accepting(far, accepting_node, Some(&well("b"))));
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    }
}

#[test]
fn a_side_without_a_certificate_is_refused() {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let mut socket = StdStream::connect(listener.address().unwrap()).unwrap();
    let far = accepted(&listener);
    let thread = std::thread::spawn(move || {
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Trusting))
                .with_no_client_auth();
        let name = ServerName::try_from("node.invalid").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        let _ = stream.write_all(b"what is sent is never read");
        stream.read(&mut [0; 10]).unwrap_err().to_string()
    });
    let b = node(2, Encryption::Control);
    let error = end_of(&mut accepting(far, &b, Some(&well("b"))));
    assert!(matches!(error, Error::Tls(Fault::NoCertificate)), "{error}");
    let told = thread.join().unwrap();
    assert!(told.contains("CertificateRequired"), "{told}");
}

/// Trusts every server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// The first bytes of a side that connects.
fn hello() -> Vec<u8> {
    let (near, mut far) = connection();
    let a = node(1, Encryption::Control);
    let mut side = connecting(near, &a, Some(&well("a")), Lane::Control);
    assert!(matches!(side.drive(NOW), Ok(None)));
    let mut bytes = vec![0; 4096];
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < TEST_TIMEOUT, "nothing comes");
        match far.recv(&mut bytes) {
            Ok(count) => {
                bytes.truncate(count);
                return bytes;
            }
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// What an accepting side ends with that gets these bytes, and then the end of the connection.
fn after(bytes: &[u8], b: &Arc<Local>, credentials: &Arc<Credentials>) -> Error {
    let (mut near, far) = connection();
    let mut unsent = bytes;
    while !unsent.is_empty() {
        unsent = &unsent[near.send(unsent, false).unwrap_or(0)..];
    }
    near.close();
    end_of(&mut accepting(far, b, Some(credentials)))
}

#[test]
fn damaged_and_cut_handshakes_end_their_connection_alone() {
    let (hello, b, good) = (hello(), node(2, Encryption::Control), well("b"));
    assert_eq!(hello[0], 0x16);
    for cut in (0..hello.len()).step_by(3) {
        let error = after(&hello[..cut], &b, &good);
        assert!(matches!(error, Error::Closed { .. }), "{cut} bytes: {error}");
    }
    let mut random = Random::new(1);
    for _ in 0..100 {
        let mut damaged = hello.clone();
        let at = random.size_below(damaged.len());
        damaged[at] ^= 1 << random.below(8);
        // What is ignored of a hello may be changed: then the side waits for what follows.
        let error = after(&damaged, &b, &good);
        let is_expected =
            matches!(error, Error::Tls(_) | Error::Closed { .. } | Error::Frame(_) | Error::Io(_));
        assert!(is_expected, "byte {at}: {error}");
    }
    for length in [5_usize, 300, 17_000, 70_000] {
        let garbage = [&[0x16, 3, 1][..], &plasmon_testkit::pattern(7, length)].concat();
        let error = after(&garbage, &b, &good);
        assert!(matches!(error, Error::Tls(_) | Error::Closed { .. } | Error::Io(_)), "{error}");
    }
    let [one, two] = control(&well("a"), &good);
    assert!(one.is_ok() && two.is_ok(), "another connection is as before");
}

#[test]
fn files_that_cannot_be_used_are_named_by_their_settings() {
    let (good, other) = (issue(authority(), CLUSTER, "a", days(-1, 9)), well("a"));
    let foreign = Authority::make("x", days(-1, 9)).unwrap();
    let of_foreign = issue(&foreign, CLUSTER, "a", days(-1, 9));
    let list = |by: &Authority| by.revoke(&[], 1, days(-1, 9)).unwrap();
    let own = authority().revoke(&[Revocation { serial: good.serial, at: 5 }], 1, days(-1, 9));
    let (own, list, foreign_list) = (own.unwrap(), list(authority()), list(&foreign));
    let ca = authority().certificate();
    let another = issue(authority(), CLUSTER, "a", days(-1, 9));
    let cases: [(&str, &str, &str, Option<&str>, &str); 11] = [
        ("", &good.key, ca, None, "pool_tls_cert: the file has no certificate"),
        ("-----BEGIN CERTIFICATE-----\n", &good.key, ca, None, "pool_tls_cert: the file is no PEM"),
        (&good.certificate, "", ca, None, "pool_tls_key: the file has no private key"),
        (&good.certificate, &another.key, ca, None, "pool_tls_key: it is no key of"),
        (&good.certificate, &good.key, "", None, "pool_tls_ca: the file has no certificate"),
        (&good.certificate, &good.key, foreign.certificate(), None, "no authority in the file"),
        (&of_foreign.certificate, &of_foreign.key, ca, None, "no authority in the file"),
        (&good.certificate, &good.key, ca, Some(""), "pool_tls_crl: the file has no list"),
        (
            &good.certificate,
            &good.key,
            ca,
            Some(foreign_list.as_str()),
            "pool_tls_crl: a list is of no",
        ),
        (&good.certificate, &good.key, ca, Some(own.as_str()), "pool_tls_cert: it is revoked"),
        (&good.certificate, &good.key, ca, Some(ca), "pool_tls_crl: the file has no list"),
    ];
    let load = |certificate: &str, key: &str, ca: &str, revoked: Option<&str>, node: &str| {
        let pem = Pem {
            certificate: certificate.as_bytes(),
            key: key.as_bytes(),
            authority: ca.as_bytes(),
            revoked: revoked.map(str::as_bytes),
        };
        Credentials::new(pem, CLUSTER, node, now())
    };
    for (certificate, key, ca, revoked, expected) in cases {
        let error = load(certificate, key, ca, revoked, "a").unwrap_err().to_string();
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
    let error = load(&good.certificate, &good.key, ca, None, "b").unwrap_err().to_string();
    let expected = "it is for node a of pool prod, and not for node b of pool prod";
    assert!(error.contains(expected), "{error}");
    let taken = load(&good.certificate, &good.key, ca, Some(list.as_str()), "a").unwrap();
    assert_eq!(taken.not_current(now()), None);
    let end = taken.not_after().unwrap();
    assert!(end.abs_diff(now() + 9 * 86_400) < 60, "{end}");
    let late = taken.not_current(end + 1).unwrap().to_string();
    assert!(late.starts_with("pool_tls_cert: it has expired on "), "{late}");
    assert!(taken.not_current(now() - 2 * 86_400).unwrap().why.contains("is the clock wrong?"));
    assert!(other.not_after().is_some());
}
