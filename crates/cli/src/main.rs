//! The `plasmon` command: a thin main, one module per command, formats and output apart.
//!
//! Exit codes: 0 done; 1 the operation failed; 2 the command line is wrong; 3 there is no store to
//! talk to; 4 the object is not there (absent, evicted, deleted, creator died); 5 the store is
//! full.

#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod failure;
mod formats;
mod output;
mod progress;
mod target;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    let output = output::Output::new(arguments.json);
    match commands::run(&arguments, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(failure::exit_code(&error))
        }
    }
}
