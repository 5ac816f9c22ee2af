//! What all nodes of a pool have of a namespace, asked of the pool daemon of this machine.

use std::time::Duration;

use plasmon_proto::message::Filter;
use plasmon_proto::object::{ObjectInfo, ObjectState, Policy, Sizes, Traits};
use plasmon_proto::pool::Slot;
use plasmon_proto::pool_admin::{LIST_WITHOUT_MAX, Reply, Request};
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};
use plasmon_proto::{Code, Name};
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::pool::Door;

const LISTING: &str = "listing a namespace of the pool";

/// A pool daemon that is started again is back before this.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// Nodes that an error names.
const NAMED_MAX: usize = 8;

/// Where a listing is.
#[derive(Debug)]
pub(crate) struct PoolListing {
    /// The next page; `None` after the last.
    query: Option<ListQuery>,
    /// Nodes that did not answer: they are not asked again, because the listing fails at its end.
    without: Vec<Slot>,
    missing: Vec<String>,
    door: Option<Door>,
}

impl PoolListing {
    pub(crate) fn new(namespace: String, prefix: String) -> Self {
        let query = Some(ListQuery { namespace, prefix, after: None });
        Self { query, without: Vec::new(), missing: Vec::new(), door: None }
    }

    /// The next page; `None` after the last.
    pub(crate) fn fetch(&mut self, store: &Client) -> Option<Result<Vec<ObjectInfo>>> {
        let Some(query) = self.query.take() else {
            self.door = None;
            return self.take_missing().map(Err);
        };
        Some(self.page(store, query))
    }

    fn page(&mut self, store: &Client, query: ListQuery) -> Result<Vec<ObjectInfo>> {
        if !query.keeps_limits() {
            let detail = "the filter is longer than any name, so it matches nothing";
            return Err(Error::new(Code::LimitReached, LISTING).with_detail(detail));
        }
        let without = self.without.clone();
        let request = Request::List { query: query.clone(), without };
        let (page, missing) = match self.ask(store, &request)? {
            Reply::Listed { page, missing } if query.is_answered_by(&page) => (page, missing),
            _ => return Err(Error::unexpected(LISTING)),
        };
        for (slot, name) in missing {
            if self.without.len() < LIST_WITHOUT_MAX && !self.without.contains(&slot) {
                self.without.push(slot);
                self.missing.push(name);
            }
        }
        let ListedPage { objects, next } = page;
        let namespace = query.namespace.clone();
        self.query = next.map(|next| ListQuery { after: Some(next), ..query });
        Ok(objects.into_iter().map(|object| info_of(store, &namespace, object)).collect())
    }

    /// Asks the pool daemon, which may be starting again. A store of no pool has none.
    fn ask(&mut self, store: &Client, request: &Request) -> Result<Reply> {
        let until = Deadline::after(DAEMON_WITHIN);
        loop {
            let door = match self.door.take() {
                Some(door) => Ok(door),
                None => Door::open(store.socket(), LISTING),
            };
            let error = match door.and_then(|door| Ok((door.ask(request)?, door))) {
                Ok((reply, door)) => {
                    self.door = Some(door);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            if error.code() != Code::Unreachable || until.is_past() {
                return Err(error);
            }
            let Request::List { query, .. } = request else { return Err(error) };
            // It says that it belongs to no pool.
            let filter = Filter { namespace: Some(query.namespace.clone()), prefix: None };
            store.page(&filter, 0)?;
            interrupt::check(LISTING)?;
            edge::sleep(interrupt::pause(PAUSE, until));
        }
    }

    /// Once, the error that names the nodes that did not answer.
    fn take_missing(&mut self) -> Option<Error> {
        let missing = std::mem::take(&mut self.missing);
        if missing.is_empty() {
            return None;
        }
        let (named, others) = missing.split_at(missing.len().min(NAMED_MAX));
        let others = match others.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let detail = format!(
            "these nodes did not answer, so what they alone have is not listed: {}{others}. List \
             again when they are back, or have been given up",
            named.join(", ")
        );
        Some(Error::new(Code::Unreachable, LISTING).with_detail(detail))
    }
}

/// What is known of an object that may be on another node.
fn info_of(store: &Client, namespace: &str, object: ListedObject) -> ObjectInfo {
    let ListedObject { id, text, data_bytes, metadata_bytes, tag, created_ms, copies } = object;
    let policy = if copies > 0 { Policy::Keep } else { Policy::Cache };
    ObjectInfo {
        id,
        state: ObjectState::Sealed,
        sizes: Sizes { data: data_bytes, metadata: metadata_bytes, attributes: 0 },
        traits: Traits { tag, policy, ..Traits::default() },
        durable: false,
        name: Some(Name { namespace: namespace.to_owned(), text }),
        created_ms,
        construct_ms: 0,
        expires_ms: None,
        creator_pid: 0,
        pins: 0,
        holders: 0,
        level: store.level(),
        copies: Some(copies),
    }
}
