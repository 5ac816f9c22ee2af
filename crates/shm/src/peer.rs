//! The process at the other end of a connection.

/// The process at the other end, as the kernel saw it when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process, 0 when that is in a namespace which we cannot see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}
