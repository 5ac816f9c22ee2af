//! The program `plasmon-poold`; see the library of this crate.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    plasmon_poold::run(std::env::args_os().collect())
}
