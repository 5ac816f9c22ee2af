//! The first process of a virtual machine with a software RDMA card: it makes the card, and runs
//! the tests of remote memory over it.
//!
//! ```text
//!   scripts/rdma (host)    starts the machine, reads what it says, ends it
//!     └── plasmon-rdma     /init of the machine
//!           modules, network, rxe0
//!           /tests/*       the test programs of crates/fabric and crates/poold, as on the
//!                          host, with PLASMON_TEST_FABRIC=verbs
//! ```
//!
//! What it says: `test NAME` before each program, its output, `passed NAME: STATUS` or `failed
//! NAME: STATUS` after it, and `over` at the end.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;

/// The second serial line, which the host reads.
const SERIAL: &str = "/dev/ttyS1";
const CARD: &str = "/sys/class/infiniband/rxe0";
const ADDRESS: &str = "10.7.7.1";
const WITHIN: Duration = Duration::from_secs(60);

/// What makes the card, command by command.
const COMMANDS: &[&str] = &[
    "ip link set lo up",
    "ip address add 10.7.7.1/24 dev eth0",
    "ip link set eth0 up",
    "rdma link add rxe0 type rxe netdev eth0",
];

/// The environment of the tests, with what every card needs. The queues of a software card are
/// short.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PLASMON_TEST_FABRIC", "verbs"),
    ("PLASMON_TEST_FABRIC_ADDRESS", ADDRESS),
    ("FI_UNIVERSE_SIZE", "4"),
    ("FI_OFI_RXM_MSG_TX_SIZE", "128"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
    ("PATH", "/bin"),
    ("HOME", "/"),
    ("RUST_BACKTRACE", "1"),
];

fn main() -> ExitCode {
    let told = match run() {
        Ok(()) => String::from("over"),
        Err(error) => format!("broken {error:#}"),
    };
    // If it cannot be told, the host sees the machine end.
    let _ = say(&told);
    // The first process must not end before what it said has left the machine.
    sleep(Duration::from_secs(3600));
    ExitCode::FAILURE
}

fn say(line: &str) -> Result<()> {
    let mut serial = OpenOptions::new().write(true).open(SERIAL)?;
    writeln!(serial, "{line}")?;
    Ok(())
}

fn run() -> Result<()> {
    let none = MountFlags::empty();
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        match mount(kind, folder, kind, none, None) {
            // The kernel may have done it.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => return Err(error).with_context(|| format!("mounting {folder}")),
        }
    }
    std::fs::create_dir_all("/dev/shm")?;
    for folder in ["/dev/shm", "/tmp"] {
        mount("tmpfs", folder, "tmpfs", none, None)
            .with_context(|| format!("mounting {folder}"))?;
    }
    load_modules()?;
    await_path("/sys/class/net/eth0")?;
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').collect();
        let status = Command::new(format!("/bin/{}", words[0])).args(&words[1..]).status();
        let status = status.with_context(|| format!("running {command}"))?;
        ensure!(status.success(), "{command}: {status}");
    }
    await_path(CARD)?;
    await_path("/dev/infiniband/uverbs0")?;
    for program in files("/tests")? {
        test(&program)?;
    }
    Ok(())
}

/// Runs one program of tests, whose output is the host's.
fn test(program: &Path) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    say(&format!("test {name}"))?;
    let filter = std::fs::read_to_string(format!("/filters/{name}")).unwrap_or_default();
    let output = || OpenOptions::new().write(true).open(SERIAL);
    let status = Command::new(program)
        .args(filter.split_whitespace())
        .args(["--test-threads", "1", "--nocapture"])
        .envs(plasmon_fabric::ENVIRONMENT)
        .envs(ENVIRONMENT.iter().copied())
        .stdout(output()?)
        .stderr(output()?)
        .status()?;
    let outcome = if status.success() { "passed" } else { "failed" };
    say(&format!("{outcome} {name}: {status}"))
}

fn await_path(path: &str) -> Result<()> {
    let end = Instant::now() + WITHIN;
    while !Path::new(path).exists() {
        ensure!(Instant::now() < end, "{path} does not appear");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The files of a folder, in the order of their names.
fn files(folder: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("listing {folder}"))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// In the order of their names, which the host chose.
fn load_modules() -> Result<()> {
    for path in files("/modules")? {
        let file = File::open(&path)?;
        match finit_module(&file, c"", 0) {
            // One for a processor that has what this one lacks is not needed.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV) => {}
            Err(error) => return Err(error).with_context(|| format!("loading {}", path.display())),
        }
    }
    Ok(())
}
