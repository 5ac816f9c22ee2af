//! Finding objects: in the shared index, and when they are not there, by waiting for them.
//!
//! ```text
//! index: found ─► pinned                        no system call
//!        missing ─► spin a little ─► Wait over the socket ─► index again
//!                                                              └ missing: ask for its slot
//! ```
//!
//! A miss in the index is never final: the daemon applies every ring before it answers, so what one
//! process put before it told another is found.

use std::sync::Arc;
use std::time::Duration;

use plasmon_proto::object::ObjectState;
use plasmon_proto::{Code, ObjectId};
use plasmon_shm::counted_view::CountedView;
use plasmon_shm::deadline::Deadline;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::pin::{
    DaemonPin, GETTING, Lookup, MAPPING, RECONNECTS_MAX, locate, map_counted, pin, pin_stray,
};
use crate::session::Memory;
use crate::wait::{Until, wait};

/// For how long a get looks at the index before it asks the daemon to be woken.
const SPIN: Duration = Duration::from_micros(10);

/// How long restoring an object from a file may take, for any timeout of the caller: that one
/// limits the wait until the object is sealed, and a spilled object is sealed.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(60);

/// A get that does not wait for objects waits in steps of this for what is restored: the object may
/// be deleted meanwhile, and to wait on would be to wait for its creation.
const RESTORE_STEP: Duration = Duration::from_millis(200);

impl Client {
    /// The object, if it can be had now without waiting.
    pub(crate) fn try_get(&self, id: &ObjectId) -> Result<Option<Buffer>> {
        let connection = self.here()?;
        let session = connection.session();
        let Some(channel) = session.channel() else {
            return Ok(self.try_get_counted(&[*id])?.pop().and_then(Result::ok));
        };
        let Some(view) = pin(connection, session, channel, id)? else {
            return Ok(None);
        };
        let view = view.into_owned(Arc::clone(&channel.reader));
        Ok(Some(Buffer::in_ledger(view, connection, self.clone())))
    }

    /// The object, which the daemon said is readable.
    pub(crate) fn get_readable(&self, id: &ObjectId) -> Result<Option<Buffer>> {
        if let Some(buffer) = self.try_get(id)? {
            return Ok(Some(buffer));
        }
        let connection = self.here()?;
        let Some(channel) = connection.session().channel() else { return Ok(None) };
        let Some(view) = pin_stray(connection, channel, id)? else { return Ok(None) };
        let view = view.into_owned(Arc::clone(&channel.reader));
        Ok(Some(Buffer::in_ledger(view, connection, self.clone())))
    }

    fn try_get_counted(&self, ids: &[ObjectId]) -> Result<Vec<Result<Buffer, ObjectState>>> {
        let connection = self.here()?;
        let mut buffers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(plasmon_proto::limits::REQUEST_IDS_MAX) {
            let mut disconnects = 0;
            let found = loop {
                if let Some(found) = self.get_counted(connection, chunk)? {
                    break found;
                }
                disconnects += 1;
                if disconnects > RECONNECTS_MAX {
                    return Err(Error::new(Code::Disconnected, GETTING)
                        .with_detail("the connection broke several times in a row"));
                }
            };
            buffers.extend(found);
        }
        Ok(buffers)
    }

    /// What the daemon pins for this client. `None` when the connection broke meanwhile: without a
    /// channel every connection is another session, with its own pins and perhaps of another
    /// store, in which the same numbers of extents mean other memory.
    fn get_counted(
        &self,
        connection: &Arc<Connection>,
        ids: &[ObjectId],
    ) -> Result<Option<Vec<Result<Buffer, ObjectState>>>> {
        let mut buffers = Vec::with_capacity(ids.len());
        let Some(Lookup { session, pinnings }) = locate(connection, ids)? else {
            return Ok(None);
        };
        let Memory::Socket(memory) = &session.memory else {
            return Err(Error::unexpected(GETTING));
        };
        for pinning in pinnings {
            let DaemonPin { location, guard } = match pinning {
                Ok(pinning) => pinning,
                Err(state) => {
                    buffers.push(Err(state));
                    continue;
                }
            };
            let map = map_counted(connection, &session, memory, &location.range)?;
            if !connection.is_current(&session) {
                return Ok(None);
            }
            let view = map.and_then(|map| CountedView::new(map, location, guard));
            let view = view.ok_or_else(|| Error::unexpected(MAPPING))?;
            buffers.push(Ok(Buffer::counted(view, connection, self.clone())));
        }
        Ok(Some(buffers))
    }

    /// Looks for a moment, because the creator of the object may be about to seal it. An object of
    /// a pool is not seen for so long after its seal, or comes from another node.
    fn spin_for(&self, id: &ObjectId, until: Until) -> Result<Option<Buffer>> {
        if id.is_pooled() {
            return Ok(None);
        }
        let connection = self.here()?;
        let session = connection.session();
        let Some(channel) = session.channel().filter(|_| !until.is_question()) else {
            return Ok(None);
        };
        let until = Deadline::after(until.left().min(SPIN));
        while !until.is_past() {
            if channel.reader.contains(id) != Some(false) {
                return self.try_get(id);
            }
            std::hint::spin_loop();
        }
        Ok(None)
    }

    pub(crate) fn get_one(&self, id: &ObjectId, given: Until) -> Result<Buffer> {
        if let Some(buffer) = self.try_get(id)? {
            return Ok(buffer);
        }
        self.check_refused(id)?;
        if let Some(buffer) = self.spin_for(id, given)? {
            return Ok(buffer);
        }
        let mut patience = Patience { given, until: given, restored_by: None };
        loop {
            let states = wait(self.here()?, &[*id], 1, patience.until, false)?;
            let state = states.first().copied().unwrap_or(ObjectState::Absent);
            if state.is_readable()
                && let Some(buffer) = self.get_readable(id)?
            {
                return Ok(buffer);
            }
            patience.go_on(id, state)?;
        }
    }

