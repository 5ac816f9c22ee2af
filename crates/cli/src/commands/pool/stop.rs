//! What ends a command that runs until it is stopped: a signal, or the end of the program that
//! holds the pipe at its standard input.

use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
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
    /// The standard input, where it is a pipe that has not ended.
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
        let (is_signal, is_input) = {
            let own = [Some(self.signals.as_fd()), self.input.as_ref().map(AsFd::as_fd)];
            let all = own.iter().flatten().chain(others);
            let mut polled: Vec<PollFd<'_>> =
                all.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
            match poll(&mut polled, timeout.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            let is_ready = |at: usize| polled.get(at).is_some_and(|it| !it.revents().is_empty());
            (is_ready(0), self.input.is_some() && is_ready(1))
        };
        self.is_asked = is_signal || (is_input && self.has_input_ended());
        Ok(())
    }

    /// Reads what is there; what it says does not matter.
    fn has_input_ended(&mut self) -> bool {
        let Some(input) = &mut self.input else { return false };
        match input.lock().read(&mut [0; 4096]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        }
    }
}
