//! Why a lane ended.

use std::io;

use crate::frame::BadFrame;
use crate::handshake::Refusal;
use crate::segment::BadSegment;

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
    /// The peer broke the framing of a control lane: report it, and connect again.
    #[error("the peer sent a bad frame: {0}")]
    Frame(#[from] BadFrame),
    /// The peer broke the framing of a bulk lane: report it, and connect again.
    #[error("the peer sent a bad segment: {0}")]
    Segment(#[from] BadSegment),
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
    Io(#[from] io::Error),
}
