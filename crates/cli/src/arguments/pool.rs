//! The arguments of `plasmon pool`.

use std::ffi::OsString;

use clap::Subcommand;

/// The most nodes of a pool on one machine.
const DEV_NODES_MAX: u32 = 16;

/// The commands of `pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Run a whole pool on this machine, for development: an etcd and a store for each node.
    ///
    /// It runs until Ctrl-C, SIGTERM or SIGHUP, or until the pipe at its standard input is closed,
    /// and then deletes everything.
    Dev(PoolDev),
    /// Run a program that is ended with the command that started it.
    #[command(hide = true)]
    Child(PoolChild),
}

/// Arguments of `pool dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolDev {
    /// How many nodes, named node1, node2 and so on.
    #[arg(
        long, short, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(DEV_NODES_MAX)),
    )]
    pub(crate) nodes: u32,
    /// The capacity of each node's store in bytes, such as 4g.
    #[arg(long, short, value_name = "BYTES", default_value = "256m")]
    pub(crate) capacity: String,
}

/// Arguments of `pool child`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolChild {
    /// The process that it is ended with, which is the parent of this one.
    #[arg(long, value_name = "PID")]
    pub(crate) parent: u32,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}
