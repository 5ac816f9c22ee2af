//! A store under test with the settings of its life: its spill folder, and the memory that it may
//! have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::lives::{self, CAPACITY_BYTES, Life};

/// Where the daemon spills, in the folder of the store.
const SPILL: &str = "spill";

/// A store in a folder.
#[derive(Debug)]
pub(crate) struct Node {
    folder: PathBuf,
    /// Its processes.
    pub(crate) daemon: Daemon,
    /// Dropped last, when its processes have gone.
    #[expect(dead_code, reason = "what it does is in its drop")]
    group: Option<Group>,
}

impl Node {
    /// Starts a store in this folder, where another one may have died before.
    pub(crate) fn start(program: &Path, life: &Life, folder: &Path) -> Result<Self> {
        let group = life.limit_bytes.map(Group::make).transpose()?.flatten();
        let mut command = match &group {
            Some(group) => group.command(program),
            None => Command::new(program),
        };
        command
            .args(["--capacity-bytes", &CAPACITY_BYTES.to_string()])
            .arg("--spill-dir")
            .arg(folder.join(SPILL))
            .args(life.flags);
        let daemon = Daemon::start(command, folder)?;
        Ok(Self { folder: folder.to_owned(), daemon, group })
    }

    /// Takes the spill folder away, or brings it back.
    pub(crate) fn set_spill_folder(&self, there: bool) -> Result<()> {
        let (there_path, away) = (self.folder.join(SPILL), self.folder.join("away"));
        let (from, to) = if there { (away, there_path) } else { (there_path, away) };
        fs::rename(from, to).context("moving the spill folder")
    }

    /// How many stores have left something in the spill folder, this one included.
    pub(crate) fn spill_folders(&self) -> Result<usize> {
        let entries = fs::read_dir(self.folder.join(SPILL))?;
        Ok(entries.filter(|entry| entry.as_ref().is_ok_and(|it| it.path().is_dir())).count())
    }
}

/// A control group that limits memory, gone with its value.
#[derive(Debug)]
struct Group(PathBuf);

impl Group {
    /// `None` where there are no control groups that this user can make.
    fn make(limit_bytes: u64) -> Result<Option<Self>> {
        let Some((groups, limit)) = lives::memory_groups() else { return Ok(None) };
        let folder = groups.join(format!("plasmon-soak-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() || !folder.join(limit).exists() {
            let _ = fs::remove_dir(&folder);
            return Ok(None);
        }
        let group = Self(folder);
        fs::write(group.0.join(limit), limit_bytes.to_string())?;
        Ok(Some(group))
    }

    /// Starts a program in the group, with everything that it starts in turn.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(self.0.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty one can be removed; a daemon that would not end is reported elsewhere.
        let _ = fs::remove_dir(&self.0);
    }
}
