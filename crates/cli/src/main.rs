//! The `plasmon` command: a thin main, one module per command, formats and output apart.

#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod completion;
mod failure;
mod formats;
mod output;
mod pattern;
mod progress;
mod selection;
mod target;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    completion::answer(arguments::Arguments::command);
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong(&error),
    };
    let output = output::Output::new(arguments.json);
    match commands::run(&arguments, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(failure::facts(&error).exit)
        }
    }
}

/// Prints what is wrong with the command line, or the requested help or version.
fn wrong(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().take_while(|it| it != "--").any(|it| it == "--json");
    if !error.use_stderr() || !wants_json {
        error.exit();
    }
    let text = error.to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    output::Output::new(true).error(&failure::usage(text).into());
    ExitCode::from(failure::exit::USAGE)
}
