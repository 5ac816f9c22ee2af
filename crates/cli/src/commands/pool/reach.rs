//! A pool as it is in its etcd.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use plasmon_client::{Client, ConnectOptions};
use plasmon_etcd::{self as etcd, Options};
use plasmon_membership::{Keys, Snapshot, snapshot};
use plasmon_proto::ClusterAddress;

use super::secure_etcd::tls_of;
use crate::arguments::{Arguments, PoolAddress};
use crate::commands::connection;
use crate::failure::usage;

/// How long one member of etcd has to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// A pool, and how to ask about it.
pub(super) struct Reach {
    pub(super) address: ClusterAddress,
    pub(super) etcd: etcd::Client,
    pub(super) keys: Keys,
}

impl Reach {
    /// The pool that the arguments name, or that of the running store.
    pub(super) fn find(arguments: &Arguments, pool: &PoolAddress) -> Result<Self> {
        let given = pool.cluster.clone().filter(|cluster| !cluster.is_empty());
        let Some(found) = given.or_else(|| cluster(&connection::options(arguments))) else {
            bail!(usage(
                "which pool? No store of a pool runs here: --cluster etcd://HOST:PORT names one"
            ));
        };
        let address: ClusterAddress =
            found.parse().map_err(|bad: plasmon_proto::cluster_address::BadClusterAddress| {
                usage(bad.to_string())
            })?;
        let tls = tls_of(&address, &pool.etcd).map_err(usage)?;
        let options =
            Options { call_timeout: CALL_TIMEOUT, tls, ..Options::new(address.endpoints()) };
        let etcd = etcd::Client::new(options)?;
        let keys = Keys::new(&address.name)?;
        Ok(Self { address, etcd, keys })
    }

    /// What etcd says of the pool now.
    pub(super) fn look(&mut self) -> Result<Snapshot> {
        let found = snapshot(&mut self.etcd, &self.keys);
        let found = found.with_context(|| format!("the pool {}", self.address))?;
        if !found.is_pool() {
            bail!(
                "there is no pool {}: no node has ever joined it; the name of a pool is what \
                 comes after the hosts, etcd://HOST:PORT/NAME",
                self.address
            );
        }
        Ok(found)
    }
}

/// The pool of the running store.
pub(crate) fn cluster(options: &ConnectOptions) -> Option<String> {
    // `doctor` has a check of its own for what is wrong with the store.
    let status = Client::connect(options).and_then(|store| store.status()).ok()?;
    Some(status.cluster).filter(|cluster| !cluster.is_empty())
}
