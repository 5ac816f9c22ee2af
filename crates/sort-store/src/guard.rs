//! A process that deletes the partitions of a sort whose process was killed.
//!
//! Partitions that are sealed one after the other would stay when the sort is killed before the
//! last: their ids are known to nothing else, or their names are in the way of the next try. So
//! another process is told the ids before the first seal:
//!
//! ```text
//!   the sort                        the guard (its own process group: Ctrl-C is for the sort)
//!   id id id ...        ──────────►
//!                       ◄────────── ready
//!   makes and seals
//!   done                ──────────► ends; the objects stay
//!   (killed: the pipe ends)  ─────► deletes what is there, ends
//! ```
//!
//! After an error the sort deletes what it has made itself, and knows what of it was its own; the
//! guard is only for a sort that cannot.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use plasmon_client::{Client, Deadline, ObjectId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clear::delete_made;
use crate::error::{Error, Left, Result};

const READY: &str = "ready";
const DONE: &str = "done";
/// For how long a guard may take to connect to the store, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// For how long it may take to end: longer than it tries to delete.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Of what a guard says of its failure, as much as is told.
const MESSAGE_BYTES_MAX: u64 = 4096;

/// The program that runs as a guard: it connects to the store and calls [`serve`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, which name the store.
    pub arguments: Vec<OsString>,
    /// Variables of its environment besides those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// The guard of some objects, seen from the sort. When it is dropped it deletes them.
