//! The store under test: its processes die, and its log stays.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use plasmon_testkit::Random;

use crate::daemon::Daemon;

/// Less than what the objects take, so that they leave the memory and come back from the log.
const CAPACITY: &str = "24m";

/// Starts a store that has the log in this folder.
pub(super) fn start(program: &Path, folder: &Path, random: &mut Random) -> Result<Daemon> {
    fs::create_dir_all(folder)?;
    let batch_ms = random.pick(&["0", "2"]);
    let mut command = Command::new(program);
    command
        .args(["--capacity-bytes", CAPACITY, "--durable-segment-bytes", "1m"])
        .args(["--durable-batch-ms", batch_ms, "--durable-device", "file"])
        .arg("--durable-dir")
        .arg(folder.join("log"));
    Daemon::start(command, folder)
}
