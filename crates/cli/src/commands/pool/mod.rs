//! `plasmon pool`, and what `start` and `doctor` ask about pools.
//!
//! ```text
//!   dev ──► etcd, nodes ──► child: each program runs below `plasmon pool child`, which has the
//!    │                      kernel end it with this command, however this one ends
//!    ├────► joining: until all nodes have joined
//!    └────► stop: what ends the command
//!
//!   forget, drain, undrain ──► orders: what the node that leads is to do
//!                                │
//!   status, nodes ───────────────┴──► reach: the pool in its etcd; no node is asked
//!   where, verify ──► the pool daemon of the running store
//!   init_certs ──► a folder
//! ```

mod checks;
mod child;
mod clock;
mod contents;
mod dev;
#[cfg(test)]
mod doubles;
mod drain;
mod encryption;
mod etcd;
mod fabric;
mod forget;
mod init_certs;
mod joining;
mod membership;
mod names;
mod no_answer;
mod node;
mod nodes;
mod orders;
mod place;
mod ports;
mod program;
mod reach;
mod secure_etcd;
mod status;
mod stop;
mod verify;
mod whole;

use anyhow::Result;

pub(super) use self::checks::checks;
pub(super) use self::membership::{join, node_check};
pub(super) use self::program::program;
use self::reach::Reach;
pub(super) use self::reach::cluster;
pub(super) use self::whole::{takers, whole_checks};
use crate::arguments::{Arguments, Pool};
use crate::commands::connection;
use crate::output::Output;

/// Runs one of the commands.
pub(super) fn run(arguments: &Arguments, command: &Pool, output: &Output) -> Result<()> {
    match command {
        Pool::Dev(dev) => dev::dev(dev, output),
        Pool::Status(pool) => status::status(&mut Reach::find(arguments, pool)?, output),
        Pool::Nodes(pool) => nodes::nodes(&mut Reach::find(arguments, pool)?, output),
        Pool::Where { object } => place::place(&connection::connect(arguments)?, object, output),
        Pool::Forget(order) => {
            forget::forget(&mut Reach::find(arguments, &order.pool)?, order, output)
        }
        Pool::Drain(order) => {
            drain::drain(&mut Reach::find(arguments, &order.pool)?, order, output)
        }
        Pool::Undrain(order) => {
            drain::undrain(&mut Reach::find(arguments, &order.pool)?, order, output)
        }
        Pool::Verify(verify) => verify::verify(&connection::connect(arguments)?, verify, output),
        Pool::InitCerts(certs) => init_certs::init_certs(certs, output),
        Pool::Child(child) => child::become_child(child),
    }
}