#[derive(Debug)]
pub struct Guard {
    /// `None` when its end is left to itself.
    process: Option<Child>,
    tell: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Guard {
    /// Starts it; it knows the objects when this returns.
    pub fn start(command: &GuardCommand, ids: &[ObjectId]) -> Result<Self> {
        let failed = |what: &str| Error::Guard(format!("{what} ({})", command.program.display()));
        let mut process = Command::new(&command.program)
            .args(&command.arguments)
            .envs(command.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Read only when it does not start: after the sort was killed nothing reads it.
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let (Some(tell), Some(told)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("it was started without pipes"));
        };
        let told = BufReader::new(told);
        let mut guard = Self { process: Some(process), tell: Some(tell), told };
        match guard.introduce(ids) {
            Ok(true) => Ok(guard),
            // It has no objects to delete yet.
            Ok(false) => Err(failed(&guard.last_words())),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Tells it the objects; whether it says that it knows them.
    fn introduce(&mut self, ids: &[ObjectId]) -> std::io::Result<bool> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        // A guard that has ended says so where it is read.
        let _ = self.tell(&ids.join(" "));
        if !self.is_readable_within(START_TIMEOUT)? {
            return Err(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                format!("it was not ready within {} s", START_TIMEOUT.as_secs()),
            ));
        }
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        Ok(line.trim_end() == READY)
    }

    /// Ends it; the objects stay.
    pub fn dismiss(mut self) {
        // A guard that has ended by itself, killed by the system for example, deletes nothing.
        let _ = self.tell(DONE);
    }

    /// Has it delete the objects that are there, and does not wait for it: the store may be gone.
    pub fn leave(mut self) {
        self.tell = None;
        let Some(mut process) = self.process.take() else { return };
        let thread = std::thread::Builder::new().name("plasmon-guard".to_owned());
        // Without a thread the process is one that has ended until this one ends.
        let _ = thread.spawn(move || process.wait());
    }

    fn tell(&mut self, line: &str) -> std::io::Result<()> {
        let Some(pipe) = &mut self.tell else { return Ok(()) };
        pipe.write_all(format!("{line}\n").as_bytes())?;
        pipe.flush()
    }

    /// Whether it has said something, or has ended, before the time has passed.
    fn is_readable_within(&self, timeout: Duration) -> std::io::Result<bool> {
        let end = Deadline::after(timeout);
        loop {
            let left = end.left().unwrap_or(timeout);
            let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            match poll(&mut [PollFd::new(self.told.get_ref(), PollFlags::IN)], Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The last line that it said on its standard error, once it has ended.
    fn last_words(&mut self) -> String {
        self.tell = None;
        let mut said = Vec::new();
        if let Some(pipe) = self.process.as_mut().and_then(|process| process.stderr.take()) {
            // What cannot be read is not told; the error is told in any case.
            let _ = pipe.take(MESSAGE_BYTES_MAX).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        line.map_or_else(|| "it ended without a message".to_owned(), |line| line.trim().to_owned())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.tell = None;
        // It says nothing more: its end is all there is to read. One that does not end in time goes
        // on by itself.
        if let Some(mut process) = self.process.take()
            && matches!(self.is_readable_within(END_TIMEOUT), Ok(true))
        {
            let _ = process.wait();
        }
    }
}

/// Guards the objects whose ids come through `input`; the work of the guard's process.
pub fn serve(store: &Client, input: impl BufRead, mut output: impl Write) -> Result<(), Left> {
    let mut lines = input.lines().map_while(std::result::Result::ok);
    // Without a line the sort was gone before it had anything.
    let ids = lines.next().unwrap_or_default();
    // The sort writes whole ids; what is none was cut off when it was killed.
    let ids: Vec<ObjectId> = ids.split(' ').filter_map(|text| text.parse().ok()).collect();
    // The sort may be gone already; what it has made is not.
    let _ = writeln!(output, "{READY}").and_then(|()| output.flush());
    if lines.next().as_deref() == Some(DONE) {
        return Ok(());
    }
    delete_made(store, &ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guard that is a shell, which writes what it is told into a file.
    fn shell(script: &str, file: &std::path::Path) -> GuardCommand {
        GuardCommand {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("FILE".into(), file.into())],
        }
    }

    const RECORD: &str = "read ids; echo \"$ids\" > \"$FILE\"; echo ready; \
                          read word; echo \"word: $word\" >> \"$FILE\"";

    fn ids() -> Vec<ObjectId> {
        vec![ObjectId::new([1; 20]), ObjectId::new([2; 20])]
    }

    #[test]
    fn a_guard_knows_the_ids_before_anything_is_sealed_and_hears_how_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let read = || std::fs::read_to_string(&file).unwrap();
        for (dismissed, word) in [(true, "word: done\n"), (false, "word: \n")] {
            let guard = Guard::start(&shell(RECORD, &file), &ids()).unwrap();
            let line = format!("{} {}\n", ids()[0], ids()[1]);
            assert_eq!(read(), line);
            if dismissed {
                guard.dismiss();
            } else {
                drop(guard);
            }
            assert_eq!(read(), format!("{line}{word}"));
        }
    }

    #[test]
    fn a_guard_that_does_not_start_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let start = |command: &GuardCommand| Guard::start(command, &ids()).unwrap_err().to_string();
        let none = GuardCommand { program: "/nowhere/guard".into(), ..GuardCommand::default() };
        assert!(start(&none).contains("/nowhere/guard"), "{}", start(&none));
        let refuses = shell("echo one >&2; echo no store >&2; exit 3", folder.path());
        assert!(start(&refuses).contains("did not start: no store"), "{}", start(&refuses));
        let silent = shell("exit 0", folder.path());
        assert!(start(&silent).contains("without a message"), "{}", start(&silent));
    }

    #[test]
    fn more_ids_than_a_pipe_holds_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let ids: Vec<ObjectId> = (0..4096).map(|_| ObjectId::new([3; 20])).collect();
        Guard::start(&shell(RECORD, &file), &ids).unwrap().dismiss();
        let told = std::fs::read_to_string(&file).unwrap();
        assert_eq!(told.lines().next().unwrap().split(' ').count(), 4096);
    }

    /// After the store had died a sort waited for its guard, which waited for the store.
    #[test]
    fn a_guard_that_is_left_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        // It ends when the pipe is read, which is after it was left.
        let stays = "read ids; echo ready; read word; echo \"left $word\" > \"$FILE\"";
        Guard::start(&shell(stays, &fifo), &ids()).unwrap().leave();
        assert_eq!(std::fs::read_to_string(&fifo).unwrap(), "left \n");
    }

    #[test]
    fn a_guard_that_was_killed_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let quits = shell("read ids; echo ready", folder.path());
        Guard::start(&quits, &ids()).unwrap().dismiss();
    }
}
