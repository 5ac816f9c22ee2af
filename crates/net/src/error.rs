//! Why a lane ended.

use std::io;

use crate::frame::BadFrame;
use crate::handshake::Refusal;
use crate::note::BadNote;
use crate::segment::BadSegment;
use crate::tls::Fault;

/// Why a lane ended, or never opened. It ends that lane and nothing else.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This side refused the lane, and told the peer: report it, and try again later.
    #[error("the peer is refused: {0}")]
    Refused(Refusal),
    /// The peer refused the lane: report it, and try again later.
    #[error("the peer refused this node: to the peer, {0}")]
    RefusedByPeer(Refusal),
    /// What came is not a handshake: report it.
    #[error("the peer sent something else than a handshake")]
    NotAHandshake,
    /// The handshake was not over in time: try again later.
    #[error("the handshake did not end in time")]
    HandshakeTimeout,
    /// The connection is not encrypted as it has to be: report it, and try again later.
    #[error(transparent)]
    Tls(Fault),
    /// The peer broke the framing of a control lane: report it, and connect again.
    #[error("the peer sent a bad frame: {0}")]
    Frame(#[from] BadFrame),
    /// The peer broke the framing of a bulk lane: report it, and connect again.
    #[error("the peer sent a bad segment: {0}")]
    Segment(#[from] BadSegment),
    /// The peer broke the rules of notes, or does not read them: report it, and connect again.
    #[error("the peer sent or caused a bad note: {0}")]
    Note(#[from] BadNote),
    /// The peer closed the connection: connect again.
    #[error("the peer closed the connection{}", if *.midway { " midway" } else { "" })]
    Closed {
        /// Whether a frame or segment was not whole.
        midway: bool,
    },
    /// The file ended before the range of a segment did: a bug of the caller, for an extent does
    /// not shrink while it is pinned. The segment cannot be completed.
    #[error("the file of a segment is shorter than its range")]
    SourceShort,
    /// The connection broke: connect again.
    #[error("the connection broke: {0}")]
    Io(io::Error),
}

impl From<io::Error> for Error {
    /// What a stream says that encrypts, in words of its own.
    fn from(error: io::Error) -> Self {
        let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
        match fault {
            Some(Fault::RefusedInClear(refusal)) => Self::RefusedByPeer(*refusal),
            Some(fault) => Self::Tls(fault.clone()),
            // The end of a connection without the last word of TLS.
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed { midway: true },
            None => Self::Io(error),
        }
    }
}

impl Error {
    /// Whether it is about certificates or encryption, which an operator has to look at.
    pub fn is_about_encryption(&self) -> bool {
        match self {
            Self::Tls(_) => true,
            Self::Refused(refusal) | Self::RefusedByPeer(refusal) => matches!(
                refusal,
                Refusal::Unencrypted | Refusal::NoCertificate | Refusal::Certificate
            ),
            _ => false,
        }
    }
}
