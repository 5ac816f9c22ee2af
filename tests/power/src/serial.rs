//! Lines to the host, each of which has left the machine when `say` returns.

use std::fs::{File, OpenOptions};
use std::io::Write;

use anyhow::{Context, Result};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

/// The second serial line; the first one has the kernel's messages.
const DEVICE: &str = "/dev/ttyS1";

#[derive(Debug)]
pub(crate) struct Serial {
    file: File,
}

impl Serial {
    pub(crate) fn open() -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(DEVICE)
            .with_context(|| format!("opening {DEVICE}"))?;
        let mut modes = tcgetattr(&file)?;
        modes.make_raw();
        tcsetattr(&file, OptionalActions::Now, &modes)?;
        Ok(Self { file })
    }

    /// Says lines, and waits until the host has them.
    pub(crate) fn say(&mut self, lines: &[String]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut text = lines.join("\n");
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        Ok(tcdrain(&self.file)?)
    }
}
