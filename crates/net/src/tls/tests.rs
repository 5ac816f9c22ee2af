//! What the tests over whole connections do not reach.

use super::*;
use crate::Stream;
use crate::fake::{FakeNet, FakeNode, FakeOptions};

#[test]
fn an_accepted_connection_is_what_its_first_byte_says() {
    let net = FakeNet::new(FakeOptions::default());
    net.listen(FakeNode(2));
    let mut one = net.connect(FakeNode(1), FakeNode(2)).unwrap();
    let (two, _) = net.accept(FakeNode(2)).unwrap();
    let mut two = SecureStream::accept(two, None);
    let mut into = [0; 8];
    let waits = two.recv(&mut into).unwrap_err();
    assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    assert!(two.wants_write(true) && !two.wants_write(false) && !two.has_buffered());
    assert_eq!(one.send(b"x", false).unwrap(), 1);
    assert_eq!((two.recv(&mut into).unwrap(), into[0]), (1, b'x'));
    assert!(two.certified().is_none());
    assert_eq!(two.send(b"y", false).unwrap(), 1, "the answer is not encrypted either");
    assert_eq!((one.recv(&mut into).unwrap(), into[0]), (1, b'y'));
    one.close();
    assert_eq!(two.recv(&mut into).unwrap(), 0);
}

#[test]
fn a_connection_that_ends_before_its_first_byte_has_ended() {
    let net = FakeNet::new(FakeOptions::default());
    net.listen(FakeNode(2));
    drop(net.connect(FakeNode(1), FakeNode(2)).unwrap());
    // It ended, and is accepted all the same.
    let Some((two, _)) = net.accept(FakeNode(2)) else { return };
    let mut two = SecureStream::accept(two, None);
    assert_eq!(two.recv(&mut [0; 8]).unwrap(), 0);
}
