//! The program `plasmond`; see the library of this crate.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    plasmon_daemon::run(std::env::args_os().collect())
}
