//! Errors of a machine that is out of something, and may get over it.

use rustix::io::Errno;

/// Whether an error says that the system is out of something for the moment.
pub fn is_shortage(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_passing)
}

/// Whether a start failed of something that the machine may get over: a process or thread that it
/// cannot make now is an `EAGAIN`, and a disk that fails may be one of the network.
pub fn is_failure_of_machine(error: &std::io::Error) -> bool {
    let more = [Errno::AGAIN, Errno::IO, Errno::NOSPC];
    is_shortage(error) || Errno::from_io_error(error).is_some_and(|errno| more.contains(&errno))
}

/// Whether the system is out of something for the moment, which is the fault of neither end of a
/// connection. Descriptors that other receivers of this user have not read yet count as well.
pub fn is_passing(errno: Errno) -> bool {
    let passing =
        [Errno::TOOMANYREFS, Errno::NOBUFS, Errno::NOMEM, Errno::INTR, Errno::MFILE, Errno::NFILE];
    passing.contains(&errno)
}