    pub(crate) fn get_all(&self, ids: &[ObjectId], until: Until) -> Result<Vec<Result<Buffer>>> {
        let mut buffers = self.try_get_all(ids)?;
        let missing = |buffers: &[Option<Buffer>]| -> Vec<usize> {
            (0..ids.len()).filter(|index| buffers[*index].is_none()).collect()
        };
        let first = missing(&buffers);
        if first.is_empty() {
            return Ok(buffers.into_iter().flatten().map(Ok).collect());
        }
        let wanted: Vec<ObjectId> = first.iter().map(|index| ids[*index]).collect();
        let states = wait(self.here()?, &wanted, 0, until, false)?;
        // What is readable now is taken together, the rest one by one: each has its own reason.
        let readable: Vec<usize> = (0..wanted.len())
            .filter(|index| states.get(*index).is_some_and(|state| state.is_readable()))
            .collect();
        let readable_ids: Vec<ObjectId> = readable.iter().map(|index| wanted[*index]).collect();
        for (index, buffer) in readable.iter().zip(self.try_get_all(&readable_ids)?) {
            buffers[first[*index]] = buffer;
        }
        let late = !until.is_question() && until.is_past();
        // What is spilled comes back, also when the time was used up.
        let rest = if late { Until::timeout(Some(Duration::ZERO)) } else { until };
        let complete = |(index, buffer): (usize, Option<Buffer>)| match buffer {
            Some(buffer) => Ok(buffer),
            None => self.get_one(&ids[index], rest).map_err(|error| match error.code() {
                // The time was used up together; alone it would read as if there had been none.
                Code::Absent | Code::NotSealed if late => {
                    Error::new(Code::TimedOut, GETTING).with_id(ids[index])
                }
                _ => error,
            }),
        };
        Ok(buffers.into_iter().enumerate().map(complete).collect())
    }

    pub(crate) fn try_get_all(&self, ids: &[ObjectId]) -> Result<Vec<Option<Buffer>>> {
        if self.here()?.session().channel().is_some() {
            return ids.iter().map(|id| self.try_get(id)).collect();
        }
        Ok(self.try_get_counted(ids)?.into_iter().map(Result::ok).collect())
    }
}

/// How long a get of one object waits.
#[derive(Debug)]
struct Patience {
    /// What the caller wants.
    given: Until,
    /// The end of the next wait.
    until: Until,
    /// For a caller that does not wait: when an object that is restored has to be here.
    restored_by: Option<Deadline>,
}

impl Patience {
    /// After a wait that did not end in a buffer: whether to wait again.
    fn go_on(&mut self, id: &ObjectId, state: ObjectState) -> Result<()> {
        let (is_question, is_late) = (self.given.is_question(), self.until.is_past());
        match state {
            // Evicted or deleted between the answer and the look: the next answer tells.
            ObjectState::Sealed => Ok(()),
            ObjectState::Spilled if is_question => self.restore(id, is_late),
            // The pool found no room for it here. To wait would be to wait for its creation, too,
            // if it is deleted meanwhile.
            ObjectState::Remote if is_question => Err(why_not(*id, state, false)),
            ObjectState::Absent | ObjectState::Creating if !is_question && !is_late => Ok(()),
            ObjectState::Spilled | ObjectState::Remote => Err(why_not(*id, state, is_late)),
            _ => Err(why_not(*id, state, !is_question)),
        }
    }

    fn restore(&mut self, id: &ObjectId, is_late: bool) -> Result<()> {
        if let Some(by) = self.restored_by
            && (by.is_past() || !is_late)
        {
            return Err(why_not(*id, ObjectState::Spilled, by.is_past()));
        }
        self.restored_by.get_or_insert_with(|| Deadline::after(RESTORE_TIMEOUT));
        self.until = Until::timeout(Some(RESTORE_STEP));
        Ok(())
    }
}

/// Why a wait for an object ended without it, in this state.
pub(crate) fn why_not(id: ObjectId, state: ObjectState, is_late: bool) -> Error {
    match state {
        ObjectState::Absent
        | ObjectState::Creating
        | ObjectState::Spilled
        | ObjectState::Remote
            if is_late =>
        {
            late(id, state)
        }
        ObjectState::Spilled => Error::new(Code::StoreFull, GETTING)
            .with_id(id)
            .with_detail("there is no memory to restore the object from its spill file"),
        ObjectState::Remote => Error::new(Code::StoreFull, GETTING)
            .with_id(id)
            .with_detail("there is no memory for a copy of the object, which is on other nodes"),
        ObjectState::Creating if id.is_pooled() => Error::of_state(GETTING, id, state).with_detail(
            "a program on this machine is making an object of this name; if the pool has one \
             already, the seal of this one will be refused, and the pool's can be read here then",
        ),
        ObjectState::Corrupt if id.is_pooled() => Error::of_state(GETTING, id, state).with_detail(
            "the copy on this machine is damaged, or every copy in the pool is; `plasmon pool \
             verify --deep` says which are, and repairs them if one is right",
        ),
        other => Error::of_state(GETTING, id, other),
    }
}

fn late(id: ObjectId, state: ObjectState) -> Error {
    let detail = match state {
        ObjectState::Creating => "the object is being created",
        ObjectState::Spilled => "the object is being restored from its spill file",
        ObjectState::Remote => "the object is being copied from another node",
        _ => "the object has not been created",
    };
    Error::new(Code::TimedOut, GETTING).with_id(id).with_detail(detail)
}
