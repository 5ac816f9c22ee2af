//! Keys that are read as they are pressed, on a screen of their own that goes at the end.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// The other screen of a terminal, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What the keys Ctrl-C, Ctrl-D and escape send.
const ENDS: [u8; 3] = [3, 4, 27];

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// The command is to end.
    Quit,
    /// A letter.
    Letter(u8),
}

/// A terminal whose keys are read one by one. Dropped, it is as it was.
pub(super) struct Keys {
    before: Termios,
}

impl Keys {
    /// The terminal of this process, if it has one.
    pub(super) fn open() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        // Signals of keys, too: a process that ends by one would leave the terminal like this.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        let keys = Self { before };
        let mut out = io::stdout();
        write!(out, "{ENTER}").and_then(|()| out.flush()).ok()?;
        Some(keys)
    }

    /// The next key within a time, `None` when none was pressed.
    pub(super) fn next(&mut self, within: Duration) -> Result<Option<Key>> {
        let stdin = io::stdin();
        let timeout = Timespec::try_from(within).ok();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut letters = [0; 16];
        Ok(match read(&stdin, &mut letters)? {
            0 => Some(Key::Quit),
            1 if ENDS.contains(&letters[0]) || letters[0] == b'q' => Some(Key::Quit),
            1 => Some(Key::Letter(letters[0])),
            // An arrow or another key of several letters means nothing here.
            _ => Some(Key::Letter(0)),
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let mut out = io::stdout();
        let _ = write!(out, "{LEAVE}").and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
