//! Which system calls can fail, and with what.

use libc::{
    EAGAIN, ECONNABORTED, EINTR, EIO, EMFILE, ENFILE, ENOBUFS, ENOLCK, ENOMEM, ENOSPC,
    ETOOMANYREFS, c_int, c_long,
};

/// A kind of system call.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What reports call it.
    pub name: &'static str,
    /// The system calls that do it.
    pub calls: &'static [c_long],
    /// Whether a call with these arguments is meant.
    pub is_meant: fn(&[u64; 6]) -> bool,
    /// Whether only calls on files are meant: on an event or a pipe they have no such error.
    pub files_only: bool,
    /// The errors that the kernel's manual has for it, as far as they come from the machine.
    pub errors: &'static [c_int],
}

const fn all(_: &[u64; 6]) -> bool {
    true
}

const fn kind(name: &'static str, calls: &'static [c_long], errors: &'static [c_int]) -> Kind {
    Kind { name, calls, is_meant: all, files_only: false, errors }
}

fn punches(arguments: &[u64; 6]) -> bool {
    arguments[1] & libc::FALLOC_FL_PUNCH_HOLE as u64 != 0
}

fn reserves(arguments: &[u64; 6]) -> bool {
    !punches(arguments)
}

/// A mapping of a file, or the stack of a new thread. The others are memory of the allocator: where
/// that gets none, a program in Rust ends.
fn maps_file_or_stack(arguments: &[u64; 6]) -> bool {
    let (protection, flags) = (arguments[2] as c_int, arguments[3] as c_int);
    flags & libc::MAP_ANONYMOUS == 0 || protection == libc::PROT_NONE
}

/// Not standard error, where the program says why it ends.
fn beyond_standard(arguments: &[u64; 6]) -> bool {
    arguments[0] > 2
}

/// To change or to remove what is watched needs nothing, and does not fail.
fn adds(arguments: &[u64; 6]) -> bool {
    arguments[1] as c_int == libc::EPOLL_CTL_ADD
}

fn duplicates(arguments: &[u64; 6]) -> bool {
    arguments[1] as c_int == libc::F_DUPFD_CLOEXEC
}

fn seals(arguments: &[u64; 6]) -> bool {
    arguments[1] as c_int == libc::F_ADD_SEALS
}

/// Every kind that the daemon, its keeper and a client use.
pub const KINDS: &[Kind] = &[
    kind("memfd_create", &[libc::SYS_memfd_create], &[ENOMEM, EMFILE, ENFILE]),
    kind("ftruncate", &[libc::SYS_ftruncate], &[ENOMEM, ENOSPC, EIO, EINTR]),
    Kind {
        is_meant: reserves,
        ..kind("fallocate", &[libc::SYS_fallocate], &[ENOSPC, ENOMEM, EINTR])
    },
    Kind { is_meant: punches, ..kind("punch", &[libc::SYS_fallocate], &[ENOMEM, EINTR]) },
    Kind { is_meant: seals, ..kind("seal", &[libc::SYS_fcntl], &[ENOMEM]) },
    Kind { is_meant: duplicates, ..kind("duplicate", &[libc::SYS_fcntl], &[EMFILE]) },
    Kind { is_meant: maps_file_or_stack, ..kind("mmap", &[libc::SYS_mmap], &[ENOMEM]) },
    kind("madvise", &[libc::SYS_madvise], &[ENOMEM, EAGAIN]),
    kind(
        "open",
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open,
            libc::SYS_openat,
        ],
        &[EMFILE, ENFILE, ENOMEM, EIO, EINTR],
    ),
    Kind {
        is_meant: beyond_standard,
        files_only: true,
        ..kind("read", &[libc::SYS_read, libc::SYS_pread64], &[EIO, EINTR, ENOMEM])
    },
    Kind {
        is_meant: beyond_standard,
        files_only: true,
        ..kind(
            "write",
            &[libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev],
            &[EIO, ENOSPC, EINTR, ENOMEM],
        )
    },
    kind("sync", &[libc::SYS_fsync, libc::SYS_fdatasync], &[EIO, ENOSPC]),
    kind("stat", &[libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx], &[ENOMEM, EIO]),
    kind(
        "unlink",
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink,
            libc::SYS_unlinkat,
        ],
        &[EIO, ENOMEM],
    ),
    kind("flock", &[libc::SYS_flock], &[ENOLCK, EINTR, ENOMEM]),
    kind("socket", &[libc::SYS_socket, libc::SYS_socketpair], &[EMFILE, ENFILE, ENOMEM]),
    kind("connect", &[libc::SYS_connect], &[EAGAIN, EINTR, ENOMEM]),
    kind("bind", &[libc::SYS_bind, libc::SYS_listen], &[ENOMEM]),
    kind(
        "accept",
        &[libc::SYS_accept4, libc::SYS_accept],
        &[EMFILE, ENFILE, ENOMEM, ENOBUFS, ECONNABORTED, EINTR],
    ),
    kind("send", &[libc::SYS_sendmsg, libc::SYS_sendto], &[ETOOMANYREFS, ENOMEM, ENOBUFS, EINTR]),
    kind("receive", &[libc::SYS_recvmsg, libc::SYS_recvfrom], &[ENOMEM, ENOBUFS, EINTR]),
    kind("options", &[libc::SYS_getsockopt, libc::SYS_setsockopt], &[ENOMEM, ENOBUFS]),
    kind(
        "poll",
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            libc::SYS_ppoll,
        ],
        &[ENOMEM, EINTR],
    ),
    kind("epoll", &[libc::SYS_epoll_create1], &[ENOMEM, EMFILE]),
    Kind { is_meant: adds, ..kind("watch", &[libc::SYS_epoll_ctl], &[ENOMEM, ENOSPC]) },
    kind("epoll_wait", &[libc::SYS_epoll_pwait], &[EINTR]),
    kind("eventfd", &[libc::SYS_eventfd2], &[EMFILE, ENFILE, ENOMEM]),
    kind("pidfd", &[libc::SYS_pidfd_open], &[EMFILE, ENFILE, ENOMEM]),
    kind("random", &[libc::SYS_getrandom], &[EINTR]),
    kind("thread", &[libc::SYS_clone, libc::SYS_clone3], &[EAGAIN, ENOMEM]),
    kind("exec", &[libc::SYS_execve], &[ENOMEM, EMFILE, EIO]),
    kind("wait", &[libc::SYS_wait4, libc::SYS_waitid], &[EINTR]),
];

/// Every system call of any kind, each once.
pub fn calls() -> Vec<c_long> {
    let mut calls: Vec<c_long> = KINDS.iter().flat_map(|kind| kind.calls).copied().collect();
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// The name of an error, as the manual has it.
pub fn error_name(error: c_int) -> &'static str {
    match error {
        EAGAIN => "EAGAIN",
        ECONNABORTED => "ECONNABORTED",
        EINTR => "EINTR",
        EIO => "EIO",
        EMFILE => "EMFILE",
        ENFILE => "ENFILE",
        ENOBUFS => "ENOBUFS",
        ENOLCK => "ENOLCK",
        ENOMEM => "ENOMEM",
        ENOSPC => "ENOSPC",
        ETOOMANYREFS => "ETOOMANYREFS",
        _ => "another error",
    }
}
