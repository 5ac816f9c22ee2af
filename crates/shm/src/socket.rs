//! Unix sockets that keep message borders and carry descriptors.
//!
//! SEQPACKET: a message arrives whole or is told to be truncated, and an empty read is the end.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plasmon_proto::limits::{FRAME_BYTES_MAX, FRAME_FDS_MAX};
use rustix::event::PollFlags;
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::edge;
#[cfg(feature = "sim")]
use crate::edge::simulated;
use crate::pidfd::ProcessFd;

pub use crate::peer::Peer;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Room for the descriptors of one message that is sent.
const ANCILLARY_BYTES: usize = rustix::cmsg_space!(ScmRights(FRAME_FDS_MAX));

/// Descriptors that the kernel takes in one message (`SCM_MAX_FD`).
const SENT_FDS_MAX: usize = 253;

/// Room for all descriptors that a message may bring. Those without room would be closed by the
/// kernel within the call that receives, however long that takes.
const RECEIVED_BYTES: usize = rustix::cmsg_space!(ScmRights(SENT_FDS_MAX));

/// `SO_PASSRIGHTS` (Linux 6.16): whether a socket takes descriptors.
const SO_PASSRIGHTS: libc::c_int = 83;

thread_local! {
    /// Where messages arrive before they are copied to their receiver: most are some dozen bytes,
    /// and zeroing room for the longest one each time would cost more than the system call.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A received message.
#[derive(Debug, Default)]
pub struct Message {
    /// Bytes of the message, now in the caller's buffer; 0 when the peer is gone.
    pub bytes: usize,
    /// The descriptors that came with it, also when they are more than allowed.
    pub fds: Vec<OwnedFd>,
    /// Whether bytes or descriptors are missing: the message was longer than allowed, carried more
    /// descriptors than allowed, or this process has no room for another descriptor.
    pub truncated: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    /// Connects to a listener. It never waits: when more connections wait to be accepted than the
    /// listener allows, the error's kind is `WouldBlock`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let connection = Self(seqpacket()?);
        let address = SocketAddrUnix::new(path)?;
        #[cfg(feature = "sim")]
        if let Some(name) = simulated::within(|world| world.name_socket()) {
            rustix::net::bind(&connection.0, &SocketAddrUnix::new_abstract_name(&name)?)?;
        }
        connection.set_nonblocking(true)?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&connection.0, &address))?;
        connection.set_nonblocking(false)?;
        Ok(connection)
    }

    /// Two ends that are connected to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    /// A connection that another process passed.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends one message, waiting for room unless the connection does not block.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if simulated::is_entered() {
            return self.send_simulated(bytes, fds);
        }
        self.send_with(bytes, fds, SendFlags::empty())
    }

    /// Waits for room in the simulated world.
    #[cfg(feature = "sim")]
    fn send_simulated(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let timeout = {
            use rustix::net::sockopt::{Timeout, socket_timeout};
            socket_timeout(&self.0, Timeout::Send)?
        };
        let begun = crate::edge::now();
        loop {
            let sent = self.try_send(bytes, fds);
            let is_over = timeout.is_some_and(|time| crate::edge::since(begun) >= time);
            if is_over || !sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
                return sent;
            }
            crate::edge::waited_elsewhere(&self.0, PollFlags::OUT, timeout);
        }
    }

    /// Sends one message if there is room for it now; otherwise the error's kind is `WouldBlock`.
    pub fn try_send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(bytes, fds, SendFlags::DONTWAIT)
    }

    fn send_with(&self, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
        // An empty message would read as the end of the connection.
        if bytes.is_empty() || bytes.len() > FRAME_BYTES_MAX || fds.len() > FRAME_FDS_MAX {
            let text = format!("a message of {} bytes and {} descriptors", bytes.len(), fds.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        #[cfg(feature = "sim")]
        if simulated::within(|world| world.is_ending()) == Some(true) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let flags = flags | SendFlags::NOSIGNAL;
        let sent = rustix::io::retry_on_intr(|| {
            let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(fds));
            }
            rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags)
        })?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Receives one message into `into`, whose content is replaced. With `block` false and nothing
    /// there, the error's kind is `WouldBlock`.
    pub fn recv(&self, into: &mut Vec<u8>, block: bool) -> io::Result<Message> {
        into.clear();
        let block = block && !edge::waited_elsewhere(&self.0, PollFlags::IN, None);
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(FRAME_BYTES_MAX, 0);
            self.recv_through(scratch, into, block)
        })
    }

    fn recv_through(
        &self,
        scratch: &mut [u8],
        into: &mut Vec<u8>,
        block: bool,
    ) -> io::Result<Message> {
        let wait = if block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let flags = wait | RecvFlags::CMSG_CLOEXEC;
        let mut space = [MaybeUninit::uninit(); RECEIVED_BYTES];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::io::retry_on_intr(|| {
            let parts = &mut [IoSliceMut::new(scratch)];
            rustix::net::recvmsg(&self.0, parts, &mut ancillary, flags)
        });
        let message = match message {
            // The peer went away without reading everything: for us the same as its end.
            Err(Errno::CONNRESET) => return Ok(Message::default()),
            other => other?,
        };
        into.extend_from_slice(&scratch[..message.bytes.min(FRAME_BYTES_MAX)]);
        let mut fds = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                fds.extend(rights);
            }
        }
        let too_many = fds.len() > FRAME_FDS_MAX;
        let cut = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        let truncated = cut || too_many;
        Ok(Message { bytes: into.len(), fds, truncated })
    }

    /// The process at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        #[cfg(feature = "sim")]
        if let Some(pid) = self.simulated_peer() {
            return Ok(simulated::within(|world| world.peer(pid)).expect("the peer is simulated"));
        }
        // Asked directly, because the safe wrapper has no way to say that the process is unknown.
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `found` and `length` are alive, and `length` says how large `found` is.
        let failed = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        } != 0;
        if failed {
            return Err(io::Error::last_os_error());
        }
        let pid = u32::try_from(found.pid).unwrap_or(0);
        Ok(Peer { pid, uid: found.uid, gid: found.gid })
    }

    /// A descriptor of the process at the other end.
    pub fn process(&self) -> io::Result<ProcessFd> {
        #[cfg(feature = "sim")]
        if let Some(pid) = self.simulated_peer() {
            return ProcessFd::open(pid);
        }
        ProcessFd::of_peer(self.as_fd(), self.peer()?.pid)
    }

    /// The process at the other end, in a simulated world: its socket's name says which it is.
    #[cfg(feature = "sim")]
    fn simulated_peer(&self) -> Option<u32> {
        if !simulated::is_entered() {
            return None;
        }
        let address: SocketAddrUnix = rustix::net::getpeername(&self.0).ok()??.try_into().ok()?;
        let name = address.abstract_name()?.to_owned();
        simulated::within(|world| world.owner_of(&name)).flatten()
    }

    /// Whether the other end has not received everything that was sent.
    pub fn has_unread(&self) -> io::Result<bool> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: `bytes` is alive and of the type that this request writes.
        let failed =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(bytes > 0) }
    }

    /// Whether sending and receiving wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, nonblocking)?)
    }

    /// A second descriptor of the same end.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Ends the connection for both sides, also where descriptors of it are still open.
    pub fn shutdown(&self) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if simulated::within(|world| world.is_ending()) == Some(true) {
            return Ok(());
        }
        Ok(rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both)?)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Why a listener could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("a daemon already listens on {}", path.display())]
    AlreadyRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is not a socket lies at the path; it is left alone.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path is longer than a socket's name can be.
    #[error("the socket path {} is too long (the kernel allows 107 bytes)", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen on {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket that accepts connections, and the lock which says that it is ours.
