//! The connections of lanes.

use plasmon_net::tcp::TcpStream;
use plasmon_net::tls::SecureStream;

/// The connection of a lane: a socket, encrypted or not.
pub(crate) type LaneStream = SecureStream<TcpStream>;
