//! Which process is meant, also after its number was given to another one.
//!
//! A process is told from every later one of the same number by when it began, in clock ticks since
//! the machine was started. The pair can be written down and handed on, as no descriptor can.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::io::Errno;

use crate::pidfd::ProcessFd;

/// Where `starttime` is in `/proc/PID/stat`, counted from after the name, which may hold anything.
const BEGAN_FIELD: usize = 19;

/// A process, by its number and when it began; written `pid:ticks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks.
    pub began: u64,
}

impl Incarnation {
    /// This process.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number now.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, began: began(pid)? })
    }

    /// A descriptor of the process; `None` when it has ended.
    pub fn open(self) -> io::Result<Option<ProcessFd>> {
        let process = match ProcessFd::open(self.pid) {
            Err(error) if is_gone(&error) => return Ok(None),
            process => process?,
        };
        // The number stays with the process that the descriptor means, at least until it has ended.
        match began(self.pid) {
            Err(error) if is_gone(&error) => Ok(None),
            began => Ok((began? == self.began).then_some(process)),
        }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pid, self.began)
    }
}

impl FromStr for Incarnation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, began) = text.split_once(':').ok_or(())?;
        Ok(Self { pid: pid.parse().map_err(drop)?, began: began.parse().map_err(drop)? })
    }
}

fn began(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = rest.split_whitespace().nth(BEGAN_FIELD).and_then(|text| text.parse().ok());
    field.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "not what /proc has of a process")
    })
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::SRCH, Errno::NOENT].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|errno| gone.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_not_taken_for_an_earlier_one_of_its_number() {
        let own = Incarnation::own().unwrap();
        assert!(own.open().unwrap().is_some_and(|process| process.is_alive().unwrap()));
        let earlier = Incarnation { began: own.began - 1, ..own };
        assert!(earlier.open().unwrap().is_none());
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let known = Incarnation::of(child.id()).unwrap();
        assert!(known.open().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(known.open().unwrap().is_none());
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let own = Incarnation::own().unwrap();
        assert_eq!(own.to_string().parse(), Ok(own));
        for text in ["", "1", "1:", ":1", "1:2:3", "-1:2", "a:b"] {
            assert_eq!(text.parse::<Incarnation>(), Err(()), "{text}");
        }
    }
}
