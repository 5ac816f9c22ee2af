//! Listings of a namespace over all nodes of a pool.
//!
//! ```text
//!   program ── question ──►  pool daemon ──►  each pool daemon ──►  its store
//!           ◄── page ──── merged by id ◄── page ──── in the order of ids ──┘
//! ```
//!
//! Pages are in the order of ids, so that those of several nodes can be merged without keeping
//! anything between two of them: a page ends where the first of the nodes' pages ends.

use serde::{Deserialize, Serialize};

use crate::id::{Name, ObjectId};
use crate::limits::{LIST_PAGE_MAX, NAME_BYTES_MAX, NAMESPACE_BYTES_MAX};

/// Which objects: those of a namespace whose ids are higher than one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListQuery {
    /// The namespace.
    pub namespace: String,
    /// How the text of the name starts.
    pub prefix: String,
    /// Where the page before ended; `None` for the first page.
    pub after: Option<ObjectId>,
}

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedObject {
    /// The object.
    pub id: ObjectId,
    /// The text of its name.
    pub text: String,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Bytes of its metadata.
    pub metadata_bytes: u64,
    /// What kind of value its bytes hold.
    pub tag: u8,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// Copies that are kept. What one node says of its own is 1, or 0 for a cached copy.
    pub copies: u16,
}

/// Some objects in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPage {
    /// The objects, [`LIST_PAGE_MAX`] at most.
    pub objects: Vec<ListedObject>,
    /// Every object up to this id is in this page or in one before; `None`: every object is.
    pub next: Option<ObjectId>,
}

impl ListQuery {
    /// Whether any name could have such a namespace and prefix.
    pub fn keeps_limits(&self) -> bool {
        self.namespace.len() <= NAMESPACE_BYTES_MAX && self.prefix.len() <= NAME_BYTES_MAX
    }

    /// Whether a page can be an answer to this.
    pub fn is_answered_by(&self, page: &ListedPage) -> bool {
        let ids: Vec<ObjectId> = page.objects.iter().map(|object| object.id).collect();
        let begins = ids.first().is_none_or(|first| Some(*first) > self.after);
        let is_in_order = ids.is_sorted_by(|one, other| one < other);
        // A page that says there are more goes on after it: else a listing would never end.
        let goes_on =
            page.next.is_none_or(|next| Some(next) > self.after && ids.last() <= Some(&next));
        page.keeps_limits()
            && begins
            && is_in_order
            && goes_on
            && page.objects.iter().all(|object| self.is_named(object))
    }

    /// Whether an object has a name of this namespace, which may be that of its id.
    fn is_named(&self, object: &ListedObject) -> bool {
        let name = Name { namespace: self.namespace.clone(), text: object.text.clone() };
        let has_id = !name.is_pooled() || name.is_of(&object.id);
        name.check().is_ok() && has_id && object.text.starts_with(&self.prefix)
    }
}

