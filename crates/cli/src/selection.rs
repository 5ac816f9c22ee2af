//! The selection of objects: `ls` lists what `rm` deletes with the same flags.

use std::time::Duration;

use anyhow::Result;
use plasmon_client::Client;
use plasmon_proto::message::Filter;
use plasmon_proto::object::ObjectInfo;

use crate::arguments::Selection;
use crate::output::now_ms;
use crate::pattern;
use crate::target::{display_name, is_id_start};

impl Selection {
    /// Whether no filter is given, so that all objects are selected.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { namespace, prefix, older, larger, unnamed } = self;
        let named = namespace.is_some() || prefix.is_some();
        !(named || *unnamed || older.is_some() || larger.is_some())
    }

    /// The objects; with patterns, those that one of them fits.
    pub(crate) fn objects(&self, store: &Client, patterns: &[String]) -> Result<Vec<ObjectInfo>> {
        let filter = Filter { namespace: self.namespace.clone(), prefix: self.prefix.clone() };
        let now = now_ms();
        let mut found = Vec::new();
        for object in store.listing(&filter) {
            let object = object?;
            if self.takes(&object, now) && (patterns.is_empty() || fits(&object, patterns)) {
                found.push(object);
            }
        }
        Ok(found)
    }

    fn takes(&self, object: &ObjectInfo, now_ms: u64) -> bool {
        let age = Duration::from_millis(now_ms.saturating_sub(object.created_ms));
        let bytes = object.sizes.data + object.sizes.metadata;
        (!self.unnamed || object.name.is_none())
            && self.older.is_none_or(|older| age >= older)
            && self.larger.is_none_or(|larger| bytes >= larger)
    }
}

/// Whether an object's name, as it is shown, fits one of the patterns; or its id begins so.
fn fits(object: &ObjectInfo, patterns: &[String]) -> bool {
    let (name, id) = (object.name.as_ref().map(display_name), object.id.to_string());
    patterns.iter().any(|text| {
        name.as_ref().is_some_and(|name| pattern::matches(text, name))
            || (is_id_start(text) || text.len() == id.len())
                && id.starts_with(&text.to_ascii_lowercase())
    })
}
