use super::*;

const ONE: FakeNode = FakeNode(1);
const TWO: FakeNode = FakeNode(2);

fn connected(options: FakeOptions) -> (FakeNet, FakeStream, FakeStream) {
    let net = FakeNet::new(options);
    net.listen(TWO);
    let one = net.connect(ONE, TWO).unwrap();
    let (two, from) = net.accept(TWO).unwrap();
    assert_eq!(from, ONE);
    (net, one, two)
}

fn path(delay_ms: u64) -> Path {
    Path { delay: Duration::from_millis(delay_ms), ..Path::default() }
}

fn send_all(stream: &mut FakeStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        bytes = &bytes[stream.send(bytes, false).unwrap()..];
    }
}

/// What has arrived.
fn receive(stream: &mut FakeStream) -> Vec<u8> {
    let (mut all, mut into) = (Vec::new(), [0; 100]);
    while let Ok(count) = stream.recv(&mut into) {
        if count == 0 {
            break;
        }
        all.extend_from_slice(&into[..count]);
    }
    all
}

fn kind_of(result: io::Result<usize>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn bytes_arrive_after_the_delay_and_at_the_rate_of_their_path() {
    let (net, mut one, mut two) =
        connected(FakeOptions { piece_bytes_max: 1, ..FakeOptions::default() });
    net.set_path(ONE, TWO, Path { bytes_per_second: Some(1000), ..path(10) });
    send_all(&mut one, b"abc");
    assert_eq!(net.next_event(), Some(Duration::from_millis(11)));
    assert_eq!(kind_of(two.recv(&mut [0; 9])), io::ErrorKind::WouldBlock);
    net.advance_to(Duration::from_millis(11));
    assert_eq!(receive(&mut two), b"a");
    assert_eq!(net.next_event(), Some(Duration::from_millis(12)));
    net.set_path(ONE, TWO, path(0));
    send_all(&mut one, b"d");
    net.advance_to(Duration::from_millis(13));
    assert_eq!(receive(&mut two), b"bcd", "a shorter delay does not change the order");
    send_all(&mut two, b"x");
    assert_eq!(receive(&mut one), b"x", "the way back has a path of its own");
}

#[test]
fn a_cut_path_holds_what_is_sent_until_it_is_mended() {
    let (net, mut one, mut two) = connected(FakeOptions::default());
    net.set_path(ONE, TWO, Path { is_cut: true, ..Path::default() });
    send_all(&mut one, b"abc");
    one.close();
    net.advance_to(Duration::from_secs(1000));
    assert_eq!((net.next_event(), receive(&mut two)), (None, Vec::new()));
    send_all(&mut two, b"back");
    assert_eq!(receive(&mut one), b"back", "the other way is not cut");
    net.set_path(ONE, TWO, path(5));
    assert_eq!(receive(&mut two), b"");
    net.advance_to(net.next_event().unwrap());
    assert_eq!(receive(&mut two), b"abc");
    assert_eq!(two.recv(&mut [0; 9]).unwrap(), 0, "then the end");
}

#[test]
fn a_full_buffer_blocks_its_sender_until_it_is_read() {
    let (_, mut one, mut two) =
        connected(FakeOptions { buffer_bytes: 3, ..FakeOptions::default() });
    send_all(&mut one, b"abc");
    assert_eq!(kind_of(one.send(b"d", false)), io::ErrorKind::WouldBlock);
    assert_eq!(two.recv(&mut [0; 1]).unwrap(), 1);
    assert_eq!(one.send(b"d", false).unwrap(), 1);
}

#[test]
fn a_reset_ends_both_sides_and_loses_what_is_unread() {
    let (net, mut one, mut two) = connected(FakeOptions::default());
    send_all(&mut one, b"abc");
    net.reset_between(TWO, FakeNode(3));
    assert_eq!(two.recv(&mut [0; 1]).unwrap(), 1, "another pair of nodes");
    net.reset_node(TWO);
    assert_eq!(kind_of(two.recv(&mut [0; 9])), io::ErrorKind::ConnectionReset);
    assert_eq!(kind_of(one.send(b"d", false)), io::ErrorKind::ConnectionReset);
}

#[test]
fn connections_are_refused_where_no_node_listens() {
    let net = FakeNet::new(FakeOptions::default());
    let refused = net.connect(ONE, TWO).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    net.listen(TWO);
    let mut one = net.connect(ONE, TWO).unwrap();
    net.stop_listening(TWO);
    assert_eq!(kind_of(one.recv(&mut [0; 9])), io::ErrorKind::ConnectionReset);
    net.listen(TWO);
    drop(net.connect(ONE, TWO).unwrap());
    let (mut two, _) = net.accept(TWO).unwrap();
    assert_eq!(two.recv(&mut [0; 9]).unwrap(), 0, "it ended before it was accepted");
    assert_eq!(kind_of(two.send(b"a", false)), io::ErrorKind::BrokenPipe);
    drop(two);
    drop(one);
    assert!(net.0.borrow().connections.is_empty(), "what is over is forgotten");
}

/// The same seed gives the same pieces, and another one others.
#[test]
fn a_run_follows_from_its_seed() {
    let pieces = |seed| {
        let (_, mut one, mut two) = connected(FakeOptions { seed, ..FakeOptions::default() });
        let sent: Vec<usize> = (0..9).map(|_| one.send(&[0; 1000], false).unwrap()).collect();
        let received: Vec<usize> = (0..9).map(|_| two.recv(&mut [0; 1000]).unwrap()).collect();
        (sent, received)
    };
    assert_eq!(pieces(7), pieces(7));
    assert_ne!(pieces(7), pieces(8));
}
