//! The selection of objects: `ls` lists what `rm` deletes with the same flags.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use plasmon_client::{Client, Error};
use plasmon_proto::Code;
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
        match self.found(store, patterns)? {
            (objects, None) => Ok(objects),
            (_, Some(gap)) => Err(gap.into()),
        }
    }

    /// The same, with the error when nodes of the pool did not answer and may have more.
    pub(crate) fn found(
        &self,
        store: &Client,
        patterns: &[String],
    ) -> Result<(Vec<ObjectInfo>, Option<Error>)> {
        let now = now_ms();
        let (mut found, mut gap) = (BTreeMap::new(), None);
        for filter in self.filters(patterns) {
            for object in store.listing(&filter) {
                let object = match object {
                    Ok(object) => object,
                    Err(error) if error.code() == Code::Unreachable => {
                        gap = gap.or(Some(error));
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                };
                if self.takes(&object, now) && (patterns.is_empty() || fits(&object, patterns)) {
                    found.insert(object.id, object);
                }
            }
        }
        Ok((found.into_values().collect(), gap))
    }

    /// What is to be listed: namespaces of the pool that patterns name are those of all nodes,
    /// everything else is in this store. An object that is in both is taken as the pool has it.
    fn filters(&self, patterns: &[String]) -> Vec<Filter> {
        let prefix = self.prefix.clone();
        if self.namespace.is_some() {
            return vec![Filter { namespace: self.namespace.clone(), prefix }];
        }
        let pooled: BTreeSet<Option<&str>> =
            patterns.iter().map(|text| pattern::pooled_namespace(text)).collect();
        if pooled.is_empty() {
            return vec![Filter { namespace: None, prefix }];
        }
        let of = |namespace: Option<&str>| Filter {
            namespace: namespace.map(str::to_owned),
            prefix: prefix.clone(),
        };
        pooled.into_iter().map(of).collect()
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
