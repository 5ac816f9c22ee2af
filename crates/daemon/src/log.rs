//! The log: lines go through a queue to a thread, so that a reader that does not read, or a disk
//! that hangs, loses lines and never blocks the daemon.
//!
//! A client can cause lines. Each place in the program writes [`LINES_MAX`] a second at most, and
//! says how many it left out.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use plasmon_shm::edge;
use rustix::fs::OFlags;
use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::workers::spawn;

/// Lines that wait to be written.
const QUEUED_MAX: usize = 1024;

/// Lines of one place in the program in [`WINDOW`].
const LINES_MAX: u32 = 20;

/// The time that lines are counted for.
const WINDOW: Duration = Duration::from_secs(1);

/// The queue of this process, for the end and for panics.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// The file that this process logs to, for the processes that it starts.
static FILE: OnceLock<File> = OnceLock::new();

/// What the thread is given.
enum Entry {
    Line(Vec<u8>),
    /// Everything before this is written.
    Written(SyncSender<()>),
}

/// Where lines go.
#[derive(Clone, Debug)]
struct Queue {
    sender: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
    windows: Arc<Mutex<HashMap<Identifier, Window>>>,
}

/// The lines of one place in the program.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    lines: u32,
    left_out: u32,
}

/// One line that is being written.
#[derive(Debug)]
struct Line {
    queue: Option<Queue>,
    bytes: Vec<u8>,
}

/// Logs to standard error or to a file. A line that cannot be written is lost, not fatal.
pub(crate) fn start(level: LevelFilter, file: Option<&Path>) -> io::Result<()> {
    let sink: Box<dyn Write + Send> = match file {
        Some(path) => {
            let file = open(path)?;
            // Only the first one of a process counts, and there is only one.
            let _ = FILE.set(file.try_clone()?);
            Box::new(file)
        }
        None => Box::new(io::stderr()),
    };
    let (sender, entries) = sync_channel(QUEUED_MAX);
    let queue = Queue { sender, lost: Arc::default(), windows: Arc::default() };
    let lost = Arc::clone(&queue.lost);
    spawn("plasmon-log", move || write_all(&entries, &lost, sink))?;
    // Only the first one of a process counts, and there is only one.
    let _ = QUEUE.set(queue.clone());
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    log.with_ansi(false).with_writer(queue).init();
    Ok(())
}

/// Where a process that this one starts shall log to: the same file, or standard error.
pub(crate) fn of_child() -> Stdio {
    let file = FILE.get().and_then(|file| file.try_clone().ok());
    file.map_or_else(Stdio::inherit, Stdio::from)
}

/// The file, which must not be a link that another user put there, nor a pipe that an open waits
/// for.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
}

/// Waits until what was logged so far is written, or for at most this long.
pub(crate) fn flush(within: Duration) {
    let Some(queue) = QUEUE.get() else { return };
    let (written, wait) = sync_channel(1);
    if queue.sender.try_send(Entry::Written(written)).is_ok() {
        // After that time the lines are lost.
        let _ = wait.recv_timeout(within);
    }
}

/// A panic of any thread ends the process: a thread that waits for that one would wait forever. The
/// keeper starts another daemon.
pub(crate) fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        if let Some(queue) = QUEUE.get() {
            queue.push(format!("plasmond: {panic}\n").into_bytes());
            flush(WINDOW);
        }
        std::process::abort();
    }));
}

fn write_all(entries: &Receiver<Entry>, lost: &AtomicU64, mut sink: impl Write) {
    while let Ok(entry) = entries.recv() {
        match entry {
            Entry::Line(line) => {
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    // A line that cannot be written is lost, this one as well as the others.
                    let _ = writeln!(sink, "{count} lines of the log are lost");
                }
                let _ = sink.write_all(&line);
            }
            Entry::Written(written) => {
                let _ = sink.flush();
                // The other side may have stopped waiting.
                let _ = written.try_send(());
            }
        }
    }
}

impl Queue {
    fn push(&self, line: Vec<u8>) {
        if self.sender.try_send(Entry::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines of this place were left out before this one; `None` if this one is, too.
    fn admit(&self, place: Identifier, now: Instant) -> Option<u32> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Window { since: now, lines: 0, left_out: 0 };
        let window = windows.entry(place).or_insert(fresh);
        let mut left_out = 0;
        if now.saturating_duration_since(window.since) >= WINDOW {
            left_out = std::mem::replace(window, fresh).left_out;
        }
        if window.lines >= LINES_MAX {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(left_out)
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { queue: Some(self.clone()), bytes: Vec::new() }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Line {
        let mut bytes = Vec::new();
        let queue = match self.admit(about.callsite(), edge::now()) {
            None => None,
            Some(0) => Some(self.clone()),
            Some(count) => {
                bytes.extend(format!("{count} lines like the next are left out\n").bytes());
                Some(self.clone())
            }
        };
        Line { queue, bytes }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.queue.is_some() {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use tracing::callsite::Callsite;

    #[test]
    fn each_place_has_its_lines_and_tells_what_it_left_out() {
        let (sender, _entries) = sync_channel(1);
        let queue = Queue { sender, lost: Arc::default(), windows: Arc::default() };
        let place =
            tracing::callsite!(name: "place", kind: tracing::metadata::Kind::EVENT, fields: a);
        let other =
            tracing::callsite!(name: "other", kind: tracing::metadata::Kind::EVENT, fields: a);
        let (place, other) = (place.metadata().callsite(), other.metadata().callsite());
        let now = edge::now();
        for _ in 0..LINES_MAX {
            assert_eq!(queue.admit(place.clone(), now), Some(0));
        }
        assert_eq!(queue.admit(place.clone(), now), None);
        assert_eq!(queue.admit(place.clone(), now + WINDOW / 2), None);
        assert_eq!(queue.admit(other, now), Some(0));
        assert_eq!(queue.admit(place.clone(), now + WINDOW), Some(2));
        assert_eq!(queue.admit(place, now + WINDOW), Some(0));
    }

    #[test]
    fn lines_that_find_no_room_are_counted() {
        let (sender, entries) = sync_channel(1);
        let queue = Queue { sender, lost: Arc::default(), windows: Arc::default() };
        for _ in 0..3 {
            queue.push(b"line\n".to_vec());
        }
        assert_eq!(queue.lost.load(Ordering::Relaxed), 2);
        let lost = Arc::clone(&queue.lost);
        drop(queue);
        let mut written = Vec::new();
        write_all(&entries, &lost, &mut written);
        assert_eq!(written, b"2 lines of the log are lost\nline\n");
    }

    /// Tells the test that it is its own child.
    const PANICS: &str = "PLASMON_TEST_PANICS";

    /// Work that a thread had taken on when it panicked was waited for without an end.
    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        if std::env::var_os(PANICS).is_some() {
            end_on_panic();
            // The hook is asked before anything unwinds.
            let worker = std::thread::spawn(|| -> u64 { panic!("a fault of ours") });
            assert_ne!(worker.join().unwrap_or(0), 0, "the process lives on");
            return;
        }
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::a_panic_of_any_thread_ends_the_process"])
            .env(PANICS, "1")
            .output()
            .unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
    }
}
