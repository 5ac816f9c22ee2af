//! Every kind of system call, with every error, early and late.

#![expect(clippy::print_stdout, reason = "the report is what it is for")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use plasmon_faults::kinds::{KINDS, Kind, error_name};
use plasmon_faults::supervisor::Fault;
use plasmon_faults::trial::{Bench, Scene, name, start};

/// Makes system calls of the daemon, its keeper and a client fail, one after the other.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only this scene: start, serve, takeover, client.
    #[arg(long)]
    scene: Option<String>,
    /// Only this kind of call.
    #[arg(long)]
    kind: Option<String>,
    /// Only this error, such as ENOMEM.
    #[arg(long)]
    error: Option<String>,
    /// Only with this many calls before.
    #[arg(long)]
    after: Option<u32>,
    /// How late the latest fault comes, in calls of its kind.
    #[arg(long, default_value_t = 40)]
    after_max: u32,
    /// Only the fault that has no end.
    #[arg(long)]
    all: bool,
    /// Say what the processes said about each fault.
    #[arg(long)]
    verbose: bool,
}

impl Arguments {
    fn wants(&self, scene: Scene, kind: &Kind, error: i32) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.scene, &scene.to_string())
            && is(&self.kind, kind.name)
            && is(&self.error, error_name(error))
    }
}

/// What the trials came to.
#[derive(Debug, Default)]
struct Tally {
    bench: Option<Bench>,
    passed: u32,
    violations: u32,
}

impl Tally {
    /// Tries one fault; whether any call failed.
    fn attempt(&mut self, scene: Scene, fault: Fault, verbose: bool) -> Result<bool> {
        let shown = match scene {
            Scene::Start => start(fault),
            _ => {
                let mut bench = match self.bench.take() {
                    Some(bench) => bench,
                    None => Bench::start()?,
                };
                let shown = bench.try_fault(scene, fault);
                if shown.is_ok() {
                    self.bench = Some(bench);
                }
                shown
            }
        };
        match shown {
            Ok(shown) => {
                self.passed += u32::from(shown.failed > 0);
                if verbose && shown.failed > 0 {
                    println!("{}: {} failed, {:?}", name(scene, &fault), shown.failed, shown.said);
                }
                Ok(shown.failed > 0)
            }
            Err(error) => {
                self.violations += 1;
                println!("VIOLATION {}: {error:#}", name(scene, &fault));
                Ok(true)
            }
        }
    }

    /// One kind with one error, at every moment.
    fn all_moments(&mut self, scene: Scene, fault: Fault, arguments: &Arguments) -> Result<()> {
        if arguments.all {
            self.attempt(scene, Fault { count: u32::MAX, ..fault }, arguments.verbose)?;
            return Ok(());
        }
        let moments = match arguments.after {
            Some(after) => after..=after,
            None => 0..=arguments.after_max,
        };
        for after in moments {
            if !self.attempt(scene, Fault { after, ..fault }, arguments.verbose)? {
                break;
            }
        }
        // A call that is interrupted again and again is no fault of this world.
        if arguments.after.is_none() && fault.error != libc::EINTR {
            self.attempt(scene, Fault { count: u32::MAX, ..fault }, arguments.verbose)?;
        }
        Ok(())
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut tally = Tally::default();
    for scene in Scene::ALL {
        for kind in KINDS {
            for error in kind.errors.iter().filter(|error| arguments.wants(scene, kind, **error)) {
                let fault = Fault { kind, error: *error, after: 0, count: 1, process: None };
                tally.all_moments(scene, fault, &arguments)?;
            }
        }
    }
    println!("{} passed, {} failed", tally.passed, tally.violations);
    Ok(ExitCode::from(u8::from(tally.violations > 0)))
}
