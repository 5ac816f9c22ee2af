//! From what a person types to an object.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plasmon_client::PutOptions;
use plasmon_proto::{Name, ObjectId, Policy};

use crate::arguments::Kept;

/// The object that a text means: an id of 40 hexadecimal digits, or `[namespace:]name`.
pub(crate) fn object(text: &str) -> Result<ObjectId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let (namespace, name) = text.split_once(':').unwrap_or(("", text));
    let name = Name::new(namespace, name)
        .with_context(|| format!("\"{text}\" is neither an id nor a name"))?;
    Ok(name.id())
}

/// A duration of this many seconds, as flags give it.
pub(crate) fn seconds(flag: &str, value: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(value) {
        Ok(duration) => Ok(duration),
        Err(_) => bail!("{flag} takes a number of seconds from 0 on, found {value}"),
    }
}

/// How an object of this name is put, as flags say it.
pub(crate) fn options(name: &Name, kept: &Kept) -> Result<PutOptions> {
    Ok(PutOptions {
        name: Some(name.clone()),
        policy: if kept.cache { Policy::Cache } else { Policy::Keep },
        ttl: kept.ttl.map(|ttl| seconds("--ttl", ttl)).transpose()?,
        ..PutOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_told_apart() {
        let id = ObjectId::new([0xab; 20]);
        assert_eq!(object(&id.to_string()).unwrap(), id);
        assert_eq!(object("x").unwrap(), Name::new("", "x").unwrap().id());
        assert_eq!(object("a:b:c").unwrap(), Name::new("a", "b:c").unwrap().id());
        assert!(object("").is_err());
        assert!(object("a:").is_err());
        assert!(seconds("--timeout", f64::NAN).is_err());
        assert!(seconds("--timeout", -1.0).is_err());
    }
}
