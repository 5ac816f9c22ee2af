//! Shares: memory that one client's objects have for themselves.
//!
//! An object with policy cache of a client with a share is evicted for new objects of that client
//! only. At the limit of its share the client's own oldest objects make room; what is pinned does
//! not count against it. A share is a limit and a protection, not a reservation: what its client
//! does not use, others may. It ends with the client, whose objects belong to no share from then
//! on.
//!
//! Only objects that the store places (`Create`) are held to the limit.

use plasmon_proto::Code;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::Sizes;

use crate::clients::Clients;
use crate::content::content_bytes;
use crate::event::ClientNo;
use crate::evict::{EvictionScope, Measure};
use crate::ports::Directory;
use crate::space::Space;
use crate::store::Store;
use crate::work::PIECE;

/// Objects that make room in a share for one new object at most.
const EVICTED_MAX: usize = 8 * PIECE;

/// All shares together take at most this many tenths of the capacity.
const SHARED_TENTHS_MAX: u64 = 7;

impl<D: Directory> Store<D> {
    pub(crate) fn set_share(&mut self, client: ClientNo, bytes: u64) -> Result<Reply, Failure> {
        let capacity = self.config.capacity_bytes;
        let most = (capacity / 10).saturating_mul(SHARED_TENTHS_MAX);
        let left = most.saturating_sub(self.sessions.clients.shares_bytes());
        let Some(found) = self.sessions.clients.get_mut(client) else {
            return Err(Failure::of(Code::BadRequest));
        };
        if found.share_bytes.is_some() {
            let detail = "the client has a share already, and it cannot be changed";
            return Err(Failure::of(Code::StoreFull).with_detail(detail));
        }
        if bytes > left {
            let detail = "the share would leave too little memory for other clients";
            return Err(Failure::of(Code::StoreFull).with_amounts(bytes, left).with_detail(detail));
        }
        let session = found.session;
        let content = self.content_of(session);
        if let Some(found) = self.sessions.clients.get_mut(client) {
            (found.share_bytes, found.content_bytes) = (Some(bytes), content);
            self.sessions.clients.share();
        }
        Ok(Reply::Done)
    }

    /// Makes room in a client's share for an object of this content.
    pub(crate) fn keep_to_share(&mut self, client: ClientNo, content: u64) -> Result<(), Failure> {
        let Some(found) = self.sessions.clients.get(client) else { return Ok(()) };
        let Some(share) = found.share_bytes else { return Ok(()) };
        if content > share {
            return Err(Failure::of(Code::QuotaExceeded).with_amounts(content, share));
        }
        let excess = found.content_bytes.saturating_add(content).saturating_sub(share);
        // What is pinned, and what is more than one event evicts, stays for the next object.
        if excess > 0 && self.work.may_look() {
            self.evict(
                excess,
                Measure::Content,
                EvictionScope::Session(found.session),
                EVICTED_MAX,
            );
        }
        Ok(())
    }

    /// Bytes of data and metadata that a session has in memory.
    fn content_of(&self, session: u32) -> u64 {
        let cached = self
            .objects
            .candidates(&self.sessions, EvictionScope::Session(session))
            .map(|record| self.objects.entry(record).meta.sizes);
        let creating = self.objects.pending_objects.from(0).filter(|(_, it)| it.owner == session);
        let creating = creating.map(|(_, it)| it.sizes);
        cached.chain(creating).map(|sizes| content_bytes(&sizes)).sum()
    }
}

impl Space {
    /// An object of this session came into memory, or is being created in it.
    pub(crate) fn hold_content(&mut self, clients: &mut Clients, owner: u32, sizes: &Sizes) {
        let bytes = content_bytes(sizes);
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if let Some(client) = clients.sharer_mut(owner) {
            client.content_bytes = client.content_bytes.saturating_add(bytes);
        }
    }

    /// It is gone from there.
    pub(crate) fn drop_content(&mut self, clients: &mut Clients, owner: u32, sizes: &Sizes) {
        let bytes = content_bytes(sizes);
        self.content_bytes = self.content_bytes.saturating_sub(bytes);
        if let Some(client) = clients.sharer_mut(owner) {
            client.content_bytes = client.content_bytes.saturating_sub(bytes);
        }
    }
}
