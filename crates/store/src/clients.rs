//! The connected clients and what each of them holds.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::message::{Access, Filter};

use crate::accounts::{Accounts, Owner};
use crate::asker::{Answer, Asker};
use crate::event::{ClientNo, Peer};
use crate::memory::Leases;
use crate::scopes::{Scope, Scopes};
use crate::wait_table::WaiterNo;

/// The session of objects that have no owner.
pub(crate) const NO_OWNER: u32 = 0;

/// Leases that a client may have asked for on the socket and not been given yet: about one for each
/// of its threads that write at once.
const SOCKET_LEASES_PENDING_MAX: usize = 64;

/// One client, connected or away.
#[derive(Debug)]
pub(crate) struct Client {
    /// Unique forever, where the daemon's number is used again. Objects remember it.
    pub(crate) session: u32,
    pub(crate) peer: Peer,
    /// Spill files that are being opened for it.
    pub(crate) openings: usize,
    /// Its present connection, or its last one: unique forever.
    pub(crate) connection: u64,
    /// Whether it has no connection and may come back. What was lent to it stays its own: its
    /// process may be writing there.
    pub(crate) away: bool,
    /// Whose quota it counts against.
    pub(crate) owner: Owner,
    /// Charges of the objects that it created, of those that it is creating, and of its leases.
    pub(crate) owned_bytes: u64,
    pub(crate) quota_bytes: u64,
    /// Its share of the memory, see [`crate::shares`].
    pub(crate) share_bytes: Option<u64>,
    /// Bytes of data and metadata of its objects, where it has a share.
    pub(crate) content_bytes: u64,
    pub(crate) leases: Leases,
    /// Whether the leases may contain memory that was never reserved: after a restart of the
    /// daemon, until the client says what it really holds.
    pub(crate) leases_unsure: bool,
    /// Whether it was promised a lease through its ring.
    pub(crate) ring_lease_pending: bool,
    /// How many leases it was promised on the socket.
    pub(crate) socket_leases_pending: usize,
    pub(crate) creating: BTreeSet<ObjectId>,
    /// Its owned objects that no composite has held yet: they go with it.
    pub(crate) unattached: BTreeMap<ObjectId, u64>,
    /// Its scopes, see [`crate::scopes`].
    pub(crate) scopes: Scopes,
    /// Its waiting requests.
    pub(crate) waits: BTreeMap<u64, WaiterNo>,
    /// How many ids they name.
    pub(crate) waiting_ids: usize,
    /// Its pins that the store counts, by serial.
    pub(crate) pins: BTreeMap<u64, u32>,
    /// The sum of `pins`.
    pub(crate) pins_count: usize,
    pub(crate) filter: Option<Filter>,
}

impl Client {
    /// Whether it may change anything.
    pub(crate) fn may_write(&self) -> bool {
        self.peer.access == Access::ReadWrite
    }

    /// Whether it may ask for a lease in this way now.
    pub(crate) fn may_ask(&self, answer: Answer) -> bool {
        match answer {
            Answer::Ring(_) => !self.ring_lease_pending,
            Answer::Socket(_) => self.socket_leases_pending < SOCKET_LEASES_PENDING_MAX,
        }
    }

    /// It asked for a lease, or was answered.
    pub(crate) fn note_lease(&mut self, answer: Answer, pending: bool) {
        match (answer, pending) {
            (Answer::Ring(_), _) => self.ring_lease_pending = pending,
            (Answer::Socket(_), true) => self.socket_leases_pending += 1,
            (Answer::Socket(_), false) => self.socket_leases_pending -= 1,
        }
    }
}

/// All clients, connected and away.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_no: BTreeMap<ClientNo, Client>,
    by_session: BTreeMap<u32, ClientNo>,
    subscribers: BTreeSet<ClientNo>,
    /// Clients with a share.
    sharers: usize,
    sessions: u32,
    connections: u64,
    /// The quota of every owner, 0 for none.
    owner_quota_bytes: u64,
    accounts: Accounts,
}

impl Clients {
    pub(crate) fn len(&self) -> usize {
        self.by_no.len()
    }

    /// No clients yet; each owner may have so much, 0 for no limit.
    pub(crate) fn new(owner_quota_bytes: u64) -> Self {
        Self { owner_quota_bytes, ..Self::default() }
    }

    pub(crate) fn connect(&mut self, no: ClientNo, peer: Peer, owner: Owner) {
        // After four thousand million connections, objects have no owner: quotas then count only
        // leases and objects under construction.
        self.sessions = self.sessions.saturating_add(1);
        self.connections += 1;
        let client = Client {
            session: self.sessions,
            peer,
            openings: 0,
            connection: self.connections,
            away: false,
            owner,
            owned_bytes: 0,
            quota_bytes: self.owner_quota_bytes,
            share_bytes: None,
            content_bytes: 0,
            leases: Leases::default(),
            leases_unsure: false,
            ring_lease_pending: false,
            socket_leases_pending: 0,
            creating: BTreeSet::new(),
            unattached: BTreeMap::new(),
            scopes: Scopes::default(),
            waits: BTreeMap::new(),
            waiting_ids: 0,
            pins: BTreeMap::new(),
            pins_count: 0,
            filter: None,
        };
        self.by_session.insert(client.session, no);
        self.by_no.insert(no, client);
    }

    pub(crate) fn disconnect(&mut self, no: ClientNo) -> Option<Client> {
        let client = self.by_no.remove(&no)?;
        self.by_session.remove(&client.session);
        self.subscribers.remove(&no);
        self.sharers -= usize::from(client.share_bytes.is_some());
        // Everything stays charged for as long as it is there.
        self.accounts.end(client.session, client.owner, client.owned_bytes);
        Some(client)
    }

