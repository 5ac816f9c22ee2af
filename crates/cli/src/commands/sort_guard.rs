//! A process that deletes the partitions of a sort whose process was killed.
//!
//! Partitions that are sealed one after the other would stay when the sort is killed before the
//! last. So their ids are told to another process before the first is made. It waits for a word;
//! the end of the pipe without one means that the sort is gone.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plasmon_client::{Code, ObjectId, Store};

const DONE: &str = "done";
/// For how long the store may take to notice that a process has ended.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// The guard of some objects, seen from the sort. Dropped without a word, it deletes them.
pub(super) struct Guard {
    process: Child,
    tell: ChildStdin,
}

impl Guard {
    /// Starts it; it knows the objects when this returns.
    pub(super) fn start(store: &Store, ids: &[ObjectId]) -> Result<Self> {
        let own = std::env::current_exe().context("this program is not found any more")?;
        let mut process = Command::new(own)
            .arg("--socket")
            .arg(store.socket())
            .arg("sort-guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What it has to say when the sort was killed is for nothing that still runs.
            .stderr(Stdio::null())
            // A Ctrl-C is for the sort.
            .process_group(0)
            .spawn()
            .context("the process that guards the partitions does not start")?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (mut tell, told) = pipes.context("started with pipes")?;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        writeln!(tell, "{}", ids.join(" "))?;
        tell.flush()?;
        let mut ready = String::new();
        BufReader::new(told).read_line(&mut ready)?;
        if ready.is_empty() {
            bail!("the process that guards the partitions ended with {}", process.wait()?);
        }
        Ok(Self { process, tell })
    }

    /// Ends it; the objects stay.
    pub(super) fn dismiss(mut self) -> Result<()> {
        writeln!(self.tell, "{DONE}")?;
        drop(self.tell);
        self.process.wait()?;
        Ok(())
    }
}

/// Guards the objects whose ids come through the standard input.
pub(super) fn guard(store: &Store) -> Result<()> {
    let mut lines = std::io::stdin().lines();
    let ids = lines.next().context("no ids")??;
    let parse = |text: &str| text.parse::<ObjectId>().with_context(|| format!("no id: {text}"));
    let ids = ids.split(' ').map(parse).collect::<Result<Vec<_>>>()?;
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    out.flush()?;
    if lines.next().transpose()?.as_deref() != Some(DONE) {
        delete_made(store, ids)?;
    }
    Ok(())
}

/// Deletes what a process made that has ended. What it was creating is its own until the store has
/// read the last of what it said, which may be that the object is sealed.
fn delete_made(store: &Store, mut ids: Vec<ObjectId>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !ids.is_empty() && Instant::now() < end {
        let outcomes = store.delete(&ids)?;
        let left = ids.iter().zip(outcomes).filter(|(_, code)| *code == Some(Code::NotOwner));
        ids = left.map(|(id, _)| *id).collect();
        if !ids.is_empty() {
            std::thread::sleep(STEP);
        }
    }
    Ok(())
}