impl ListedPage {
    /// Whether it is as short as a page has to be.
    pub fn keeps_limits(&self) -> bool {
        let is_short = |object: &ListedObject| object.text.len() <= NAME_BYTES_MAX;
        self.objects.len() <= LIST_PAGE_MAX && self.objects.iter().all(is_short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::{FRAME_BYTES_MAX, NODE_NAME_BYTES_MAX};
    use crate::message::{Reply, Request};
    use crate::pool::Slot;
    use crate::pool_admin;

    fn object(text: &str) -> ListedObject {
        let id = Name::new("@prod", text).unwrap().id();
        let (data_bytes, created_ms, text) = (300, 2, text.to_owned());
        ListedObject { id, text, data_bytes, metadata_bytes: 1, tag: 3, created_ms, copies: 1 }
    }

    fn query(after: Option<ObjectId>) -> ListQuery {
        ListQuery { namespace: "@prod".to_owned(), prefix: "t".to_owned(), after }
    }

    fn page(texts: &[&str]) -> ListedPage {
        let mut objects: Vec<_> = texts.iter().map(|text| object(text)).collect();
        objects.sort_by_key(|object| object.id);
        ListedPage { objects, next: None }
    }

    #[test]
    fn a_page_is_in_order_within_its_namespace_and_goes_on() {
        let right = page(&["t1", "t2", "t3"]);
        let last = right.objects[2].id;
        assert!(query(None).is_answered_by(&right));
        let more = ListedPage { next: Some(last), ..right.clone() };
        assert!(query(None).is_answered_by(&more));
        // Nothing passed the filter so far.
        let empty = ListedPage { objects: Vec::new(), next: Some(last) };
        assert!(query(None).is_answered_by(&empty));
        assert!(!query(Some(last)).is_answered_by(&empty), "it does not go on");
        assert!(!query(Some(right.objects[0].id)).is_answered_by(&right), "one of the page before");

        let mut reversed = right.clone();
        reversed.objects.reverse();
        let twice = ListedPage { objects: vec![right.objects[0].clone(); 2], next: None };
        let short = ListedPage { next: Some(right.objects[0].id), ..right.clone() };
        let mut renamed = right.clone();
        renamed.objects[0].text = "t9".to_owned();
        let mut unnamed = right.clone();
        unnamed.objects[0].text = String::new();
        let other = page(&["t1", "x"]);
        let long = ListedPage { objects: vec![object("t"); LIST_PAGE_MAX + 1], next: None };
        for wrong in [reversed, twice, short, renamed, unnamed, other, long] {
            assert!(!query(None).is_answered_by(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn questions_are_bounded() {
        let of = |namespace: usize, prefix: usize| {
            let (namespace, prefix) = ("@".repeat(namespace), "x".repeat(prefix));
            ListQuery { namespace, prefix, after: None }.keeps_limits()
        };
        assert!(of(NAMESPACE_BYTES_MAX, NAME_BYTES_MAX));
        assert!(!of(NAMESPACE_BYTES_MAX + 1, 0) && !of(0, NAME_BYTES_MAX + 1));
    }

    #[test]
    fn the_longest_page_fits_a_frame_of_each_kind() {
        let one = ListedObject {
            id: ObjectId::pooled([0xff; 12], None),
            text: "x".repeat(NAME_BYTES_MAX),
            data_bytes: u64::MAX,
            metadata_bytes: u64::MAX,
            tag: u8::MAX,
            created_ms: u64::MAX,
            copies: u16::MAX,
        };
        let next = Some(one.id);
        let page = ListedPage { objects: vec![one; LIST_PAGE_MAX], next };
        let missing =
            vec![(Slot::NONE, "n".repeat(NODE_NAME_BYTES_MAX)); pool_admin::NODES_PER_PAGE];
        let reply = pool_admin::Reply::Listed { page: page.clone(), missing };
        assert!(frame::encode_admin_reply(u64::MAX, &reply).unwrap().len() <= FRAME_BYTES_MAX);
        let reply = frame::encode_reply(u64::MAX, &Reply::Listed(page)).unwrap();
        assert!(reply.len() <= FRAME_BYTES_MAX);
    }

    #[test]
    fn the_bytes_are_a_format() {
        let hex =
            |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = ObjectId::pooled([7; 12], None);
        let id_hex = "070707070707070707070707ffff40706f6f6c00";
        let query = query(Some(id));
        let request = postcard::to_allocvec(&Request::ListNamespace(query.clone())).unwrap();
        let query_hex = format!("054070726f64017401{id_hex}");
        assert_eq!(hex(request), format!("28{query_hex}"));
        let page = ListedPage { objects: vec![ListedObject { id, ..object("t") }], next: Some(id) };
        let page_hex = format!("01{id_hex}0174ac020103020101{id_hex}");
        let reply = postcard::to_allocvec(&Reply::Listed(page.clone())).unwrap();
        assert_eq!(hex(reply), format!("12{page_hex}"));
        let asked = pool_admin::Request::List { query, without: vec![Slot(2)] };
        assert_eq!(hex(postcard::to_allocvec(&asked).unwrap()), format!("03{query_hex}0102"));
        let missing = vec![(Slot(2), "b".to_owned())];
        let told = pool_admin::Reply::Listed { page, missing };
        assert_eq!(hex(postcard::to_allocvec(&told).unwrap()), format!("03{page_hex}01020162"));
    }
}
