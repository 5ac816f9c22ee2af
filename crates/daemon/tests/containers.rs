//! Daemons in control groups with little memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;

use std::path::{Path, PathBuf};
use std::process::Command;

use desk::*;
use plasmon_proto::Code;
use plasmon_proto::message::*;
use plasmon_proto::object::{Sizes, Traits};

const MIB: u64 = 1 << 20;

/// A control group of its own, removed with the test.
struct Group(PathBuf);

impl Group {
    /// A group that may use this many bytes; `None` where this process may not make one.
    fn new(name: &str, limit_bytes: u64) -> Option<Self> {
        let parents =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let (parent, limit) = parents
            .into_iter()
            .find(|(parent, _)| Path::new(parent).join("cgroup.procs").exists())?;
        let folder = Path::new(parent).join(format!("plasmon-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        std::fs::write(group.0.join(limit), limit_bytes.to_string()).ok()?;
        Some(group)
    }

    /// A command that runs in the group.
    fn within(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("sh");
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        wrapped.arg("-c").arg(join).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs().filter(|(_, value)| value.is_none()) {
            let _ = value;
            wrapped.env_remove(key);
        }
        wrapped
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The daemon's last process may take a moment to be gone.
        for _ in 0..1000 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(libc_busy()) => std::thread::yield_now(),
                _ => return,
            }
        }
    }
}

fn libc_busy() -> i32 {
    rustix::io::Errno::BUSY.raw_os_error()
}

fn created(client: &mut Client, number: u64, data: u64) -> Result<(), Failure> {
    let sizes = Sizes { data, ..Sizes::default() };
    let create =
        Request::Create { id: id(number), sizes, traits: Traits::default(), strict: false };
    match client.try_call(&create) {
        Ok(_) => Ok(()),
        Err(CallError::Failed(failure)) => Err(failure),
        Err(CallError::Closed) => panic!("the daemon died"),
    }
}

/// The daemon promised what its control group did not allow, and was killed at the first object
/// that did not fit; the client asked again, and the next daemon was killed, and so on.
#[test]
fn a_full_control_group_is_a_full_store_and_not_the_death_of_the_daemon() {
    let Some(group) = Group::new("full", 96 * MIB) else {
        eprintln!("skipped: this process may not make a control group");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk { folder, daemon: None };
    let command = group.within(&desk.command(&["--capacity-bytes", "1g"]));
    desk.launch_command(command);
    let mut client = desk.client();
    assert_eq!(client.status().memory_limit_bytes, 96 * MIB);
    let mut fitted = 0;
    let refused = loop {
        match created(&mut client, fitted, 8 * MIB) {
            Ok(()) => fitted += 1,
            Err(failure) => break failure,
        }
        assert!(fitted < 12, "more than the group allows");
    };
    assert_eq!(refused.code, Code::StoreFull);
    assert!(fitted >= 6, "{fitted}");
    let status = client.status();
    assert_eq!((status.epoch, status.creating), (1, fitted));
    // What is given back can be used again.
    client.call(&Request::Abort { id: id(0) });
    created(&mut client, 100, 8 * MIB).unwrap();
    desk.stop();
}

#[test]
fn the_default_capacity_fits_the_control_group() {
    let Some(group) = Group::new("default", 128 * MIB) else {
        eprintln!("skipped: this process may not make a control group");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk { folder, daemon: None };
    let command = group.within(&desk.command(&["--capacity-bytes", "0"]));
    desk.launch_command(command);
    assert_eq!(desk.status().capacity_bytes, 64 * MIB);
    desk.stop();
}
