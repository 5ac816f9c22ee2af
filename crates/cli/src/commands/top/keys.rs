//! Keys that are read as they are pressed, on a screen of their own that goes at the end.

use std::collections::VecDeque;
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

/// The byte of the escape key, and the first one of arrows and similar keys.
const ESCAPE: u8 = 27;

/// The keys that end the command: Ctrl-C, Ctrl-D, q.
const ENDS: [u8; 3] = [3, 4, b'q'];

/// A key.
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
    /// Keys that were read together with the last one.
    pressed: VecDeque<Key>,
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
        let keys = Self { before, pressed: VecDeque::new() };
        let mut out = io::stdout();
        write!(out, "{ENTER}").and_then(|()| out.flush()).ok()?;
        Some(keys)
    }

    /// The next key within a time, `None` when none was pressed.
    pub(super) fn next(&mut self, within: Duration) -> Result<Option<Key>> {
        if let Some(key) = self.pressed.pop_front() {
            return Ok(Some(key));
        }
        let stdin = io::stdin();
        let timeout = Timespec::try_from(within).ok();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut letters = [0; 64];
        let count = read(&stdin, &mut letters)?;
        self.pressed.extend(keys_of(&letters[..count]));
        Ok(self.pressed.pop_front())
    }
}

/// The keys that these bytes are. No bytes are the end of the terminal.
fn keys_of(letters: &[u8]) -> Vec<Key> {
    match letters {
        [] | [ESCAPE] => vec![Key::Quit],
        // An arrow or another key of several letters means nothing here.
        [ESCAPE, ..] => Vec::new(),
        letters => {
            let key = |letter: &u8| {
                if ENDS.contains(letter) { Key::Quit } else { Key::Letter(*letter) }
            };
            letters.iter().map(key).collect()
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_together_are_taken_one_by_one_and_arrows_mean_nothing() {
        assert_eq!(keys_of(b"sq"), [Key::Letter(b's'), Key::Quit]);
        assert_eq!(keys_of(b"\x1b[A"), []);
        assert_eq!(keys_of(b"\x1b"), [Key::Quit]);
        assert_eq!(keys_of(b""), [Key::Quit]);
    }
}
