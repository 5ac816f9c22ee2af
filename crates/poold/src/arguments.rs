//! The command line of `plasmon-poold`. The daemon of a store gives it; people rarely do.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

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
    /// pool is not called `default`.
    #[arg(long, value_parser = Cluster::parse)]
    pub(crate) cluster: Cluster,
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
}

/// The etcd of a pool and the name of the pool in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// As HOST:PORT.
    pub(crate) endpoints: Vec<String>,
    pub(crate) name: String,
}

impl Cluster {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not etcd://HOST:PORT or etcd://HOST:PORT/NAME");
        let rest = text.strip_prefix("etcd://").ok_or_else(wrong)?;
        let (hosts, name) = rest.split_once('/').unwrap_or((rest, "default"));
        let endpoints: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let is_endpoint = |endpoint: &String| {
            endpoint.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if !endpoints.iter().all(is_endpoint) || name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { endpoints, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn clusters_have_hosts_and_perhaps_a_name() {
        let parsed = |text: &str| Cluster::parse(text).unwrap();
        let one = parsed("etcd://h:2379");
        assert_eq!((one.endpoints, one.name.as_str()), (vec!["h:2379".to_owned()], "default"));
        let two = parsed("etcd://[::1]:2379,g:1/prod");
        assert_eq!(two.endpoints, ["[::1]:2379", "g:1"]);
        assert_eq!(two.name, "prod");
        for wrong in ["h:1", "etcd://", "etcd://h", "etcd://h:0", "etcd://h:1,", "etcd://h:1/"] {
            assert!(Cluster::parse(wrong).is_err(), "{wrong}");
        }
    }
}
