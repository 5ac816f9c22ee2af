//! The rules of the repository, executed.
//!
//! ```text
//! cargo xtask tidy              every rule over every file, exit code 1 on a finding
//! cargo xtask licences          the licences of everything that is linked in, without network
//! cargo xtask docs [--check]    writes (or compares) the pages generated from declarations
//! cargo xtask lines             how many lines of product, tests, tools and documents there are
//! ```
//!
//! A rule is a function from files to findings, so that its tests need no file on disk: each has
//! a sample that keeps it and one that breaks it. [`rules`] lists them by family. What a compiler
//! or a linter checks already (formatting, unsafe blocks without a reason in one statement) is not
//! repeated here; what spans files, languages and crates is.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

mod docs;
mod finding;
mod imports;
mod licences;
mod lines;
mod python;
mod rules;
mod rust;
mod tree;

use std::process::ExitCode;

use finding::Finding;
use tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy | licences | docs [--check] | lines";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy(),
        ["licences"] => licences::run(),
        ["docs"] => docs::write(),
        ["lines"] => lines::run(),
        ["docs", "--check"] => Tree::of_checkout().map(|tree| report("docs", &docs::stale(&tree))),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> Result<bool, String> {
    let tree = Tree::of_checkout()?;
    let findings = rules::check(&tree);
    println!("{}", rules::summary(&tree));
    Ok(report("tidy", &findings))
}

/// Prints the findings and says whether there were none.
fn report(what: &str, findings: &[Finding]) -> bool {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("{what}: clean"),
        count => println!("{what}: {count} to fix"),
    }
    findings.is_empty()
}
