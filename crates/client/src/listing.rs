//! A listing that fetches its pages as it goes: from the store, or for a namespace of the pool from
//! all of its nodes.

use std::vec;

use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::Filter;
use plasmon_proto::object::ObjectInfo;

use crate::client::Client;
use crate::error::Result;
use crate::pool_listing::PoolListing;

/// Descriptions of objects, page by page. Objects that appear or vanish meanwhile may or may not be
/// there; every other one is there once.
///
/// A filter with a namespace of the pool gives the objects of all nodes. When a node did not answer
/// the listing goes on without it, and ends with an error that names it.
#[derive(Debug)]
pub struct Listing {
    store: Client,
    filter: Filter,
    page: vec::IntoIter<ObjectInfo>,
    source: Source,
}

/// Where the next page comes from.
#[derive(Debug)]
enum Source {
    Store { next: Option<u64> },
    Pool(PoolListing),
}

impl Listing {
    pub(crate) fn new(store: Client, filter: Filter) -> Self {
        let pooled = filter.namespace.as_ref().filter(|it| it.starts_with(POOLED_PREFIX));
        let source = match pooled {
            Some(namespace) => {
                let prefix = filter.prefix.clone().unwrap_or_default();
                Source::Pool(PoolListing::new(namespace.clone(), prefix))
            }
            None => Source::Store { next: Some(0) },
        };
        Self { store, filter, page: Vec::new().into_iter(), source }
    }

    /// The next page; `None` after the last.
    fn fetch(&mut self) -> Option<Result<Vec<ObjectInfo>>> {
        match &mut self.source {
            Source::Store { next } => {
                let cursor = next.take()?;
                let (page, after) = match self.store.page(&self.filter, cursor) {
                    Ok(fetched) => fetched,
                    Err(error) => return Some(Err(error)),
                };
                *next = after;
                Some(Ok(page))
            }
            Source::Pool(listing) => listing.fetch(&self.store),
        }
    }
}

impl Iterator for Listing {
    type Item = Result<ObjectInfo>;

    fn next(&mut self) -> Option<Result<ObjectInfo>> {
        loop {
            if let Some(info) = self.page.next() {
                return Some(Ok(info));
            }
            match self.fetch()? {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
