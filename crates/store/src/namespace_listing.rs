//! What is in a namespace, in the order of ids.
//!
//! The pool daemon merges the pages of several nodes, which needs an order that all of them have.
//! The store knows the ids of each namespace in that order (`adoption.rs`): those that clients can
//! see, in memory and in the spill tier.

use std::ops::Bound::{Excluded, Unbounded};

use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::limits::LIST_PAGE_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::{ObjectInfo, Policy};
use plasmon_proto::pool_listing::{ListQuery, ListedObject, ListedPage};
use plasmon_proto::{Code, ObjectId};

use crate::ports::Directory;
use crate::seat::no_pool;
use crate::store::Store;
use crate::work::EXAMINED_MAX;

impl<D: Directory> Store<D> {
    /// A page of the objects of a namespace. A page looks at so many objects only that the daemon
    /// is not stopped for long, so it may be short without being the last.
    pub(crate) fn list_namespace(&self, query: &ListQuery) -> Result<Reply, Failure> {
        if query.namespace.starts_with(POOLED_PREFIX) {
            self.check_shown()?;
        }
        let mut page = ListedPage::default();
        let Some(ids) = self.sessions.adoptions.ids_in(&query.namespace) else {
            return Ok(Reply::Listed(page));
        };
        let from = query.after.map_or(Unbounded, Excluded);
        let mut last = None;
        for (looked_at, id) in ids.range((from, Unbounded)).map(|(id, _)| *id).enumerate() {
            if looked_at >= EXAMINED_MAX || page.objects.len() >= LIST_PAGE_MAX {
                page.next = last;
                break;
            }
            last = Some(id);
            page.objects.extend(self.listed(query, id));
        }
        Ok(Reply::Listed(page))
    }

    /// Copies of free ids are withheld for a moment after a restart, and while the pool daemon is
    /// alone: what is here is not known to be all then.
    fn check_shown(&self) -> Result<(), Failure> {
        if !self.config.pool {
            return Err(no_pool());
        }
        let free = ObjectId::pooled([0; 12], None);
        if self.is_vouched(&free) {
            return Ok(());
        }
        let detail = "the pool daemon has not said yet that the copies here may be shown";
        Err(Failure::of(Code::Unreachable).with_detail(detail))
    }

    fn listed(&self, query: &ListQuery, id: ObjectId) -> Option<ListedObject> {
        let ObjectInfo { sizes, traits, name, created_ms, .. } = self.describe_here(&id)?;
        let text = name?.text;
        text.starts_with(&query.prefix).then_some(ListedObject {
            id,
            text,
            data_bytes: sizes.data,
            metadata_bytes: sizes.metadata,
            tag: traits.tag,
            created_ms,
            copies: u16::from(traits.policy == Policy::Keep),
        })
    }
}
