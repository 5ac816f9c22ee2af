//! The settings of an application, put together as spark-submit does, and where they have its
//! shuffle kept.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::command_line::CommandLine;
use super::jar::STORE;
use crate::arguments::{Shuffle, ShufflePool};

/// Spark's names for what the options of a shuffle on the pool set.
pub(super) const POOL: &str = "spark.plasmon.pool";
pub(super) const COPIES: &str = "spark.plasmon.copies";
pub(super) const ACK: &str = "spark.plasmon.ack";

/// Spark's name for a limit of bytes, which no namespace of a pool has.
pub(super) const QUOTA: &str = "spark.plasmon.quota.bytes";

/// The master of applications that name none.
const MASTER: &str = "local[*]";

/// What `submit` sets because it was asked to.
pub(super) fn own(
    socket: Option<&Path>,
    shuffle: &Shuffle,
) -> Result<BTreeMap<&'static str, String>> {
    let mut own = BTreeMap::new();
    if let Some(socket) = socket {
        let socket = std::path::absolute(socket)
            .with_context(|| format!("finding the socket {}", socket.display()))?;
        own.insert(STORE, socket.display().to_string());
    }
    let pool = shuffle.pool.as_ref().map(|pool| (POOL, pool.to_string()));
    let copies = shuffle.copies.map(|copies| (COPIES, copies.to_string()));
    let ack = shuffle.ack.map(|ack| (ACK, ack.key().to_owned()));
    own.extend([pool, copies, ack].into_iter().flatten());
    Ok(own)
}

/// All settings of an application.
#[derive(Debug)]
pub(super) struct Settings {
    all: BTreeMap<String, String>,
    /// Where it runs.
    pub(super) master: String,
}

/// Where an application's map outputs are to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In one store, for the reason that is given.
    Machine(String),
    /// In the pool of the driver's store.
    Pool {
        /// What the application's namespace begins with.
        prefix: String,
        /// Whether the application fails where there is no pool.
        is_required: bool,
    },
}

impl Settings {
    /// Settings of files, of `submit` and of the command line; the last one counts.
    pub(super) fn new(
        files: BTreeMap<String, String>,
        own: BTreeMap<&'static str, String>,
        line: &CommandLine,
        environment: Option<String>,
    ) -> Self {
        let mut all = files;
        all.extend(own.into_iter().map(|(key, value)| (key.to_owned(), value)));
        all.extend(line.settings.clone());
        let master = line.master.clone().or_else(|| all.get("spark.master").cloned());
        let master = master.or(environment).unwrap_or_else(|| MASTER.to_owned());
        Self { all, master }
    }

    /// A setting that is not empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.all.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Where the shuffle is to be; an error is one of the setting.
    pub(super) fn place(&self) -> Result<Place, String> {
        let pool = self.get(POOL).map_or(Ok(ShufflePool::default()), str::parse);
        let pool = pool.map_err(|wrong| format!("{POOL}: {wrong}"))?;
        let is_local = self.master.starts_with("local");
        Ok(match pool {
            ShufflePool::None => Place::Machine(format!("{POOL} is none")),
            ShufflePool::Auto if is_local => {
                Place::Machine(format!("the master, {}, is on this machine", self.master))
            }
            pool => Place::Pool {
                prefix: pool.prefix().to_owned(),
                is_required: pool != ShufflePool::Auto,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(file: &[(&str, &str)], own: &Shuffle, line: &str) -> Settings {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let file = file.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let own = super::own(None, own).unwrap();
        Settings::new(file.collect(), own, &CommandLine::parse(&words), None)
    }

    #[test]
    fn the_last_setting_counts() {
        let file = [(POOL, "@site"), ("spark.master", "spark://h:1"), (COPIES, "3")];
        let own = Shuffle { pool: Some("@own".parse().unwrap()), ..Shuffle::default() };
        let pool = |prefix: &str| Ok(Place::Pool { prefix: prefix.to_owned(), is_required: true });
        assert_eq!(settings(&file, &Shuffle::default(), "").place(), pool("@site"));
        assert_eq!(settings(&file, &own, "").place(), pool("@own"));
        let found = settings(&file, &own, "--conf spark.plasmon.pool=@last --master k8s://h");
        assert_eq!((found.place(), found.master.as_str()), (pool("@last"), "k8s://h"));
        assert_eq!(found.get(COPIES), Some("3"));
    }

    #[test]
    fn without_a_choice_the_pool_is_for_clusters() {
        let place = |line: &str| settings(&[], &Shuffle::default(), line).place();
        let auto = Place::Pool { prefix: "@spark".to_owned(), is_required: false };
        assert_eq!(place("--master spark://h:1"), Ok(auto));
        for line in ["", "--master local[2]", "-c spark.plasmon.pool=none --master yarn"] {
            assert!(matches!(place(line), Ok(Place::Machine(_))), "{line}");
        }
        let wrong = place("-c spark.plasmon.pool=spark").unwrap_err();
        assert!(wrong.contains("spark.plasmon.pool: \"spark\" is not auto"), "{wrong}");
    }

    #[test]
    fn what_is_asked_for_becomes_settings() {
        let shuffle = Shuffle {
            pool: Some("@x".parse().unwrap()),
            copies: Some(2),
            ack: clap::ValueEnum::from_str("async", false).ok(),
        };
        let found = own(Some(Path::new("/s.sock")), &shuffle).unwrap();
        let wanted = [(POOL, "@x"), (COPIES, "2"), (ACK, "async"), (STORE, "/s.sock")];
        assert_eq!(found, wanted.map(|(key, value)| (key, value.to_owned())).into());
        assert!(own(None, &Shuffle::default()).unwrap().is_empty());
    }
}
