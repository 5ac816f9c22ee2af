//! Commands that are written in Python: hands over to the package that this command was installed
//! with.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

/// Replaces this process by `python -m MODULE`.
pub(super) fn run(module: &str, what: &str, arguments: &[String], json: bool) -> Result<()> {
    let python = python();
    let mut command = Command::new(&python);
    command.args(["-m", module]);
    command.args(json.then_some("--json")).args(arguments);
    let error = command.exec();
    Err(error).with_context(|| {
        format!("cannot run {}; {what} needs the Python package", python.display())
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
