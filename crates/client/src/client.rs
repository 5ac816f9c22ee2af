//! The store as a caller sees it: what a connection holds.

mod interface;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::chain::Chain;
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
    /// One for this process, behind those of the processes that it was forked from.
    processes: Chain<Arc<Process>>,
    /// By serial, so that a digest is never that of another incarnation.
    digests: Mutex<HashMap<u64, [u8; 32]>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.processes.newest().close();
    }
}

impl Client {
    /// The connection of this process to the store at this socket.
    fn of(process: Arc<Process>, socket: PathBuf, options: &ConnectOptions) -> Self {
        Self(Arc::new(Handle {
            socket,
            options: options.clone(),
            processes: Chain::new(process),
            digests: Mutex::default(),
        }))
    }

    /// The connection of this process. A forked child makes its own at first use.
    #[inline]
    pub(crate) fn here(&self) -> Result<&Arc<Process>> {
        let process = self.0.processes.newest();
        match process.is_ours() {
            true => process.check_open().map(|()| process),
            false => self.connect_child(process),
        }
    }

    #[cold]
    fn connect_child(&self, parents: &Arc<Process>) -> Result<&Arc<Process>> {
        let Handle { socket, options, processes, .. } = &*self.0;
        let process = Process::connect(socket, options, options.reconnect_timeout)?;
        Ok(processes.append_after(parents, process))
    }
}
