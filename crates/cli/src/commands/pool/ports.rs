//! Whether this machine reaches every node of a pool at its port, and with full packets.
//!
//! A connection is tried to each node, and one packet as large as this machine's route allows is
//! sent over it. It is no handshake, so the node closes the connection, and that it does shows that
//! the packet came. Where the network drops large packets, small messages pass and objects do not.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use plasmon_cluster::{Map, Node};
use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

use crate::commands::check::{Check, Verdict, check};

/// Without an answer for so long a port, or a full packet, counts as not reachable.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Nodes that are tried at a time.
const TRIED_AT_A_TIME: usize = 64;

/// Of a packet, what is not content: the header of TCP with its time stamps, and that of IP.
const TCP_BYTES: u32 = 20 + 12;
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;

/// Every route carries packets of so many bytes, whatever the system says of it.
const MTU_MIN: u32 = 1280;

/// What connecting to a node showed.
struct Found {
    round_trip: Duration,
    /// Bytes of the largest packets of the route, where the system says so.
    mtu: Option<u32>,
}

/// Why a node is not reached as it should be.
enum Fault {
    /// No connection can be made.
    Port(io::Error),
    /// A packet of so many bytes got no answer.
    Packet(u32),
}

/// The port of each live node.
pub(super) fn checks(map: &Map) -> Vec<Check> {
    let live: Vec<&Node> = map.nodes().map(|(_, node)| node).filter(|it| it.is_live()).collect();
    let mut found = Vec::with_capacity(live.len());
    for nodes in live.chunks(TRIED_AT_A_TIME) {
        thread::scope(|scope| {
            let try_one = |node| scope.spawn(move || (node, try_node(node)));
            let tried: Vec<_> = nodes.iter().copied().map(try_one).collect();
            found.extend(tried.into_iter().filter_map(|thread| thread.join().ok()));
        });
    }
    let mut checks = Vec::new();
    let mut reached = Vec::new();
    for (node, found) in found {
        match found {
            Ok(found) => reached.push((node.member.name.as_str(), found)),
            Err(fault) => checks.push(fault_check(node, &fault)),
        }
    }
    checks.extend(reached_check(&reached));
    checks
}

/// Tries the addresses of a node, the best first.
fn try_node(node: &Node) -> Result<Found, Fault> {
    let mut why = Fault::Port(io::Error::new(ErrorKind::InvalidInput, "it names no address"));
    for address in &node.member.addresses {
        let all = address.to_socket_addrs().map(Iterator::collect).map_err(Fault::Port);
        let tried = all.and_then(|all: Vec<SocketAddr>| {
            let first = all.first().ok_or(ErrorKind::NotFound.into()).map_err(Fault::Port)?;
            try_address(first)
        });
        match tried {
            Ok(found) => return Ok(found),
            Err(fault) => why = fault,
        }
    }
    Err(why)
}

fn try_address(address: &SocketAddr) -> Result<Found, Fault> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(address, ANSWER_WITHIN).map_err(Fault::Port)?;
    let round_trip = begun.elapsed();
    let mtu = mtu_of(&stream, address);
    let packet = mtu.unwrap_or(MTU_MIN);
    let closes = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(&vec![0; content_bytes(packet, address)])?;
        stream.read(&mut [0; 64])
    };
    match closes(&mut stream) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(Fault::Packet(packet))
        }
        // However it ended the connection, it did.
        _ => Ok(Found { round_trip, mtu }),
    }
}

/// Bytes of the largest packets of a connection's route.
fn mtu_of(stream: &TcpStream, to: &SocketAddr) -> Option<u32> {
    if to.is_ipv4() { ip_mtu(stream).ok() } else { ipv6_mtu(stream).ok() }
}

/// What fits into one packet.
fn content_bytes(packet: u32, to: &SocketAddr) -> usize {
    let ip = if to.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
    packet.saturating_sub(ip + TCP_BYTES) as usize
}

