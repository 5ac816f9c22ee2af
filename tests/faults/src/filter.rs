//! A filter of system calls whose verdicts come from this process.
//!
//! A thread installs the filter on itself (`seccomp`, Linux 5.5). Each of the system calls that it
//! names then waits in the kernel, also those of threads and processes that the thread starts,
//! until the supervisor has said whether the call is carried out or fails. It needs neither
//! privileges nor help of the program under test, and sees calls that bypass the C library.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long, sock_filter, sock_fprog};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`.
const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;

/// Where the calls of filtered threads arrive.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The kernel's number for this very call.
    pub ticket: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// The number of the system call.
    pub number: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Filters the calls of the current thread from now on, and of all that it starts.
pub fn install(calls: &[c_long]) -> io::Result<Listener> {
    let mut program = program(calls);
    let program = sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the program lies in a vector that outlives the call, with its length beside it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made the descriptor just now, for this caller.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd as c_int) }))
}

/// "Notify for these numbers of this architecture, allow everything else."
fn program(calls: &[c_long]) -> Vec<sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

    let statement = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    // How many comparisons are left to the statement that notifies, from each of them.
    let distance = |at: usize| u8::try_from(calls.len() - at).expect("fewer than 256 calls");
    let mut program = vec![
        statement(LOAD, OFFSET_ARCHITECTURE),
        sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
        statement(LOAD, OFFSET_NUMBER),
    ];
    for (at, call) in calls.iter().enumerate() {
        program.push(sock_filter { code: IF_EQUAL, jt: distance(at), jf: 0, k: *call as u32 });
    }
    program.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    program.push(statement(RETURN, libc::SECCOMP_RET_USER_NOTIF));
    program
}

impl Listener {
    /// Waits for the next call; `None` when no filtered thread is left.
    pub fn next(&self) -> io::Result<Option<Call>> {
        use rustix::event::{PollFd, PollFlags, poll};

        loop {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = fds[0].revents();
            if ready.contains(PollFlags::IN) {
                match self.receive() {
                    // The caller was killed, or a signal came before its call was taken.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                    other => return other.map(Some),
                }
            }
            if ready.contains(PollFlags::HUP) {
                return Ok(None);
            }
        }
    }

    fn receive(&self) -> io::Result<Call> {
        const { assert!(size_of::<libc::seccomp_notif>() == 80) };
        // SAFETY: a structure of integers, for which the kernel wants zeroes.
        let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes one structure of this type, whose size its number carries.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut found) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Call {
            ticket: found.id,
            thread: found.pid,
            number: found.data.nr.into(),
            arguments: found.data.args,
        })
    }

    /// Has the kernel carry the call out, or fail it with an error.
    pub fn answer(&self, call: &Call, error: Option<c_int>) -> io::Result<()> {
        const { assert!(size_of::<libc::seccomp_notif_resp>() == 24) };
        let answer = libc::seccomp_notif_resp {
            id: call.ticket,
            val: 0,
            error: -error.unwrap_or(0),
            flags: if error.is_some() { 0 } else { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 },
        };
        // SAFETY: the request reads one structure of this type, whose size its number carries.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SEND, &raw const answer) };
        match io::Error::last_os_error() {
            // The caller was killed, or a signal interrupted its call, which then comes again.
            error if result < 0 && error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }
}
