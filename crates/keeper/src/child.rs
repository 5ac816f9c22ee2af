//! Processes of this program that a daemon or a keeper starts.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use plasmon_shm::socket::Connection;

/// This program, also after its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// A process that was started here.
#[derive(Debug)]
pub(crate) enum Child {
    /// One of the kernel's.
    Started(std::process::Child),
    /// One of the simulator's.
    #[cfg(feature = "sim")]
    Simulated(u32),
}

impl Child {
    /// Starts this program under the name `name` with `role`, then `flags`. Its standard input is
    /// the socket.
    pub(crate) fn start(
        name: &str,
        role: &str,
        flags: impl IntoIterator<Item: AsRef<OsStr>>,
        input: &Connection,
        errors: Stdio,
    ) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if plasmon_shm::edge::simulated::is_entered() {
            let input = input.duplicate()?;
            let start =
                |world: &dyn plasmon_shm::edge::simulated::World| world.start_process(role, input);
            let pid = plasmon_shm::edge::simulated::within(start).expect("it is entered")?;
            return Ok(Self::Simulated(pid));
        }
        let child = Command::new(THIS_PROGRAM)
            .arg0(name)
            .arg(role)
            .args(flags)
            .stdin(Stdio::from(input.duplicate()?))
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        Ok(Self::Started(child))
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Started(child) => child.id(),
            #[cfg(feature = "sim")]
            Self::Simulated(pid) => *pid,
        }
    }

    /// Ends it.
    pub(crate) fn kill(&mut self) {
        match self {
            // It fails only for a process that ended and was collected already.
            Self::Started(child) => drop(child.kill()),
            #[cfg(feature = "sim")]
            Self::Simulated(pid) => {
                plasmon_shm::edge::simulated::within(|world| world.kill_process(*pid));
            }
        }
    }

    /// Collects it once it has ended; its exit code, if it ended by itself.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        match self {
            // It fails as above.
            Self::Started(child) => child.wait().ok().and_then(|status| status.code()),
            #[cfg(feature = "sim")]
            Self::Simulated(pid) => {
                plasmon_shm::edge::simulated::within(|world| world.wait_process(*pid));
                None
            }
        }
    }
}
