//! Everything that is one question to the daemon.

use plasmon_proto::Code;
use plasmon_proto::ObjectId;
use plasmon_proto::limits::{LIST_PAGE_MAX, REQUEST_IDS_MAX};
use plasmon_proto::message::{ClientInfo, Filter, Reply, Request};
use plasmon_proto::object::{ObjectInfo, ObjectState};
use plasmon_proto::status::Status;

use crate::connection::Connection;
use crate::error::{Error, Result};

impl Connection {
    /// Asks something that is answered by [`Reply::Done`].
    pub(crate) fn command(&self, doing: &'static str, request: Request) -> Result<()> {
        match self.ask(doing, request)?.reply {
            Reply::Done => Ok(()),
            _ => Err(Error::unexpected(doing)),
        }
    }

    pub(crate) fn states(&self, ids: &[ObjectId]) -> Result<Vec<ObjectState>> {
        const DOING: &str = "asking for the states of objects";
        let mut states = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(REQUEST_IDS_MAX) {
            match self.ask(DOING, Request::States { ids: chunk.to_vec() })?.reply {
                Reply::States(answered) if answered.len() == chunk.len() => states.extend(answered),
                _ => return Err(Error::unexpected(DOING)),
            }
        }
        Ok(states)
    }

    pub(crate) fn delete(&self, ids: &[ObjectId]) -> Result<Vec<Option<Code>>> {
        const DOING: &str = "deleting objects";
        let mut outcomes = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(REQUEST_IDS_MAX) {
            let answer = self.ask(DOING, Request::Delete { ids: chunk.to_vec() })?;
            let again = answer.again;
            match answer.reply {
                Reply::Outcomes(answered) if answered.len() == chunk.len() => {
                    // Asked twice, an object that is gone was probably deleted by us.
                    let ours =
                        |code: &Code| !(again && matches!(code, Code::Deleted | Code::Absent));
                    outcomes.extend(answered.into_iter().map(|code| code.filter(ours)));
                }
                _ => return Err(Error::unexpected(DOING)),
            }
        }
        Ok(outcomes)
    }

    /// Deletes objects as soon as no client reads them.
    pub(crate) fn delete_unused(&self, ids: &[ObjectId]) -> Result<Vec<Option<Code>>> {
        const DOING: &str = "deleting unused objects";
        let mut outcomes = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(REQUEST_IDS_MAX) {
            match self.ask(DOING, Request::DeleteUnused { ids: chunk.to_vec() })?.reply {
                Reply::Outcomes(answered) if answered.len() == chunk.len() => {
                    outcomes.extend(answered);
                }
                _ => return Err(Error::unexpected(DOING)),
            }
        }
        Ok(outcomes)
    }

    pub(crate) fn evict(&self, bytes: u64) -> Result<(u64, u64)> {
        const DOING: &str = "evicting objects";
        match self.ask(DOING, Request::Evict { bytes })?.reply {
            Reply::Evicted { bytes, objects } => Ok((bytes, objects)),
            _ => Err(Error::unexpected(DOING)),
        }
    }

    pub(crate) fn touch(&self, ids: &[ObjectId]) -> Result<()> {
        ids.chunks(REQUEST_IDS_MAX).try_for_each(|chunk| {
            self.command("marking objects as used", Request::Touch { ids: chunk.to_vec() })
        })
    }

    pub(crate) fn demote(&self, ids: &[ObjectId]) -> Result<()> {
        ids.chunks(REQUEST_IDS_MAX).try_for_each(|chunk| {
            self.command("marking objects as unused", Request::Demote { ids: chunk.to_vec() })
        })
    }

    pub(crate) fn stat(&self, id: &ObjectId) -> Result<Option<ObjectInfo>> {
        const DOING: &str = "describing object";
        match self.ask(DOING, Request::Stat { id: *id })?.reply {
            Reply::Info(info) => Ok(info),
            _ => Err(Error::unexpected(DOING)),
        }
    }

    /// One page of a listing and where the next one starts.
    pub(crate) fn page(
        &self,
        filter: &Filter,
        cursor: u64,
    ) -> Result<(Vec<ObjectInfo>, Option<u64>)> {
        const DOING: &str = "listing objects";
        let limit = LIST_PAGE_MAX as u32;
        match self.ask(DOING, Request::List { filter: filter.clone(), cursor, limit })?.reply {
            Reply::Page(page, next) => Ok((page, next)),
            _ => Err(Error::unexpected(DOING)),
        }
    }

    pub(crate) fn status(&self) -> Result<Status> {
        const DOING: &str = "asking for the store's status";
        match self.ask(DOING, Request::Status)?.reply {
            Reply::Status(status) => Ok(*status),
            _ => Err(Error::unexpected(DOING)),
        }
    }

    pub(crate) fn clients(&self) -> Result<Vec<ClientInfo>> {
        const DOING: &str = "listing clients";
        let mut clients = Vec::new();
        loop {
            let skip = u32::try_from(clients.len()).unwrap_or(u32::MAX);
            match self.ask(DOING, Request::Clients { skip })?.reply {
                Reply::Clients(page) if page.is_empty() => return Ok(clients),
                Reply::Clients(page) => clients.extend(page),
                _ => return Err(Error::unexpected(DOING)),
            }
        }
    }

    /// Stops the daemon if it has no objects and no other clients.
    pub(crate) fn shutdown_unused(&self) -> Result<()> {
        self.command("stopping a store that holds nothing", Request::ShutdownUnused)
    }

    /// Stops the daemon. Its going away before it answered is an answer, too.
    pub(crate) fn shutdown(&self) -> Result<()> {
        const DOING: &str = "stopping the store";
        match self.ask(DOING, Request::Shutdown) {
            Ok(answer) if matches!(answer.reply, Reply::Done) => Ok(()),
            Ok(_) => Err(Error::unexpected(DOING)),
            Err(error) if error.code() == Code::Disconnected => Ok(()),
            Err(error) => Err(error),
        }
    }
}
