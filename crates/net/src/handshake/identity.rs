//! What the two sides of a lane say of themselves: cluster, node, protocols, lane.

/// Bytes of the name of a cluster.
pub const CLUSTER_NAME_BYTES_MAX: usize = 64;

/// Bulk lanes of one peer; their numbers are below this.
pub const BULK_LANES_MAX: u8 = 8;

/// Random bytes that make a handshake unlike every other one.
pub type Nonce = [u8; 32];

/// Bytes of an introduction before the name of the cluster.
const FIXED_BYTES: usize = 90;

/// The cluster that a node belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    name: String,
    id: [u8; 16],
}

impl Cluster {
    /// The cluster of this name and of this id, which was drawn when it was made; `None` when the
    /// name is empty or longer than [`CLUSTER_NAME_BYTES_MAX`].
    pub fn new(name: &str, id: [u8; 16]) -> Option<Self> {
        let fits = (1..=CLUSTER_NAME_BYTES_MAX).contains(&name.len());
        fits.then(|| Self { name: name.to_owned(), id })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// What the node is known by as long as it is in the cluster.
    pub uuid: [u8; 16],
    /// Its place in the map.
    pub slot: u16,
    /// The token of its store: the same for as long as its memory lives.
    pub boot: u64,
    /// How often its process was started.
    pub incarnation: u64,
}

/// The versions of the pool's protocol that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolRange {
    min: u16,
    max: u16,
}

impl ProtocolRange {
    /// The versions from `min` to `max`; `None` when there are no versions between them.
    pub fn new(min: u16, max: u16) -> Option<Self> {
        (min <= max).then_some(Self { min, max })
    }

    /// The newest version that both sides know.
    pub fn newest_common(self, other: Self) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }

    /// The oldest and the newest version.
    pub fn bounds(self) -> (u16, u16) {
        (self.min, self.max)
    }
}

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Messages, one such lane for each peer.
    Control,
    /// Segments of objects; its number is below [`BULK_LANES_MAX`].
    Bulk(u8),
}

impl Lane {
    fn encode(self) -> [u8; 2] {
        match self {
            Self::Control => [1, 0],
            Self::Bulk(number) => [2, number],
        }
    }

    fn decode(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [1, 0] => Some(Self::Control),
            [2, number] if number < BULK_LANES_MAX => Some(Self::Bulk(number)),
            _ => None,
        }
    }
}

/// What a side says of itself first: the payload of `Hello` and of `Challenge`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The versions that it knows.
    pub protocols: ProtocolRange,
    /// What the connection is for; the accepting side repeats it.
    pub lane: Lane,
    /// What it is.
    pub node: NodeIdentity,
    /// What it belongs to.
    pub cluster: Cluster,
    /// What the proof of the other side must contain.
    pub nonce: Nonce,
}

impl Introduction {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { protocols, lane, node, cluster, nonce } = self;
        let mut bytes = Vec::with_capacity(FIXED_BYTES + cluster.name.len());
        bytes.extend_from_slice(&protocols.min.to_le_bytes());
        bytes.extend_from_slice(&protocols.max.to_le_bytes());
        bytes.extend_from_slice(&lane.encode());
        bytes.extend_from_slice(&node.slot.to_le_bytes());
        bytes.extend_from_slice(&node.uuid);
        bytes.extend_from_slice(&node.boot.to_le_bytes());
        bytes.extend_from_slice(&node.incarnation.to_le_bytes());
        bytes.extend_from_slice(&cluster.id);
        bytes.extend_from_slice(nonce);
        bytes.extend_from_slice(&(cluster.name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(cluster.name.as_bytes());
        bytes
    }

    /// Reads it; `None` for bytes that are not an introduction.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let protocols = ProtocolRange::new(word16(&mut rest)?, word16(&mut rest)?)?;
        let lane = Lane::decode(take(&mut rest)?)?;
        let slot = word16(&mut rest)?;
        let uuid = take(&mut rest)?;
        let boot = u64::from_le_bytes(take(&mut rest)?);
        let incarnation = u64::from_le_bytes(take(&mut rest)?);
        let (id, nonce) = (take(&mut rest)?, take(&mut rest)?);
        let name_bytes = usize::from(word16(&mut rest)?);
        let name = std::str::from_utf8(rest).ok().filter(|name| name.len() == name_bytes)?;
        let cluster = Cluster::new(name, id)?;
        let node = NodeIdentity { uuid, slot, boot, incarnation };
        Some(Self { protocols, lane, node, cluster, nonce })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn word16(rest: &mut &[u8]) -> Option<u16> {
    take(rest).map(u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(name: &str) -> Introduction {
        Introduction {
            protocols: ProtocolRange::new(3, 0x0104).unwrap(),
            lane: Lane::Bulk(7),
            node: NodeIdentity { uuid: [0xaa; 16], slot: 0x0201, boot: 5, incarnation: 6 },
            cluster: Cluster::new(name, [0xbb; 16]).unwrap(),
            nonce: [0xcc; 32],
        }
    }

    #[test]
    fn bytes_are_those_of_the_format_page() {
        let golden = [
            &[3, 0, 4, 1, 2, 7, 1, 2][..],
            &[0xaa; 16],
            &[5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0],
            &[0xbb; 16],
            &[0xcc; 32],
            &[4, 0, b'p', b'r', b'o', b'd'],
        ]
        .concat();
        assert_eq!(introduction("prod").encode(), golden);
        assert_eq!(Introduction::decode(&golden), Some(introduction("prod")));
    }

    #[test]
    fn names_are_taken_at_the_limit_and_refused_past_it() {
        let longest = "n".repeat(CLUSTER_NAME_BYTES_MAX);
        let bytes = introduction(&longest).encode();
        assert_eq!(Introduction::decode(&bytes), Some(introduction(&longest)));
        assert!(bytes.len() <= crate::frame::HANDSHAKE_BYTES_MAX);
        assert_eq!(Cluster::new(&format!("{longest}n"), [0; 16]), None);
        assert_eq!(Cluster::new("", [0; 16]), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = introduction("prod").encode();
        for cut in 0..bytes.len() {
            assert_eq!(Introduction::decode(&bytes[..cut]), None, "{cut} bytes");
        }
        assert_eq!(Introduction::decode(&[&bytes[..], &[0]].concat()), None, "one byte more");
        for (at, byte) in [(1, 9), (4, 0), (4, 3), (5, BULK_LANES_MAX), (88, 5), (90, 0xff)] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            assert_eq!(Introduction::decode(&damaged), None, "byte {at} is {byte}");
        }
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        let range = |min, max| ProtocolRange::new(min, max).unwrap();
        assert_eq!(range(1, 4).newest_common(range(2, 7)), Some(4));
        assert_eq!(range(3, 3).newest_common(range(3, 3)), Some(3));
        assert_eq!(range(1, 2).newest_common(range(3, 4)), None);
        assert_eq!(range(3, 4).newest_common(range(1, 2)), None);
        assert_eq!(ProtocolRange::new(2, 1), None);
    }
}
