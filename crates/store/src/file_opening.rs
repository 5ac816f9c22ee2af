//! Spilled objects that a client reads in their files.
//!
//! A client that wants little of a spilled object need not have all of it in memory: the client is
//! given its file's descriptor, and reads what it likes. The daemon opens the file where it does
//! everything else with files, so this takes a ticket and a while. What a client was given it
//! keeps: the file of an object that is deleted or comes back is removed from its folder, and ends
//! with the last descriptor.

mod reply;

use plasmon_proto::ObjectId;
use plasmon_proto::message::SpillFile;

use crate::asker::Asker;

/// A file that the daemon opens for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOpening {
    asker: Asker,
    request: u64,
    id: ObjectId,
    file: SpillFile,
}
