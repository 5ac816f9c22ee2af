//! Commands that are written in Python: this process becomes a Python interpreter that runs the
//! package that this command was installed with.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::arguments::Arguments;

/// The interpreter's program: it runs the module, if it has the package.
const RUN: &str = "
import importlib.util, runpy, sys
module = sys.argv.pop(1)
if importlib.util.find_spec('plasmon') is None:
    print(sys.argv[1], file=sys.stderr)
    sys.exit(1)
del sys.argv[1]
runpy.run_module(module, run_name='__main__', alter_sys=True)
";

/// Replaces this process by the interpreter with this module.
pub(super) fn run(module: &str, what: &str, rest: &[String], arguments: &Arguments) -> Result<()> {
    let python = python();
    let missing = format!(
        "{what} needs the Python package, which {python} does not have: {python} -m pip install \
         plasmon, or name an interpreter that has it with PLASMON_PYTHON",
        python = python.display()
    );
    let encoded = if arguments.json {
        json!({ "error": missing, "code": "failed", "object": null, "id": null }).to_string()
    } else {
        format!("plasmon: {missing}")
    };
    let mut command = Command::new(&python);
    command.args(["-c", RUN, module, &encoded]);
    command.args(arguments.json.then_some("--json")).args(rest);
    if let Some(socket) = &arguments.socket {
        command.env("PLASMON_SOCKET", socket);
    }
    let error = command.exec();
    Err(error).with_context(|| {
        format!(
            "cannot run {}; {what} needs Python with the package: name it with PLASMON_PYTHON",
            python.display()
        )
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
