//! `plasmon pool`, and what `start` and `doctor` ask about pools.
//!
//! ```text
//!   dev ──► etcd, nodes ──► child: each program runs below `plasmon pool child`, which has the
//!    │                      kernel end it with this command, however this one ends
//!    └────► stop: what ends the command
//! ```

mod checks;
mod child;
mod dev;
mod etcd;
mod node;
mod program;
mod stop;

use anyhow::Result;

pub(super) use self::checks::checks;
pub(super) use self::program::program;
use crate::arguments::Pool;
use crate::output::Output;

/// Runs one of the commands.
pub(super) fn run(command: &Pool, output: &Output) -> Result<()> {
    match command {
        Pool::Dev(dev) => dev::dev(dev, output),
        Pool::Child(child) => child::become_child(child),
    }
}
