//! Leases: what lives only as long as a process says that it lives.

use serde_json::json;

use crate::client::Client;
use crate::error::Error;
use crate::json;
use crate::kv::LeaseId;

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its number.
    pub id: LeaseId,
    /// How long it lives without a keep-alive, in seconds; etcd may choose more than was asked for.
    pub ttl_s: u64,
}

impl Client {
    /// Asks for a lease. One whose answer is lost ends by itself.
    pub fn grant(&mut self, ttl_s: u64) -> Result<Granted, Error> {
        let answer = self.call("lease/grant", &json!({ "TTL": ttl_s.to_string() }))?;
        let id = json::number_of(&answer, "ID").filter(|id| *id != 0);
        let ttl_s = json::number_of(&answer, "TTL").and_then(|ttl| u64::try_from(ttl).ok());
        match (id, ttl_s) {
            (Some(id), Some(ttl_s)) => Ok(Granted { id: LeaseId(id), ttl_s }),
            _ => Err(self.bad_answer("a lease without its fields")),
        }
    }

    /// Keeps a lease alive; for how many seconds from when etcd handled it. 0 says that the lease
    /// is gone.
    pub fn keep_alive(&mut self, lease: LeaseId) -> Result<u64, Error> {
        let answer = self.call("lease/keepalive", &json!({ "ID": json::number(lease.0) }))?;
        let ttl_s = json::number_of(&answer["result"], "TTL");
        let is_answer = json::number_of(&answer["result"], "ID") == Some(lease.0);
        let ttl_s = ttl_s.filter(|_| is_answer).and_then(|ttl| u64::try_from(ttl).ok());
        ttl_s.ok_or_else(|| self.bad_answer("a keep-alive without its fields"))
    }

    /// Ends a lease, and with it all its keys. [`Error::NoLease`] says that it has ended before.
    pub fn revoke(&mut self, lease: LeaseId) -> Result<(), Error> {
        self.call("lease/revoke", &json!({ "ID": json::number(lease.0) })).map(drop)
    }
}
