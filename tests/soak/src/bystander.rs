//! Clients that do nothing for long, each in its own way: what the store gives back must be
//! given back whatever they have mapped.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;

use clap::ValueEnum;
use plasmon_client::{Client, Code, Filter, PutOptions};
use plasmon_shm::fork;

use crate::content::{self, Origin};
use crate::worker::{TIMEOUT, connect};

/// A large object, with its own extent, that a bystander makes, reads and deletes: it keeps
/// the mappings, and the store must have the memory back all the same.
const LARGE_BYTES: usize = 32 << 20;

/// What a bystander is called in the ids of its objects; the threads of workers have less.
const THREAD: u8 = u8::MAX;

/// Objects that a bystander reads before it falls idle.
const READ_MAX: usize = 64;

/// How a client does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// It has read objects, let them go, and sleeps.
    Idle,
    /// It has subscribed to everything and reads no notice.
    Slow,
    /// It holds objects and becomes another program.
    Exec,
    /// It holds objects when it forks, and neither it nor its child does anything from then on.
    Forked,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Idle, Self::Slow, Self::Exec, Self::Forked];

    /// The name on the command line.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Exec => "exec",
            Self::Forked => "forked",
        }
    }
}

/// Keeps the mappings of an object that is gone.
fn map_and_delete(store: &Client) -> anyhow::Result<()> {
    // Others may read it before it is deleted, and know what it holds.
    let origin = Origin { worker: process::id(), thread: THREAD };
    let id = content::id(origin, 0, LARGE_BYTES as u32, content::Kind::Bare);
    let options = PutOptions { id: Some(id), ..PutOptions::default() };
    let put = store.put(&content::data(&id), &options);
    let is_there = match &put {
        Ok(_) => true,
        Err(error) if error.code() == Code::StoreFull => return Ok(()),
        // It was applied just before the daemon was killed, and asked for again.
        Err(error) => error.code() == Code::Exists,
    };
    if !is_there {
        put?;
        return Ok(());
    }
    match store.get(&id, Some(TIMEOUT)) {
        Err(error) if error.code() != Code::StoreFull => {
            let said = format!("its put said {put:?}, its state is {:?}", store.stat(&id));
            return Err(anyhow::Error::new(error).context(said));
        }
        _ => {}
    }
    store.delete(&[id])?;
    Ok(())
}

/// Reads a little, then does nothing until the standard input ends.
pub(crate) fn run(socket: &Path, kind: Kind) -> anyhow::Result<()> {
    let store = connect(socket, format!("bystander {}", kind.flag()))?;
    let subscription =
        (kind == Kind::Slow).then(|| store.subscribe(&Filter::default())).transpose()?;
    let listed = store.list(&Filter::default())?;
    let read = listed.iter().take(READ_MAX);
    // An object may have gone since it was listed.
    let held: Vec<_> =
        read.filter_map(|info| store.get(&info.id, Some(Duration::ZERO)).ok()).collect();
    if kind == Kind::Exec {
        // `cat` reads the standard input of this process to its end. What is held dies with this
        // program, although the process lives on.
        return Err(Command::new("cat").exec().into());
    }
    if kind == Kind::Forked {
        fork::idle_child(io::stdin().as_fd())?;
    }
    drop(held);
    map_and_delete(&store)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    drop(subscription);
    Ok(())
}
