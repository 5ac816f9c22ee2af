//! What a pool of nodes keeps in etcd, for its nodes and for what looks at it from outside.
//!
//! ```text
//!   etcd: /plasmon/NAME/..  ── listing, changes ──► View ──► Snapshot: a pool at one moment
//!                                                    └─────► what the node that leads decides on
//! ```
//!
//! * [`keys`]: the names of the keys; [`reports`], [`drains`], [`suspects`], [`usage`] and
//!   [`commands`]: the values of five kinds of them. Those of the map and of members are
//!   `plasmon_cluster`'s (`docs/formats/cluster-map.md`).
//! * [`view`]: what is in etcd, as far as it was seen.
//! * [`adoption_rules`] and [`adoption_news`]: what nodes do about namespaces that programs adopt,
//!   and what their stores are told.
//! * [`snapshot()`] asks once. A pool whose nodes are all dead can be looked at like any other.
//!
//! Deliberately absent: taking part. `plasmon_poold` does, with leases and watches.
//!
//! ```
//! use plasmon_etcd::{Client, Options};
//! use plasmon_membership::{Keys, snapshot};
//!
//! let keys = Keys::new("default")?;
//! let mut etcd = Client::new(Options::new(vec!["127.0.0.1:1".to_owned()]))?;
//! // There is no etcd on this port.
//! assert!(snapshot(&mut etcd, &keys).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod adoption_news;
pub mod adoption_rules;
pub mod adoptions;
pub mod commands;
pub mod drains;
pub mod encryption;
pub mod fabric;
pub mod keys;
pub mod reports;
pub mod snapshot;
pub mod suspects;
pub mod usage;
pub mod view;

pub use keys::{BadClusterName, Key, Keys, Life};
pub use snapshot::{Snapshot, snapshot};
pub use view::View;
