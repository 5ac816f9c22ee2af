//! `plasmon run-demo`: hands over to the Python package that this command was installed with.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

/// Replaces this process by `python -m plasmon.demo`.
pub(super) fn run(arguments: &[String], json: bool) -> Result<()> {
    let python = python();
    let mut command = Command::new(&python);
    command.args(["-m", "plasmon.demo"]).args(arguments);
    if json {
        command.arg("--json");
    }
    let error = command.exec();
    Err(error).with_context(|| {
        format!("cannot run {}; the demonstration needs the Python package", python.display())
    })
}

/// The interpreter that runs this command's package: `PLASMON_PYTHON` (the package sets it), the
/// one beside this command, or `python3`.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PLASMON_PYTHON") {
        return PathBuf::from(python);
    }
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("python3")));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("python3"))
}
