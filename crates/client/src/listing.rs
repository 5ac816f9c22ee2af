//! A listing that fetches its pages as it goes.

use std::vec;

use plasmon_proto::message::Filter;
use plasmon_proto::object::ObjectInfo;

use crate::client::Client;
use crate::error::Result;

/// Descriptions of objects, page by page. Objects that appear or vanish meanwhile may or may not be
/// there; every other one is there once.
#[derive(Debug)]
pub struct Listing {
    store: Client,
    filter: Filter,
    page: vec::IntoIter<ObjectInfo>,
    next: Option<u64>,
}

impl Listing {
    pub(crate) fn new(store: Client, filter: Filter) -> Self {
        Self { store, filter, page: Vec::new().into_iter(), next: Some(0) }
    }
}

impl Iterator for Listing {
    type Item = Result<ObjectInfo>;

    fn next(&mut self) -> Option<Result<ObjectInfo>> {
        loop {
            if let Some(info) = self.page.next() {
                return Some(Ok(info));
            }
            let cursor = self.next.take()?;
            match self.store.page(&self.filter, cursor) {
                Ok((page, next)) => {
                    self.page = page.into_iter();
                    self.next = next;
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
