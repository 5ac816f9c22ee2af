//! Why a lane is refused, and how the peer is told.

use super::identity::ProtocolRange;

/// Why a lane is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The two sides belong to different clusters: check the settings of both.
    #[error("it belongs to another cluster")]
    Cluster,
    /// The two sides have no version of the protocol in common: upgrade the older one.
    #[error("it knows the protocols {} to {}, and no other", .0.bounds().0, .0.bounds().1)]
    Protocol(ProtocolRange),
    /// The proof is wrong: the tokens differ.
    #[error("it has another token")]
    Token,
    /// The accepting node is not the one that was to be connected to, or it is the same node.
    #[error("it is not the node that was to be connected to")]
    Node,
    /// The other side has too many connections that are not authenticated: try again.
    #[error("it has too many connections that are not authenticated")]
    Busy,
    /// The lane has to be encrypted: give the other node a certificate.
    #[error("its connection is not encrypted, and has to be (settings pool_tls_*)")]
    Unencrypted,
    /// The lane begins with TLS, and the accepting node has no certificate: give it one.
    #[error("its connection is encrypted, and the accepting node has no certificate")]
    NoCertificate,
    /// The certificate is for another node: give each node its own.
    #[error("its certificate is for another node")]
    Certificate,
    /// A reason that this version does not know.
    #[error("it has reason number {0}, which this version does not know")]
    Other(u8),
}

impl Refusal {
    /// Its bytes: the reason, and the versions where they are the reason.
    pub fn encode(self) -> [u8; 5] {
        let plain = |reason| [reason, 0, 0, 0, 0];
        match self {
            Self::Cluster => plain(1),
            Self::Protocol(range) => {
                let ([a, b], [c, d]) =
                    (range.bounds().0.to_le_bytes(), range.bounds().1.to_le_bytes());
                [2, a, b, c, d]
            }
            Self::Token => plain(3),
            Self::Node => plain(4),
            Self::Busy => plain(5),
            Self::Unencrypted => plain(6),
            Self::NoCertificate => plain(7),
            Self::Certificate => plain(8),
            Self::Other(reason) => plain(reason),
        }
    }

    /// Reads it; `None` for bytes that are not a refusal. A later version may append bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [reason, a, b, c, d] = *bytes.first_chunk()?;
        let range = || ProtocolRange::new(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        match reason {
            1 => Some(Self::Cluster),
            2 => range().map(Self::Protocol),
            3 => Some(Self::Token),
            4 => Some(Self::Node),
            5 => Some(Self::Busy),
            6 => Some(Self::Unencrypted),
            7 => Some(Self::NoCertificate),
            8 => Some(Self::Certificate),
            other => Some(Self::Other(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_back_as_on_the_format_page() {
        let range = ProtocolRange::new(2, 0x0103).unwrap();
        for (refusal, bytes) in [
            (Refusal::Cluster, [1, 0, 0, 0, 0]),
            (Refusal::Protocol(range), [2, 2, 0, 3, 1]),
            (Refusal::Token, [3, 0, 0, 0, 0]),
            (Refusal::Node, [4, 0, 0, 0, 0]),
            (Refusal::Busy, [5, 0, 0, 0, 0]),
            (Refusal::Unencrypted, [6, 0, 0, 0, 0]),
            (Refusal::NoCertificate, [7, 0, 0, 0, 0]),
            (Refusal::Certificate, [8, 0, 0, 0, 0]),
            (Refusal::Other(77), [77, 0, 0, 0, 0]),
        ] {
            assert_eq!(refusal.encode(), bytes);
            assert_eq!(Refusal::decode(&bytes), Some(refusal));
        }
        assert_eq!(Refusal::decode(&[3, 0, 0, 0, 0, 9, 9]), Some(Refusal::Token));
        assert_eq!(Refusal::decode(&[3, 0, 0, 0]), None);
        assert_eq!(Refusal::decode(&[2, 3, 0, 2, 0]), None, "versions the wrong way round");
    }
}