///
/// The lock file lies beside the socket. It is never removed while a process could hold it: a lock
/// on a file that has lost its name excludes no other process.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    lock: Option<File>,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens on `path`, which gets `mode`. A socket file that no daemon holds is replaced.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, BindError> {
        let address = address_of(path)?;
        let lock = take_lock(path)?;
        Self::listen(path, &address, mode, lock)
    }

    /// Listens on `path` again, from which the file of this socket was removed. Another daemon may
    /// have come to listen there.
    pub fn bind_again(&self, path: &Path, mode: u32) -> Result<Self, BindError> {
        let io = |source: io::Error| BindError::Io { path: path.to_owned(), source };
        let address = address_of(path)?;
        let lock = match &self.lock {
            // The process that removed the socket left the lock, which is ours.
            Some(lock) if is_same_file(lock, &lock_path(path)) => lock.try_clone().map_err(io)?,
            _ => take_lock(path)?,
        };
        Self::listen(path, &address, mode, lock)
    }

    fn listen(
        path: &Path,
        address: &SocketAddrUnix,
        mode: u32,
        lock: File,
    ) -> Result<Self, BindError> {
        let io = |source: io::Error| BindError::Io { path: path.to_owned(), source };
        match std::fs::symlink_metadata(path) {
            // The lock may have been removed and made again while its owner serves.
            Ok(found) if found.file_type().is_socket() && is_served(address) => {
                return Err(BindError::AlreadyRunning { path: path.to_owned() });
            }
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(io)?;
            }
            Ok(_) => return Err(BindError::NotASocket { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let socket = seqpacket().map_err(io)?;
        // The mode of the unbound socket becomes the mode of its file, so that the path is never
        // there with a wider one.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode)).map_err(|error| io(error.into()))?;
        rustix::net::bind(&socket, address).map_err(|error| io(error.into()))?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(|error| io(error.into()))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| io(error.into()))?;
        Ok(Self { socket, lock: Some(lock), path: Some(path.to_owned()) })
    }

    /// A listening socket that another process passed and that process's lock, which stays held as
    /// long as any descriptor of it is open.
    pub fn adopt(socket: OwnedFd, lock: Option<OwnedFd>) -> Self {
        Self { socket, lock: lock.map(File::from), path: None }
    }

    /// Accepts a connection; `WouldBlock` when there is none and the listener does not block.
    pub fn accept(&self) -> io::Result<Connection> {
        let accept = || rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC);
        Ok(Connection(rustix::io::retry_on_intr(accept)?))
    }

    /// Whether accepting waits.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, nonblocking)?)
    }

    /// Has the kernel refuse every message to the connections of this listener that carries
    /// descriptors; whether it does. Kernels before 6.16 do not know how.
    pub fn refuse_descriptors(&self) -> bool {
        let off: libc::c_int = 0;
        // SAFETY: `off` is alive, and the length is its size.
        let failed = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PASSRIGHTS,
                (&raw const off).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        } != 0;
        !failed
    }

    /// Whether the lock file beside this path is the one that is locked.
    pub fn is_locked_at(&self, path: &Path) -> bool {
        self.lock.as_ref().is_none_or(|lock| is_same_file(lock, &lock_path(path)))
    }

    /// The locked file beside the socket.
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.lock.as_ref().map(AsFd::as_fd)
    }

    /// Second descriptors of the socket and of its lock, to be kept by another process.
    pub fn duplicate(&self) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let lock = self.lock.as_ref().map(|lock| lock.as_fd().try_clone_to_owned()).transpose()?;
        Ok((self.socket.try_clone()?, lock))
    }

    /// Stops listening and removes the socket's file. Without this the file stays when the listener
    /// is dropped, which is right for a process that passes the socket on.
    pub fn remove(self) -> io::Result<()> {
        match &self.path {
            Some(path) => std::fs::remove_file(path),
            None => Ok(()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn address_of(path: &Path) -> Result<SocketAddrUnix, BindError> {
    SocketAddrUnix::new(path).map_err(|_| BindError::PathTooLong { path: path.to_owned() })
}

/// Whether an open file is the one at this path.
fn is_same_file(file: &File, path: &Path) -> bool {
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    let (Ok(ours), Ok(found)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    identity(ours) == identity(found)
}

/// The lock file beside a socket.
pub fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Whether a process listens there. Never waits.
fn is_served(address: &SocketAddrUnix) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(fd) = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
    else {
        return false;
    };
    // A listener with a full queue has no room now, and one of another type is not ours.
    matches!(rustix::net::connect(&fd, address), Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE))
}

fn take_lock(socket: &Path) -> Result<File, BindError> {
    let path = lock_path(socket);
    let io = |source| BindError::Io { path: path.clone(), source };
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Not through a link that another user put into a shared folder.
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(io)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(BindError::AlreadyRunning { path: socket.to_owned() }),
        Err(error) => Err(io(error.into())),
    }
}

#[cfg(test)]
mod tests;