    /// The client's connection broke. `None` when it has none.
    pub(crate) fn part(&mut self, no: ClientNo) -> Option<&mut Client> {
        self.subscribe(no, None);
        let client = self.by_no.get_mut(&no).filter(|client| !client.away)?;
        client.away = true;
        client.ring_lease_pending = false;
        client.socket_leases_pending = 0;
        Some(client)
    }

    /// The client has another connection.
    pub(crate) fn come_back(&mut self, no: ClientNo) -> Option<&mut Client> {
        let client = self.by_no.get_mut(&no)?;
        self.connections += 1;
        client.connection = self.connections;
        client.away = false;
        Some(client)
    }

    /// This client, as one that is to be answered later.
    pub(crate) fn asker(&self, no: ClientNo) -> Option<Asker> {
        let Client { session, connection, .. } = *self.by_no.get(&no)?;
        Some(Asker { client: no, session, connection })
    }

    /// Whether this is still waited for: on the connection that it was asked on.
    pub(crate) fn is_asking(&self, asker: Asker) -> bool {
        let client = self.by_no.get(&asker.client);
        client.is_some_and(|client| client.connection == asker.connection && !client.away)
    }

    /// The clients that have no connection and may come back.
    pub(crate) fn away(&self) -> impl Iterator<Item = &Client> {
        self.by_no.values().filter(|client| client.away)
    }

    pub(crate) fn get(&self, no: ClientNo) -> Option<&Client> {
        self.by_no.get(&no)
    }

    pub(crate) fn get_mut(&mut self, no: ClientNo) -> Option<&mut Client> {
        self.by_no.get_mut(&no)
    }

    /// Whether a client has this number, which is the same for all daemons.
    pub(crate) fn has_number(&self, number: u64) -> bool {
        self.by_no.values().any(|client| client.peer.session == number)
    }

    /// The client of a session that has not ended.
    pub(crate) fn of_session(&self, session: u32) -> Option<(ClientNo, &Client)> {
        let no = *self.by_session.get(&session)?;
        Some((no, self.by_no.get(&no)?))
    }

    /// The client of a session that has not ended.
    pub(crate) fn of_session_mut(&mut self, session: u32) -> Option<(ClientNo, &mut Client)> {
        let no = *self.by_session.get(&session)?;
        Some((no, self.by_no.get_mut(&no)?))
    }

    /// These objects stay, whatever client has them in a scope.
    pub(crate) fn release_from_scopes(&mut self, published: &Scope) {
        for client in self.by_no.values_mut().filter(|client| !client.scopes.is_empty()) {
            client.scopes.release(published);
        }
    }

    /// Bytes in the leases of all clients.
    pub(crate) fn leased_bytes(&self) -> u64 {
        self.by_no.values().map(|client| client.leases.bytes()).sum()
    }

    /// One more client was given a share.
    pub(crate) fn share(&mut self) {
        self.sharers += 1;
    }

    /// Whether any client has a share.
    pub(crate) fn has_shares(&self) -> bool {
        self.sharers > 0
    }

    /// The client of a session, if it has a share.
    pub(crate) fn sharer_mut(&mut self, session: u32) -> Option<&mut Client> {
        if self.sharers == 0 {
            return None;
        }
        let (_, client) = self.of_session_mut(session)?;
        client.share_bytes.is_some().then_some(client)
    }

    /// The sum of all shares.
    pub(crate) fn shares_bytes(&self) -> u64 {
        self.by_no.values().filter_map(|client| client.share_bytes).sum()
    }

    /// The session owns this much more, also if it has ended.
    pub(crate) fn own(&mut self, session: u32, bytes: u64) {
        if let Some((_, client)) = self.of_session_mut(session) {
            client.owned_bytes = client.owned_bytes.saturating_add(bytes);
            let owner = client.owner;
            self.accounts.add(owner, bytes);
        } else if session != NO_OWNER {
            self.accounts.own(session, bytes);
        }
    }

    /// The session owns this much less, also if it has ended.
    pub(crate) fn uncharge(&mut self, session: u32, bytes: u64) {
        if session == NO_OWNER {
            return;
        }
        match self.of_session_mut(session) {
            Some((_, client)) => {
                let gone = bytes.min(client.owned_bytes);
                client.owned_bytes -= gone;
                let owner = client.owner;
                self.accounts.subtract(owner, gone);
            }
            None => self.accounts.uncharge(session, bytes),
        }
    }

    /// How many bytes more a client may own: by its own quota and by that of its owner.
    pub(crate) fn quota_left(&self, no: ClientNo) -> u64 {
        let Some(client) = self.by_no.get(&no) else { return 0 };
        let left = |quota: u64, owned: u64| match quota {
            0 => u64::MAX,
            quota => quota.saturating_sub(owned),
        };
        let own = left(client.quota_bytes, client.owned_bytes);
        own.min(left(self.owner_quota_bytes, self.accounts.bytes(client.owner)))
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub(crate) fn subscribe(&mut self, no: ClientNo, filter: Option<Filter>) {
        if let Some(client) = self.by_no.get_mut(&no) {
            if filter.is_some() {
                self.subscribers.insert(no);
            } else {
                self.subscribers.remove(&no);
            }
            client.filter = filter;
        }
    }

    /// Clients that want notices, with their filters.
    pub(crate) fn subscribers(&self) -> impl Iterator<Item = (ClientNo, &Filter)> {
        self.subscribers.iter().filter_map(|no| Some((*no, self.by_no.get(no)?.filter.as_ref()?)))
    }

    pub(crate) fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientNo, &Client)> {
        self.by_no.iter().map(|(no, client)| (*no, client))
    }
}
