//! Watches: what changes under a prefix, from a revision on.

use std::io::Read;

use serde_json::{Value, json};
use ureq::BodyReader;

use crate::client::Client;
use crate::error::Error;
use crate::json;
use crate::kv::{KeyValue, prefix_end};

/// Bytes of one message of a watch: it has all changes that the watch has missed, and etcd takes
/// 1.5 MiB of them in one write.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was written.
    Put(KeyValue),
    /// It was deleted, or its lease ended.
    Deleted(Vec<u8>),
}

/// What a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Changes, in order. The watch has seen everything up to this revision.
    Changes(i64, Vec<Change>),
    /// Nothing changed for [`crate::Options::watch_timeout`], or the endpoint ended the watch. It
    /// is over: watch from the next revision on, which notices an endpoint that hangs.
    End,
}

/// A watch that is under way. It has a connection of its own.
pub struct Watch {
    endpoint: String,
    body: BodyReader<'static>,
    /// What was read, of which so many bytes are known to have no end of a line.
    unread: Vec<u8>,
    scanned: usize,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Client {
    /// Watches the keys with this prefix, from this revision on. An endpoint that has lost the
    /// other members of its cluster ends the watch.
    pub fn watch(&mut self, prefix: &[u8], from_revision: i64) -> Result<Watch, Error> {
        let question = json!({ "create_request": {
            "key": json::bytes(prefix),
            "range_end": json::bytes(&prefix_end(prefix)),
            "start_revision": json::number(from_revision),
        }});
        let (endpoint, body) = self.open("watch", &question)?;
        Ok(Watch { endpoint, body, unread: Vec::new(), scanned: 0 })
    }
}

impl Watch {
    /// Waits for the next changes.
    pub fn next_changes(&mut self) -> Result<Seen, Error> {
        loop {
            let Some(line) = self.line()? else { return Ok(Seen::End) };
            let message: Value =
                serde_json::from_slice(&line).map_err(|error| self.bad_answer(error))?;
            if !message["error"].is_null() {
                return Ok(Seen::End);
            }
            let result = &message["result"];
            if result["canceled"].as_bool() == Some(true) {
                return match json::number_of(result, "compact_revision") {
                    Some(revision) if revision > 0 => Err(Error::Compacted { revision }),
                    _ => Ok(Seen::End),
                };
            }
            let events = json::list_of(result, "events");
            if events.is_empty() {
                continue;
            }
            let changes = events.iter().map(change).collect::<Option<Vec<Change>>>();
            let revision = json::number_of(&result["header"], "revision");
            return match (revision, changes) {
                (Some(revision), Some(changes)) => Ok(Seen::Changes(revision, changes)),
                _ => Err(self.bad_answer("a change without its fields")),
            };
        }
    }

    /// The next line; `None` when the watch is over.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let end = self.unread[self.scanned..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.unread.split_off(self.scanned + end + 1);
                self.scanned = 0;
                return Ok(Some(std::mem::replace(&mut self.unread, rest)));
            }
            self.scanned = self.unread.len();
            if self.scanned > MESSAGE_BYTES_MAX {
                return Err(self.bad_answer("a message of a watch that does not end"));
            }
            let mut space = [0; READ_BYTES];
            match self.body.read(&mut space) {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => self.unread.extend_from_slice(&space[..count]),
            }
        }
    }

    fn bad_answer(&self, problem: impl ToString) -> Error {
        Error::BadAnswer { endpoint: self.endpoint.clone(), problem: problem.to_string() }
    }
}

fn change(event: &Value) -> Option<Change> {
    let kv = KeyValue::of(&event["kv"])?;
    match event["type"].as_str() {
        None | Some("PUT") => Some(Change::Put(kv)),
        Some("DELETE") => Some(Change::Deleted(kv.key)),
        Some(_) => None,
    }
}
