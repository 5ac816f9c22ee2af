//! What a Linux machine needs before a program can use its disk.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;

const MODULES: &str = "/modules";
const DATA: &str = "/data";
const DEVICE_WITHIN: Duration = Duration::from_secs(60);

/// Mounts what every program expects, loads the modules, and mounts the disk or the persistent
/// memory.
pub(crate) fn prepare(persistent_memory: bool) -> Result<()> {
    let none = MountFlags::empty();
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        match mount(kind, folder, kind, none, None) {
            // The kernel may have done it.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => return Err(error).with_context(|| format!("mounting {folder}")),
        }
    }
    load_modules()?;
    let (device, options) =
        if persistent_memory { ("/dev/pmem0", c"dax=always") } else { ("/dev/vda", c"") };
    let end = Instant::now() + DEVICE_WITHIN;
    while !Path::new(device).exists() {
        ensure!(Instant::now() < end, "{device} does not appear");
        sleep(Duration::from_millis(50));
    }
    mount(device, DATA, "ext4", none, options).with_context(|| format!("mounting {device}"))
}

/// In the order of their names, which the host chose.
fn load_modules() -> Result<()> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(MODULES).context("listing the modules")? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        let file = File::open(&path)?;
        match finit_module(&file, c"", 0) {
            // One for a processor that has what this one lacks is not needed.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV) => {}
            Err(error) => return Err(error).with_context(|| format!("loading {}", path.display())),
        }
    }
    Ok(())
}

/// Until the host ends the machine.
pub(crate) fn wait_for_the_end() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}