fn fault_check(node: &Node, fault: &Fault) -> Check {
    let name = &node.member.name;
    let addresses = node.member.addresses.join(", ");
    let bad = |found: String, advice: &str| check("pool port", Verdict::Bad, found).advise(advice);
    match fault {
        Fault::Port(error) => bad(
            format!("node {name} is not reached at {addresses}: {error}"),
            "let firewalls pass its port, or give the node an address that all machines reach with \
             --pool-listen",
        ),
        Fault::Packet(bytes) => bad(
            format!(
                "node {name} at {addresses} takes connections, and does not answer a packet of \
                 {bytes} bytes"
            ),
            "its pool daemon may be stopped; otherwise give all interfaces between the nodes the \
             same MTU, and let firewalls pass ICMP",
        ),
    }
}

/// What all nodes that are reached have in common; `None` without any.
fn reached_check(reached: &[(&str, Found)]) -> Option<Check> {
    let longest = reached.iter().map(|(_, found)| found.round_trip).max()?;
    let mut sizes: Vec<u32> = reached.iter().filter_map(|(_, found)| found.mtu).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let ms = longest.as_secs_f64() * 1e3;
    let nodes = if reached.len() == 1 {
        "1 node answers"
    } else {
        &format!("{} nodes answer", reached.len())
    };
    let mut found = format!("{nodes}, the slowest in {ms:.1} ms");
    if let [one] = sizes[..] {
        let _ = write!(found, "; full packets of {one} bytes arrive");
    }
    let verdict = if sizes.len() > 1 { Verdict::Note } else { Verdict::Good };
    for (name, mtu) in reached.iter().filter_map(|(name, found)| Some((name, found.mtu?))) {
        if sizes.len() > 1 {
            let _ = write!(found, "; to {name} packets have {mtu} bytes");
        }
    }
    let advice = "give all interfaces between the nodes the same MTU: large packets save time";
    Some(check("pool port", verdict, found).advise(advice))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn told(check: &Check) -> serde_json::Value {
        serde_json::to_value(check).unwrap()
    }

    #[test]
    fn a_port_that_takes_the_packet_and_closes_is_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mtu = mtu_of(&stream, &address).unwrap();
            stream.read_exact(&mut vec![1; content_bytes(mtu, &address)]).unwrap();
            mtu
        });
        let found = try_address(&address).ok().unwrap();
        assert!(found.mtu > Some(MTU_MIN));
        assert_eq!(found.mtu, peer.join().ok());
        assert!(matches!(try_address(&address), Err(Fault::Port(_))), "it listens no more");
    }

    #[test]
    fn the_packet_is_a_full_one() {
        let to = |address: &str| address.parse().unwrap();
        assert_eq!(content_bytes(1500, &to("10.0.0.1:1")), 1448);
        assert_eq!(content_bytes(1500, &to("[::1]:1")), 1428);
    }

    #[test]
    fn a_port_that_stays_silent_is_no_good_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(matches!(try_address(&address), Err(Fault::Packet(_))));
    }

    #[test]
    fn routes_with_packets_of_two_sizes_are_noted() {
        let found = |mtu| Found { round_trip: Duration::from_micros(300), mtu };
        assert!(reached_check(&[]).is_none());
        let same = told(&reached_check(&[("a", found(Some(9000))), ("b", found(None))]).unwrap());
        assert_eq!(same["verdict"], "good");
        let text = "2 nodes answer, the slowest in 0.3 ms; full packets of 9000 bytes arrive";
        assert_eq!(same["found"], text);
        let mixed = [("a", found(Some(9000))), ("b", found(Some(1500)))];
        let mixed = told(&reached_check(&mixed).unwrap());
        assert_eq!(mixed["verdict"], "note");
        assert!(mixed["found"].as_str().unwrap().ends_with("; to b packets have 1500 bytes"));
    }
}
