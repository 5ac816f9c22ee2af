//! What the sides of an encrypted connection read from another machine that has no certificate.
//!
//! The first byte says which side reads, and how: bytes from the beginning, or after the first
//! words of a side that is right, of which one byte is changed.

#![no_main]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use plasmon_certs::{Authority, Subject, Validity};
use plasmon_net::fake::{FakeNet, FakeNode, FakeOptions, FakeStream};
use plasmon_net::handshake::{
    Cluster, Encryption, KnownPeers, Lane, Local, NodeIdentity, ProtocolRange, Purpose, Token,
};
use plasmon_net::tls::{Credentials, Pem, SecureStream, uri_of};
use plasmon_net::{Greeting, HANDSHAKE_TIMEOUT, Stream};

const ONE: FakeNode = FakeNode(1);
const TWO: FakeNode = FakeNode(2);

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let net = FakeNet::new(FakeOptions { seed: u64::from(*mode), ..FakeOptions::default() });
    net.listen(TWO);
    let Ok(mut hostile) = net.connect(ONE, TWO) else { return };
    let Some((victim, _)) = net.accept(TWO) else { return };
    let sent = if mode & 2 == 0 { bytes.to_vec() } else { changed_hello(bytes) };
    send(&mut hostile, &sent);
    let node = local();
    let purpose = Purpose { lane: Lane::Control, node: None };
    let mut greeting = if mode & 1 == 0 {
        let stream = SecureStream::accept(victim, Some(credentials()));
        Greeting::accept(stream, node, [2; 32], Duration::ZERO)
    } else {
        let stream = SecureStream::connect(victim, &credentials());
        let Ok(stream) = stream else { unreachable!("the certificate can be used") };
        Greeting::connect(stream, node, purpose, [2; 32], Duration::ZERO)
    };
    // What is here is read, and then the connection ends.
    for _ in 0..1000 {
        match greeting.drive(Duration::ZERO) {
            Ok(peer) => assert!(peer.is_none(), "a lane opened without a certificate"),
            Err(_) => return,
        }
        hostile.close();
    }
    assert!(greeting.drive(HANDSHAKE_TIMEOUT).is_err(), "it has a deadline");
});

fn send(stream: &mut FakeStream, mut bytes: &[u8]) {
    while let Ok(count) = stream.send(bytes, false) {
        bytes = &bytes[count..];
        if bytes.is_empty() {
            return;
        }
    }
}

/// The first words of a side that connects, of which one byte is changed, and then other bytes.
fn changed_hello(bytes: &[u8]) -> Vec<u8> {
    static HELLO: OnceLock<Vec<u8>> = OnceLock::new();
    let mut hello = HELLO.get_or_init(hello).clone();
    let [at, how, rest @ ..] = bytes else { return hello };
    let place = usize::from(*at) * hello.len() / 256;
    hello[place] ^= how;
    hello.extend_from_slice(rest);
    hello
}

fn hello() -> Vec<u8> {
    let net = FakeNet::new(FakeOptions::default());
    net.listen(TWO);
    let near = net.connect(ONE, TWO).expect("the node listens");
    let (mut far, _) = net.accept(TWO).expect("it was connected");
    let mut side = SecureStream::connect(near, &credentials()).expect("the certificate is right");
    for _ in 0..1000 {
        let waits = side.establish();
        assert!(waits.is_err(), "there is no answer");
    }
    let (mut hello, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count) = far.recv(&mut piece) {
        hello.extend_from_slice(&piece[..count]);
    }
    hello
}

fn credentials() -> Arc<Credentials> {
    static CREDENTIALS: OnceLock<Arc<Credentials>> = OnceLock::new();
    let make = || {
        let validity = Validity { from: 0, until: 4_000_000_000 };
        let authority = Authority::make("prod", validity).expect("it is made");
        let subject = Subject { name: "a", uri: &uri_of("prod", "a") };
        let issued = authority.issue(&subject, validity).expect("it is made");
        let pem = Pem {
            certificate: issued.certificate.as_bytes(),
            key: issued.key.as_bytes(),
            authority: authority.certificate().as_bytes(),
            revoked: None,
        };
        let made = Credentials::new(pem, "prod", "a", 1_800_000_000);
        Arc::new(made.expect("the certificate is right"))
    };
    CREDENTIALS.get_or_init(make).clone()
}

fn local() -> Arc<Local> {
    Arc::new(Local {
        cluster: Cluster::new("prod", [9; 16]).expect("the name is short"),
        node: NodeIdentity { uuid: [1; 16], slot: 1, boot: 1, incarnation: 1 },
        protocols: ProtocolRange::new(1, 3).expect("the range is in order"),
        token: Token::new(&[1; 32]).expect("the token is long enough"),
        encryption: Encryption::Control,
        peers: KnownPeers::default(),
    })
}
