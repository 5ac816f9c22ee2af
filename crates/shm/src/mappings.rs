//! The files that another process has mapped or open, as `/proc` shows them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::edge;

/// A file, as lists of mappings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    device: (u32, u32),
    number: u64,
}

/// Whether a process has a file mapped or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// It has.
    There,
    /// It has not.
    Gone,
    /// It has ended, or that is not to be seen.
    Unknown,
}

impl Inode {
    /// The file of this descriptor.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::of_stat(&rustix::fs::fstat(fd)?))
    }

    fn of_stat(stat: &rustix::fs::Stat) -> Self {
        let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        Self { device, number: stat.st_ino }
    }

    /// Whether a line of such a list is about this file.
    fn is_in(self, line: &str) -> bool {
        let mut fields = line.split_ascii_whitespace().skip(3);
        let (Some(device), Some(number)) = (fields.next(), fields.next()) else { return false };
        let device = device.split_once(':').and_then(|(major, minor)| {
            let number = |text| u32::from_str_radix(text, 16).ok();
            Some((number(major)?, number(minor)?))
        });
        device == Some(self.device) && number.parse() == Ok(self.number)
    }
}

/// Looks whether a process has a file mapped or open. May take a while.
pub fn trace(process: BorrowedFd<'_>, file: Inode) -> Trace {
    let found = number_of(process).and_then(|number| is_held(number, file));
    // Only of a process that still lives the number is certain.
    let has_ended = edge::ready_within(process, PollFlags::IN, Some(Duration::ZERO));
    match found.filter(|_| matches!(has_ended, Ok(false))) {
        None => Trace::Unknown,
        Some(true) => Trace::There,
        Some(false) => Trace::Gone,
    }
}

/// Whether the process has the file; `None` when it cannot be seen. Its first thread can have ended
/// while others go on: then nothing is to be seen of that, and each of the others has everything.
fn is_held(number: u32, file: Inode) -> Option<bool> {
    let process = PathBuf::from(format!("/proc/{number}"));
    let threads = std::fs::read_dir(process.join("task")).ok()?.flatten();
    let mut places = std::iter::once(process).chain(threads.map(|thread| thread.path()));
    let (place, list) = places.find_map(|place| {
        let list = std::fs::read(place.join("maps")).ok()?;
        (!list.is_empty()).then_some((place, list))
    })?;
    if String::from_utf8_lossy(&list).lines().any(|line| file.is_in(line)) {
        return Some(true);
    }
    let open = std::fs::read_dir(place.join("fd")).ok()?.flatten();
    let is_it = |path: PathBuf| {
        let found = rustix::fs::stat(&path);
        found.is_ok_and(|found| Inode::of_stat(&found) == file)
    };
    Some(open.into_iter().any(|entry| is_it(entry.path())))
}

/// The number by which `/proc` knows a process, if it does.
fn number_of(process: BorrowedFd<'_>) -> Option<u32> {
    let info =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::process::Command;

    use super::*;
    use crate::channel::{ChannelClient, ChannelDaemon};
    use crate::memfd::Memfd;
    use crate::pidfd::ProcessFd;

    #[test]
    fn a_line_names_a_file_by_device_and_number() {
        let file = Inode { device: (0, 0x1f), number: 77 };
        let line = |rest: &str| format!("7f00-7f01 rw-s 00000000 {rest} /memfd:plasmon (deleted)");
        for (rest, is_it) in
            [("00:1f 77", true), ("00:1f 78", false), ("00:2f 77", false), ("x 77", false)]
        {
            assert_eq!(file.is_in(&line(rest)), is_it, "{rest}");
        }
        assert!(!file.is_in("") && !file.is_in("7f00-7f01 rw-s 00000000 00:1f"));
    }

    #[test]
    fn what_a_process_has_mapped_or_open_is_seen() {
        let own = ProcessFd::open(std::process::id()).unwrap();
        let channel = ChannelDaemon::create().unwrap();
        let mapped = Inode::of(channel.memfd().as_fd()).unwrap();
        let map = ChannelClient::new(channel.memfd().writable().unwrap()).unwrap();
        drop(channel);
        assert_eq!(trace(own.as_fd(), mapped), Trace::There);
        drop(map);
        assert_eq!(trace(own.as_fd(), mapped), Trace::Gone);
        let other = Memfd::create("plasmon-test", 4096).unwrap();
        let open = Inode::of(other.as_fd()).unwrap();
        assert_eq!(trace(own.as_fd(), open), Trace::There);
        assert_eq!(trace(other.as_fd(), mapped), Trace::Unknown, "that is no process");
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = ProcessFd::open(child.id()).unwrap();
        assert_eq!(trace(process.as_fd(), mapped), Trace::Gone);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(trace(process.as_fd(), mapped), Trace::Unknown);
    }
}
