//! Keys, values and transactions.

use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::json;

/// The number of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// A key and what etcd knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The revision of the store in which the key was made.
    pub create_revision: i64,
    /// The revision in which it was last written.
    pub mod_revision: i64,
    /// The lease that it lives with.
    pub lease: Option<LeaseId>,
}

impl KeyValue {
    pub(crate) fn of(message: &Value) -> Option<Self> {
        let lease = json::number_of(message, "lease")?;
        Some(Self {
            key: json::bytes_of(message, "key")?,
            value: json::bytes_of(message, "value")?,
            create_revision: json::number_of(message, "create_revision")?,
            mod_revision: json::number_of(message, "mod_revision")?,
            lease: (lease != 0).then_some(LeaseId(lease)),
        })
    }
}

/// Keys at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The revision of the store. What changes after it is seen by a watch from the next one on.
    pub revision: i64,
    /// The keys, in their order.
    pub kvs: Vec<KeyValue>,
}

/// What must hold for a transaction to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key was last written in this revision; 0: there is no such key.
    Written(Vec<u8>, i64),
    /// The key was made in this revision; 0: there is no such key.
    Made(Vec<u8>, i64),
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key, which goes with the lease.
    Put(Vec<u8>, Vec<u8>, Option<LeaseId>),
    /// Deletes a key.
    Delete(Vec<u8>),
}

/// What came of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the conditions held and it was carried out.
    pub is_done: bool,
    /// The revision of the store after it.
    pub revision: i64,
}

/// The end of the range of all keys with this prefix.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Client {
    /// The keys with this prefix.
    pub fn list(&mut self, prefix: &[u8]) -> Result<Listing, Error> {
        let range = json!({
            "key": json::bytes(prefix),
            "range_end": json::bytes(&prefix_end(prefix)),
        });
        self.range(&range)
    }

    /// A key; `None` when there is no such key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<KeyValue>, Error> {
        let listing = self.range(&json!({ "key": json::bytes(key) }))?;
        Ok(listing.kvs.into_iter().next())
    }

    fn range(&mut self, range: &Value) -> Result<Listing, Error> {
        let answer = self.call("kv/range", range)?;
        let listing = || {
            let kvs = json::list_of(&answer, "kvs").iter().map(KeyValue::of);
            let kvs = kvs.collect::<Option<Vec<KeyValue>>>()?;
            Some(Listing { revision: json::number_of(&answer["header"], "revision")?, kvs })
        };
        listing().ok_or_else(|| self.bad_answer("a range without its fields"))
    }

    /// Carries all operations out if all conditions hold, else nothing.
    ///
    /// An endpoint that fails may have carried it out before, and then another one says that the
    /// conditions do not hold: look at the keys.
    pub fn transact(
        &mut self,
        conditions: &[Condition],
        operations: &[Operation],
    ) -> Result<Outcome, Error> {
        let compare: Vec<Value> = conditions.iter().map(Condition::to_json).collect();
        let success: Vec<Value> = operations.iter().map(Operation::to_json).collect();
        let answer = self.call("kv/txn", &json!({ "compare": compare, "success": success }))?;
        let is_done = answer["succeeded"].as_bool().unwrap_or(false);
        let revision = json::number_of(&answer["header"], "revision");
        let outcome = revision.map(|revision| Outcome { is_done, revision });
        outcome.ok_or_else(|| self.bad_answer("a transaction without its fields"))
    }
}

impl Condition {
    fn to_json(&self) -> Value {
        let (key, target, field, revision) = match self {
            Self::Written(key, revision) => (key, "MOD", "mod_revision", revision),
            Self::Made(key, revision) => (key, "CREATE", "create_revision", revision),
        };
        let mut compare = json!({
            "key": json::bytes(key),
            "target": target,
            "result": "EQUAL",
        });
        compare[field] = json::number(*revision);
        compare
    }
}

impl Operation {
    fn to_json(&self) -> Value {
        match self {
            Self::Put(key, value, lease) => json!({ "request_put": {
                "key": json::bytes(key),
                "value": json::bytes(value),
                "lease": json::number(lease.map_or(0, |lease| lease.0)),
            }}),
            Self::Delete(key) => json!({ "request_delete_range": { "key": json::bytes(key) } }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(prefix_end(b"/a/"), b"/a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), b"\0", "all keys from there on");
    }
}
