//! What ends a command that runs until it is stopped: a signal, or the end of the program that
//! holds the pipe at its standard input.
//!
//! The pipe may belong to the program that started the command, and have words for that one, so
//! nothing is read from it: its other end is looked at alone.

use std::io::{self, Stdin};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Waits for what ends the command, among other things.
pub(super) struct Stop {
    signals: UnixStream,
    /// The standard input, where it is a pipe.
    input: Option<Stdin>,
    is_asked: bool,
}

impl Stop {
    /// From now on signals do not end this process.
    pub(super) fn watch() -> Result<Self> {
        let (signals, pipe) = UnixStream::pair().context("watching for signals")?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let pipe = pipe.try_clone().context("watching for signals")?;
            signal_hook::low_level::pipe::register(signal, pipe).context("watching for signals")?;
        }
        let input = io::stdin();
        let is_pipe = fstat(&input).is_ok_and(|found| {
            matches!(FileType::from_raw_mode(found.st_mode), FileType::Fifo | FileType::Socket)
        });
        Ok(Self { signals, input: is_pipe.then_some(input), is_asked: false })
    }

    /// Whether the command is to end.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Waits until the command is to end, one of these descriptors is ready, or the time is over.
    pub(super) fn wait(
        &mut self,
        others: &[BorrowedFd<'_>],
        within: Option<Duration>,
    ) -> Result<()> {
        if self.is_asked {
            return Ok(());
        }
        let timeout = within.and_then(|within| Timespec::try_from(within).ok());
        // The end of a pipe is told without being asked for, that of a socket is not.
        let input = self.input.as_ref().map(|input| PollFd::new(input, PollFlags::RDHUP));
        let signals = PollFd::new(&self.signals, PollFlags::IN);
        let others = others.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
        let ends = 1 + usize::from(input.is_some());
        let mut polled: Vec<PollFd<'_>> =
            [signals].into_iter().chain(input).chain(others).collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.is_asked = polled.iter().take(ends).any(|it| !it.revents().is_empty());
        Ok(())
    }
}
