//! The command line of `plasmon-poold`. The daemon of a store gives it; people rarely do.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use plasmon_cluster::suspicion::SUSPECT_AFTER_MS;
use plasmon_fabric::Choice;
use plasmon_proto::ClusterAddress;

/// The pool daemon: takes part in a pool for the store that started it.
///
/// `plasmond` starts it when the store has the setting `cluster`, and looks after it.
#[derive(Clone, Debug, Parser)]
#[command(name = "plasmon-poold", version)]
pub(crate) struct Arguments {
    /// The socket of the store.
    #[arg(long)]
    pub(crate) socket: PathBuf,
    /// The number of the store, which its daemon gives to the process that it starts.
    #[arg(long)]
    pub(crate) store: u64,
    /// The etcd of the pool, as etcd://HOST:PORT with further hosts after commas, and /NAME if the
    /// pool is not called `default`; https:// in place of etcd:// for an etcd with TLS.
    #[arg(long)]
    pub(crate) cluster: ClusterAddress,
    /// The name of this node.
    #[arg(long)]
    pub(crate) node_name: String,
    /// Where the other nodes reach this one, as ADDRESS:PORT. Not given: the address by which this
    /// machine reaches etcd, and a free port.
    #[arg(long)]
    pub(crate) pool_listen: Option<SocketAddr>,
    /// A file with the secret that the nodes share, readable by its owner alone. Not given: one
    /// that the first node leaves in etcd.
    #[arg(long)]
    pub(crate) pool_token_file: Option<PathBuf>,
    /// The certificate of this node. With it, and the key and the authority, messages between nodes
    /// are encrypted, and nodes without a certificate of the authority are refused.
    #[arg(long, requires_all = ["pool_tls_key", "pool_tls_ca"])]
    pub(crate) pool_tls_cert: Option<PathBuf>,
    /// The key of the certificate, readable by its owner alone.
    #[arg(long, requires = "pool_tls_cert")]
    pub(crate) pool_tls_key: Option<PathBuf>,
    /// The certificate of the authority that signs those of all nodes.
    #[arg(long, requires = "pool_tls_cert")]
    pub(crate) pool_tls_ca: Option<PathBuf>,
    /// The list of certificates that are not valid any more.
    #[arg(long, requires = "pool_tls_cert")]
    pub(crate) pool_tls_crl: Option<PathBuf>,
    /// The certificate of the authority that signs those of an etcd with TLS. Not given: that of
    /// the pool.
    #[arg(long)]
    pub(crate) pool_etcd_ca: Option<PathBuf>,
    /// The certificate that etcd is shown. Not given: that of this node, unless etcd has an
    /// authority of its own.
    #[arg(long, requires = "pool_etcd_key")]
    pub(crate) pool_etcd_cert: Option<PathBuf>,
    /// The key of the certificate for etcd, readable by its owner alone.
    #[arg(long, requires = "pool_etcd_cert")]
    pub(crate) pool_etcd_key: Option<PathBuf>,
    /// Encrypt the content of objects, too.
    #[arg(long, requires = "pool_tls_cert")]
    pub(crate) pool_encrypt_data: bool,
    /// Where the node keeps its identity. Not given: below $XDG_STATE_HOME, or ~/.local/state.
    #[arg(long)]
    pub(crate) pool_folder: Option<PathBuf>,
    /// What fails together with this node, such as a rack.
    #[arg(long, default_value = "")]
    pub(crate) pool_zone: String,
    /// The share of objects that this node keeps beside the others; 0: it only caches.
    #[arg(long, default_value_t = 100)]
    pub(crate) pool_weight: u32,
    /// What is logged: error, warn, info, debug or trace, which has every step of the node.
    #[arg(long, env = "PLASMON_POOLD_LOG", default_value = "info")]
    pub(crate) log: tracing::level_filters::LevelFilter,
    /// Threads that move content; 0: as many as there are processors, at most 4.
    #[arg(long, default_value_t = 0)]
    pub(crate) pool_movers: usize,
    /// By which providers of libfabric other nodes write into the memory of this one: off, auto,
    /// which is verbs;efa, or some of verbs, efa, net and shm in the order in which they are
    /// tried, separated by semicolons. What none of them can move goes over TCP.
    #[arg(long, default_value_t)]
    pub(crate) pool_fabric: Choice,
    /// Milliseconds after which a node that is not heard is reported; 0: never.
    #[arg(long, default_value_t = SUSPECT_AFTER_MS)]
    pub(crate) pool_suspect_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
