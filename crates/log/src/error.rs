//! Why a log could not do it.

use std::io;

use plasmon_proto::ObjectId;

use crate::Lsn;

/// Why a log could not do it.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The budget or the file system has no room: delete something, or give the log more.
    #[error(
        "the log of durable objects has no room for {wanted_bytes} bytes ({free_bytes} are free); \
         delete durable objects, or give the log more room"
    )]
    Full {
        /// What is needed.
        wanted_bytes: u64,
        /// What the budget leaves; 0 when the file system itself is full.
        free_bytes: u64,
    },
    /// The bytes are not what was written.
    #[error("{place}, byte {offset}: {what}")]
    Corrupt {
        /// The file, or what stands for it.
        place: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// There is no such record, or it is dead.
    #[error("the log has no live record {lsn}")]
    Absent {
        /// Its number.
        lsn: Lsn,
    },
    /// The object cannot be described: fix the call.
    #[error("the object {id} cannot be in the log: {what}")]
    BadObject {
        /// The object.
        id: ObjectId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The operating system refused.
    #[error("{place}: cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// The payload could not be read from its source, or not be given to the reader. The log is as
    /// it was.
    #[error("the payload of an object cannot be moved: {0}")]
    Payload(io::Error),
    /// An earlier write or sync failed. Whether what was appended since is on the disk is not
    /// known; the log takes nothing more until it is opened again.
    #[error("the log of durable objects has failed and takes nothing more: {why}")]
    Failed {
        /// The first failure.
        why: String,
    },
    /// Another process uses the folder.
    #[error("{place}: another process uses this log; stop it, or choose another folder")]
    Locked {
        /// The lock file.
        place: String,
    },
    /// The folder was written by another version.
    #[error(
        "{place}: the log has version {found} of the format and this program knows version \
         {known}; use the program that wrote it, or another folder"
    )]
    Version {
        /// The superblock.
        place: String,
        /// What it has.
        found: u32,
        /// What this program knows.
        known: u32,
    },
    /// This device is not available.
    #[error("no durable device of the kind {kind} is available for {place}: {what}")]
    NoDevice {
        /// What was asked for.
        kind: &'static str,
        /// The folder.
        place: String,
        /// Why not.
        what: &'static str,
    },
}

impl LogError {
    /// An error of the system.
    pub(crate) fn io(action: &'static str, place: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, place, source }
    }
}
