//! How the store and its pool keep an object that a command makes: the flags, and the options that
//! they mean.

use anyhow::bail;
use plasmon_client::{Ack, CopyPlacement, Durability, PutOptions};
use plasmon_proto::limits::COPIES_MAX;
use plasmon_proto::{Name, Policy};

use crate::failure::usage;
use crate::target;

/// How the store keeps an object that a command makes.
#[derive(Debug, clap::Args)]
pub(crate) struct Retention {
    /// The namespace of the object's name.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Let the store evict the object when memory is short.
    #[arg(long)]
    pub(crate) cache: bool,
    /// Seconds after which the store deletes the object.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ttl: Option<f64>,
    /// Replace an object of the same name in one step, once the new one is complete. Until then,
    /// both take memory.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write the object to the log of the store before it is seen, so that it outlives a loss of
    /// power; an object of a pool to those of all nodes that keep a copy. For stores that were
    /// started with --durable-dir.
    #[arg(long)]
    pub(crate) durable: bool,
    /// How many nodes of the pool keep the object, 1 to 8 (default: 2, or 1 with --pool). For names
    /// that begin with @, such as @prod:sales, and with --pool.
    #[arg(long, value_name = "N", value_parser = copies())]
    pub(crate) copies: Option<u8>,
    /// With how many copies the object is accepted where the pool has no more nodes (default: half
    /// of --copies, rounded up).
    #[arg(long, value_name = "M", value_parser = copies())]
    pub(crate) copies_min: Option<u8>,
    /// Where the copies of an object of a pool are: the first on this node, or all on other nodes,
    /// so that this node may evict its own.
    #[arg(long, value_name = "PLACEMENT", value_enum)]
    pub(crate) placement: Option<Placement>,
    /// What an object of a pool survives: memory, the loss of nodes; cache, nothing, because its
    /// one copy, on this node, may be evicted.
    #[arg(long, value_name = "STORAGE", value_enum)]
    pub(crate) storage: Option<Storage>,
}

/// What an object of a pool survives.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Storage {
    Memory,
    Cache,
}

impl From<Storage> for Durability {
    fn from(given: Storage) -> Self {
        match given {
            Storage::Memory => Self::Memory,
            Storage::Cache => Self::Cache,
        }
    }
}

/// Where the copies of an object of a pool are.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Placement {
    Local,
    Spread,
}

impl From<Placement> for CopyPlacement {
    fn from(given: Placement) -> Self {
        match given {
            Placement::Local => Self::Local,
            Placement::Spread => Self::Spread,
        }
    }
}

/// A number of copies in a pool.
fn copies() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=i64::from(COPIES_MAX))
}

impl Retention {
    /// The options to put an object of this name with.
    pub(crate) fn options(&self, name: &Name) -> anyhow::Result<PutOptions> {
        let is_of_pool = self.copies.is_some()
            || self.copies_min.is_some()
            || self.placement.is_some()
            || self.storage.is_some();
        if is_of_pool && !name.is_pooled() {
            bail!(usage(format!(
                "--copies, --copies-min, --placement and --storage are for objects of a pool, \
                 whose names begin with @, and \"{name}\" does not"
            )));
        }
        Ok(PutOptions {
            copies: self.copies.unwrap_or_default(),
            copies_min: self.copies_min.unwrap_or_default(),
            placement: self.placement.map_or(CopyPlacement::Local, CopyPlacement::from),
            storage: self.storage.map(Durability::from),
            name: Some(name.clone()),
            policy: if self.cache { Policy::Cache } else { Policy::Keep },
            replace: self.replace,
            durable: self.durable,
            ttl: self.ttl.map(|ttl| target::seconds("--ttl", ttl)).transpose()?,
            ..PutOptions::default()
        })
    }

    /// The options to put an object of a pool without a name with. The command is done when the
    /// pool has accepted it.
    pub(crate) fn unnamed(&self) -> PutOptions {
        PutOptions {
            pool: true,
            ack: Some(Ack::Copies),
            copies: self.copies.unwrap_or_default(),
            copies_min: self.copies_min.unwrap_or_default(),
            placement: self.placement.map_or(CopyPlacement::Local, CopyPlacement::from),
            storage: self.storage.map(Durability::from),
            policy: if self.cache { Policy::Cache } else { Policy::Keep },
            durable: self.durable,
            ..PutOptions::default()
        }
    }
}
