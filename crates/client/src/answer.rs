//! The daemon's answer to one request.

use std::os::fd::OwnedFd;

use plasmon_proto::message::Reply;

/// What the daemon answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) fds: Vec<OwnedFd>,
    /// The connection broke in between and the request was sent a second time: what it asks for
    /// may have happened the first time.
    pub(crate) again: bool,
    /// The number of the connection that it came on.
    pub(crate) link: u64,
}
