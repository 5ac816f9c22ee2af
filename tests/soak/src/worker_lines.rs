//! What workers say, as the verifier hears it.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context, Result};

/// What the worker of this number said, or that it has ended.
pub(crate) type WorkerLine = (u32, Option<String>);

/// Sends the lines that a worker writes to the verifier, and then its end.
pub(crate) fn forward(number: u32, worker: &mut Child, lines: &Sender<WorkerLine>) -> Result<()> {
    let stdout = worker.stdout.take().context("a worker has an output")?;
    let lines = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
            // The verifier only stops listening when it ends.
            if lines.send((number, Some(line))).is_err() {
                return;
            }
        }
        let _ = lines.send((number, None));
    });
    Ok(())
}
