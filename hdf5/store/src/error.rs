//! The errors of a dataset in a store; each message has the remedy.

use std::path::PathBuf;

use plasmon_client::ObjectState;

/// Why the data of a dataset in a store cannot be had, or not be stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No daemon answers.
    #[error("there is no store at {socket}: {why}; start it (plasmon start), or name \
             another one: HDF5_VOL_CONNECTOR=\"plasmon store=SOCKET\"", socket = .0.display(),
             why = .1)]
    Unreachable(PathBuf, #[source] plasmon_client::Error),
    /// The store refuses, or went away.
    #[error("object hdf5:{name} in the store {socket}: {why}", socket = .socket.display())]
    Refused {
        /// The object's name.
        name: String,
        /// The store.
        socket: PathBuf,
        /// The store's error.
        #[source]
        why: plasmon_client::Error,
    },
    /// The store does not have it.
    #[error("the data of this dataset should be object hdf5:{name} in the store {socket}, which \
             does not have it ({state}): the store was restarted, the object was deleted, or \
             its writer ended before it closed the file", socket = .socket.display(),
             state = .state.key())]
    Missing {
        /// The object's name.
        name: String,
        /// The store.
        socket: PathBuf,
        /// The object's state in the store.
        state: ObjectState,
    },
    /// It is something else.
    #[error("object hdf5:{0} is not the data that was written for this dataset: {1}")]
    Foreign(String, &'static str),
    /// Another process wrote it since.
    #[error(
        "object hdf5:{0}: another process has written this dataset since it was opened here; \
             close and open the file again"
    )]
    Overtaken(String),
    /// It is being written by the process that this one was forked from.
    #[error(
        "object hdf5:{0} is being written by the parent process: flush or close the file \
             before forking"
    )]
    Parents(String),
    /// No name is free.
    #[error("no name is free in the store {socket} for a dataset called {name}",
             socket = .0.display(), name = .1)]
    NoName(PathBuf, String),
    /// The name cannot be one of an object.
    #[error("{0:?} cannot be the name of an object: {1}")]
    BadName(String, String),
}
