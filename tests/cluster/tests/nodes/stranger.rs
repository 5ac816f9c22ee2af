//! A program that connects to nodes of a pool and is none of them, though it may know all that they
//! know.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_client::ObjectId;
use plasmon_cluster::{Map, Member, Slot};
use plasmon_etcd::{Client, Options};
use plasmon_net::frame::{self, Class, FIRST_SEQUENCE, FrameInfo, Kind};
use plasmon_net::handshake::{
    Cluster, Encryption, KnownPeers, Lane, Local, NodeIdentity, Peer, ProtocolRange, Purpose, Token,
};
use plasmon_net::{Error, Greeting, tcp};
use plasmon_testkit::{Etcd, TEST_TIMEOUT, readable};

/// What the nodes of a pool know of each other, as etcd has it.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    pub(crate) cluster: String,
    pub(crate) cluster_id: [u8; 16],
    pub(crate) secret: Vec<u8>,
    map: Map,
}

impl Knowledge {
    /// What is in etcd now.
    pub(crate) fn read(etcd: &Etcd) -> Self {
        let mut client = Client::new(Options::new(etcd.endpoints())).unwrap();
        let mut value = |name: &str| {
            let key = format!("/plasmon/default/{name}");
            client.get(key.as_bytes()).unwrap().unwrap().value
        };
        Self {
            cluster: "default".to_owned(),
            cluster_id: value("id").try_into().unwrap(),
            secret: value("secret"),
            map: Map::decode(&value("map")).unwrap(),
        }
    }

    /// The slots of the nodes that are live.
    pub(crate) fn live(&self) -> Vec<usize> {
        let live = self.map.nodes().filter(|(_, node)| node.is_live());
        live.map(|(slot, _)| slot.0.into()).collect()
    }

    /// Where a node listens.
    pub(crate) fn address(&self, slot: usize) -> SocketAddr {
        self.member(slot).addresses[0].parse().unwrap()
    }

    fn member(&self, slot: usize) -> &Member {
        &self.map.node(Slot(u16::try_from(slot).unwrap())).unwrap().member
    }

    /// The slot of the node that has the records of an object first.
    pub(crate) fn primary(&self, id: &ObjectId) -> usize {
        self.map.primary(Map::group_of(id)).unwrap().0.into()
    }

    /// What this node says of itself.
    pub(crate) fn local(&self, slot: usize) -> Local {
        let member = self.member(slot);
        let node = NodeIdentity {
            uuid: member.uuid.0,
            slot: u16::try_from(slot).unwrap(),
            boot: member.boot,
            incarnation: member.incarnation,
        };
        let protocols = ProtocolRange::new(member.protocol.min, member.protocol.max).unwrap();
        let cluster = Cluster::new(&self.cluster, self.cluster_id).unwrap();
        let token = Token::new(&self.secret).unwrap();
        let (encryption, peers) = (Encryption::Nothing, KnownPeers::default());
        Local { cluster, node, protocols, token, encryption, peers }
    }
}

/// A connection to a node.
#[derive(Debug)]
pub(crate) struct Stranger(TcpStream);

impl Stranger {
    /// Connects, and says nothing.
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&to, TEST_TIMEOUT).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self(stream)
    }

    /// Sends bytes. That the node has closed the connection meanwhile is no failure.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        _ = self.0.write_all(bytes);
    }

    /// Waits until the node has closed the connection, after what was sent.
    pub(crate) fn wait_until_closed(mut self, what: &str) {
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            match self.0.read(&mut buffer) {
                // What it sent is a refusal or the first messages of a lane.
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the node keeps the connection: {what}");
                }
                Ok(_) | Err(_) => return,
            }
            assert!(Instant::now() < deadline, "the node goes on sending: {what}");
        }
    }
}

/// Connects as a node that is this, with the whole handshake.
pub(crate) fn greet(local: Local, to: SocketAddr, lane: Lane) -> Result<(Stranger, Peer), Error> {
    let stream = tcp::TcpStream::connect(to)?;
    let purpose = Purpose { lane, node: None };
    let start = Instant::now();
    let mut greeting = Greeting::connect(stream, Arc::new(local), purpose, [7; 32], Duration::ZERO);
    loop {
        if let Some(peer) = greeting.drive(start.elapsed())? {
            let stream = TcpStream::from(greeting.stream().as_fd().try_clone_to_owned()?);
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(TEST_TIMEOUT))?;
            stream.set_write_timeout(Some(TEST_TIMEOUT))?;
            return Ok((Stranger(stream), peer));
        }
        // A connection that is not there yet is not readable, and is tried again.
        readable(greeting.stream(), Duration::from_millis(20));
    }
}

/// A frame that follows the handshake.
pub(crate) fn frame_of(kind: Kind, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let info = FrameInfo { kind, class: Class::Normal, sequence };
    frame::encode(info, payload, &mut bytes);
    bytes
}

/// The first message after the handshake.
pub(crate) fn message_of(payload: &[u8]) -> Vec<u8> {
    frame_of(Kind::Message, FIRST_SEQUENCE, payload)
}
