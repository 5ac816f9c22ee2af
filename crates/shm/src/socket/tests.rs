//! Sockets: message borders, descriptors, peers, and who may listen.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::eventfd::Doorbell;

fn pair() -> (Connection, Connection) {
    Connection::pair().unwrap()
}

#[test]
fn messages_keep_their_borders_and_order() {
    let (one, other) = pair();
    for bytes in [1, 2, 1000, FRAME_BYTES_MAX] {
        one.send(&vec![bytes as u8; bytes], &[]).unwrap();
    }
    let mut message = Vec::new();
    for bytes in [1, 2, 1000, FRAME_BYTES_MAX] {
        let received = other.recv(&mut message, true).unwrap();
        assert_eq!((received.bytes, received.truncated), (bytes, false));
        assert_eq!(message, vec![bytes as u8; bytes]);
    }
    let nothing = other.recv(&mut message, false).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    drop(one);
    assert_eq!(other.recv(&mut message, true).unwrap().bytes, 0, "the end");
    assert_eq!(other.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn messages_past_their_limits_are_not_sent() {
    let (one, other) = pair();
    let refused =
        |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::InvalidInput;
    assert!(refused(one.send(&[], &[])), "it would read as the end");
    assert!(refused(one.send(&vec![0; FRAME_BYTES_MAX + 1], &[])));
    let doorbell = Doorbell::new().unwrap();
    assert!(refused(one.send(b"x", &[doorbell.as_fd(); FRAME_FDS_MAX + 1])));
    one.send(b"x", &[doorbell.as_fd(); FRAME_FDS_MAX]).unwrap();
    let received = other.recv(&mut Vec::new(), true).unwrap();
    assert_eq!((received.fds.len(), received.truncated), (FRAME_FDS_MAX, false));
}

#[test]
fn descriptors_arrive_working_and_close_on_exec() {
    let (one, other) = pair();
    let doorbell = Doorbell::new().unwrap();
    one.send(b"doorbell", &[doorbell.as_fd()]).unwrap();
    let mut received = other.recv(&mut Vec::new(), true).unwrap();
    let fd = received.fds.pop().unwrap();
    assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    Doorbell::adopt(fd).ring().unwrap();
    assert!(doorbell.answer().unwrap());
}

#[test]
fn a_message_that_is_too_long_is_reported() {
    let (one, other) = pair();
    // A peer that keeps no limits sends a longer message than a frame may have.
    let long = vec![1; FRAME_BYTES_MAX + 10];
    rustix::net::send(&one, &long, SendFlags::empty()).unwrap();
    let received = other.recv(&mut Vec::new(), true).unwrap();
    assert_eq!((received.bytes, received.truncated), (FRAME_BYTES_MAX, true));

    // And one with more descriptors than a message may carry.
    let doorbell = Doorbell::new().unwrap();
    let fds = vec![doorbell.as_fd(); FRAME_FDS_MAX + 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FRAME_FDS_MAX + 4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let parts = [IoSlice::new(b"x")];
    rustix::net::sendmsg(&one, &parts, &mut ancillary, SendFlags::empty()).unwrap();
    let received = other.recv(&mut Vec::new(), true).unwrap();
    assert!(received.truncated);
    assert_eq!(received.fds.len(), FRAME_FDS_MAX + 4, "the kernel closes none on its own");
}

#[test]
fn a_full_connection_does_not_block_a_nonblocking_send() {
    let (one, other) = pair();
    let message = vec![0; 4096];
    let full = loop {
        if let Err(error) = one.try_send(&message, &[]) {
            break error;
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    other.recv(&mut Vec::new(), true).unwrap();
    one.try_send(&message, &[]).unwrap();
    one.set_nonblocking(true).unwrap();
    while one.send(&message, &[]).is_ok() {}
    one.shutdown().unwrap();
    while other.recv(&mut Vec::new(), true).unwrap().bytes > 0 {}
}

#[test]
fn the_peer_is_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind(&path, 0o600).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let client = Connection::connect(&path).unwrap();
    let server = listener.accept().unwrap();
    let peer = server.peer().unwrap();
    assert_eq!(peer.pid, std::process::id());
    assert_eq!(peer.uid, rustix::process::getuid().as_raw());
    assert_eq!(peer.gid, rustix::process::getgid().as_raw());
    assert!(server.process().unwrap().is_alive().unwrap());
    client.send(b"hello", &[]).unwrap();
    assert_eq!(server.recv(&mut Vec::new(), true).unwrap().bytes, 5);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_second_daemon_is_refused_and_a_stale_socket_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = Listener::bind(&path, 0o600).unwrap();
    let second = Listener::bind(&path, 0o600);
    assert!(matches!(second, Err(BindError::AlreadyRunning { .. })), "{second:?}");
    Connection::connect(&path).unwrap();

    // The first one dies without removing anything.
    drop(first);
    assert!(path.exists() && lock_path(&path).exists());
    assert!(Connection::connect(&path).is_err());
    let third = Listener::bind(&path, 0o660).unwrap();
    Connection::connect(&path).unwrap();
    third.remove().unwrap();
    assert!(!path.exists());
    Listener::bind(&path, 0o600).unwrap();
}

#[test]
fn a_listener_that_was_passed_on_keeps_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = Listener::bind(&path, 0o600).unwrap();
    let (socket, lock) = listener.duplicate().unwrap();
    drop(listener);
    assert!(matches!(Listener::bind(&path, 0o600), Err(BindError::AlreadyRunning { .. })));
    let adopted = Listener::adopt(socket, lock);
    let _client = Connection::connect(&path).unwrap();
    adopted.accept().unwrap();
    drop(adopted);
    Listener::bind(&path, 0o600).unwrap();
}

#[test]
fn what_is_not_a_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    assert!(matches!(Listener::bind(&path, 0o600), Err(BindError::NotASocket { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
    let long = folder.path().join("x".repeat(120));
    assert!(matches!(Listener::bind(&long, 0o600), Err(BindError::PathTooLong { .. })));
    let nowhere = folder.path().join("no/such/folder");
    assert!(matches!(Listener::bind(&nowhere, 0o600), Err(BindError::Io { .. })));
}

#[test]
fn what_the_other_end_has_not_received_is_known() {
    let (one, other) = pair();
    assert!(!one.has_unread().unwrap());
    one.send(b"x", &[]).unwrap();
    one.send(b"y", &[]).unwrap();
    other.recv(&mut Vec::new(), true).unwrap();
    assert!(one.has_unread().unwrap());
    other.recv(&mut Vec::new(), true).unwrap();
    assert!(!one.has_unread().unwrap());
}

#[test]
fn a_socket_that_is_served_is_not_taken_although_its_lock_was_removed() {
    // A tidy soul removed the lock, and a second daemon took the first one's place silently.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sock");
    let first = Listener::bind(&path, 0o600).unwrap();
    std::fs::remove_file(lock_path(&path)).unwrap();
    assert!(matches!(Listener::bind(&path, 0o600), Err(BindError::AlreadyRunning { .. })));
    assert!(Connection::connect(&path).is_ok());
    drop(first);
    assert!(Listener::bind(&path, 0o600).is_ok(), "it is not served any more");
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sock");
    let elsewhere = folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, lock_path(&path)).unwrap();
    assert!(matches!(Listener::bind(&path, 0o600), Err(BindError::Io { .. })));
    assert!(!elsewhere.exists());
}
