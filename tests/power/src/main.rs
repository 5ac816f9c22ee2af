//! The first and only process of a virtual machine whose power is cut: it opens the log of durable
//! objects, tells what it finds, and then puts and deletes objects until it is gone.
//!
//! ```text
//!   scripts/power (host)   starts the machine, cuts its power, compares
//!     └── plasmon-power    /init of the machine
//!           machine        file systems, modules, the disk
//!           serial         what is said leaves the machine before anything else happens
//!           audit          opens the log, reads everything
//!           load           puts, deletes, syncs, the log's own work
//! ```
//!
//! The lines that it says are described in `scripts/power/account.py`. The content of an object
//! follows from its number, so nothing has to be remembered to check it.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "what fails is told on the console")]

mod audit;
mod content;
mod load;
mod machine;
mod serial;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use plasmon_log::{DeviceKind, LogConfig};

use crate::serial::Serial;

const FOLDER: &str = "/data/log";
/// Small, so that segments fill, are collected and are used again within seconds.
const SEGMENT_BYTES: u64 = 8 << 20;
const LOG_BYTES_MAX: u64 = 256 << 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&words) {
        eprintln!("plasmon-power: {error:#}");
    }
    // The first process must not end: the kernel would panic, and so end the machine, which is
    // what tells the host that there is no answer.
    ExitCode::FAILURE
}

fn run(words: &[String]) -> Result<()> {
    let [device, seed, boot, task] = words else {
        bail!("usage: file|dax SEED BOOT load|audit, not {words:?}");
    };
    let device = match device.as_str() {
        "file" => DeviceKind::File,
        "dax" => DeviceKind::Dax,
        other => bail!("there is no device {other}"),
    };
    machine::prepare(device == DeviceKind::Dax).context("preparing the machine")?;
    std::fs::create_dir_all(FOLDER)?;
    let mut serial = Serial::open()?;
    let config = LogConfig {
        folder: Path::new(FOLDER).to_owned(),
        device,
        bytes_max: Some(LOG_BYTES_MAX),
        segment_bytes: SEGMENT_BYTES,
        power_loss_protection: false,
    };
    let opened = plasmon_log::open(&config).context("opening the log")?;
    let mut log = opened.log;
    let objects = audit::run(log.as_mut(), opened.found, &mut serial)?;
    match task.as_str() {
        "audit" => machine::wait_for_the_end(),
        "load" => {
            let (seed, boot): (u64, u64) = (seed.parse()?, boot.parse()?);
            load::run(log.as_mut(), objects, &mut serial, seed, boot)
        }
        other => bail!("there is no task {other}"),
    }
}
