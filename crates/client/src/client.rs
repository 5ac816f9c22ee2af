//! The store as a caller sees it: what a connection holds.

mod interface;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::append_only_list::AppendOnlyList;
use crate::connection::Connection;
use crate::error::Result;
use crate::options::ConnectOptions;
use crate::process::Process;

pub use plasmon_proto::message::PROTOCOL_VERSION;

/// A connection to a store, shared by all threads of a process; clones are the same connection.
#[derive(Clone, Debug)]
pub struct Client(pub(crate) Arc<Handle>);

#[derive(Debug)]
pub(crate) struct Handle {
    socket: PathBuf,
    options: ConnectOptions,
    /// One for this process, after those of the processes it was forked from.
    processes: AppendOnlyList<Process>,
    /// By serial, so that a digest is never that of another incarnation.
    digests: Mutex<HashMap<u64, [u8; 32]>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.processes.newest().connection.close();
    }
}

impl Client {
    /// The connection of this process to the store at this socket.
    fn of(process: Process, socket: PathBuf, options: &ConnectOptions) -> Self {
        Self(Arc::new(Handle {
            socket,
            options: options.clone(),
            processes: AppendOnlyList::new(process),
            digests: Mutex::default(),
        }))
    }

    /// The connection of this process. A forked child makes its own at first use.
    #[inline]
    pub(crate) fn here(&self) -> Result<&Arc<Connection>> {
        self.process().map(|process| &process.connection)
    }

    /// What this process has: for what makes objects.
    #[inline]
    pub(crate) fn process(&self) -> Result<&Process> {
        let process = self.0.processes.newest();
        match process.connection.is_ours() {
            true => process.connection.check_open().map(|()| process),
            false => self.connect_child(process),
        }
    }

    /// The connection that was made last, which may be that of the process that forked this one.
    #[inline]
    fn newest(&self) -> &Arc<Connection> {
        &self.0.processes.newest().connection
    }

    #[cold]
    fn connect_child(&self, parents: &Process) -> Result<&Process> {
        let Handle { socket, options, processes, .. } = &*self.0;
        let process = Process::connect(socket, options, options.reconnect_timeout)?;
        Ok(processes.append_after(parents, process))
    }
}
