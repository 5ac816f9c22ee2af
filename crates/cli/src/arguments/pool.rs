//! The arguments of `plasmon pool`, and those of `start` for a node of a pool.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use crate::completion;

/// The most nodes of a pool on one machine.
const DEV_NODES_MAX: u32 = 16;

/// The most days that a certificate is valid: those of its authority.
const CERTIFICATE_DAYS_MAX: u32 = 3650;

/// The commands of `pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Run a whole pool on this machine, for development: an etcd and a store for each node.
    ///
    /// It runs until Ctrl-C, SIGTERM or SIGHUP, or until the pipe at its standard input is closed,
    /// and then deletes everything.
    Dev(PoolDev),
    /// Show whether the pool is whole: its nodes, its leader, what it waits for.
    ///
    /// It asks etcd, so it works when no node runs on this machine.
    Status(PoolAddress),
    /// List the nodes of the pool: their states, groups, zones and addresses.
    ///
    /// It asks etcd, so it works when no node runs on this machine.
    Nodes(PoolAddress),
    /// Show which nodes have an object of the pool.
    ///
    /// It asks the pool daemon of the running store.
    Where {
        /// The name of the object, `@NAMESPACE:NAME`, or its id.
        #[arg(add = completion::objects())]
        object: String,
    },
    /// Give up a node that will not come back, now.
    ///
    /// What other nodes have copies of is copied again; what only this node had is lost. A node
    /// that is there cannot be forgotten. When many nodes were lost at once, none is given up until
    /// some are forgotten or come back.
    Forget(PoolOrder),
    /// Move everything off a node, so that it can be stopped without loss.
    ///
    /// Copies that only this node has go to others first. It serves what it has as long as it is
    /// there, and gets no further copies. The command waits; when it is ended the node goes on
    /// draining.
    Drain(PoolDrain),
    /// Have a node take part again that is to be drained, or was.
    Undrain(PoolOrder),
    /// Compare all records of the pool with the copies on its nodes, and repair what differs.
    ///
    /// It asks the pool daemon of the running store, and fails when the pool is not whole: when
    /// objects have fewer copies than they shall, cannot be reached or are lost, when copies are
    /// not where they shall be, or when not everything could be compared.
    Verify(PoolVerify),
    /// Make the certificates that the nodes of a pool encrypt with and know each other by.
    ///
    /// The folder gets an authority of the pool, once, and a folder for each node, and each server
    /// of etcd, with what is to be copied to its machine. Called again it makes certificates for
    /// further nodes, new ones for those that it is given again, and the list of those that are
    /// revoked.
    InitCerts(PoolInitCerts),
    /// Run a program that is ended with the command that started it.
    #[command(hide = true)]
    Child(PoolChild),
}

/// Arguments of `start` for a store that belongs to a pool. Each is a setting of the daemon.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pool")]
pub(crate) struct PoolNode {
    /// The pool of machines to join, as etcd://HOST:PORT, with further hosts after commas and /NAME
    /// at the end where one etcd has several pools; https:// for an etcd with TLS.
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// The name of this node in its pool (default: the name of the machine).
    #[arg(long, visible_alias = "node-name", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the other nodes reach this one (default: the address from which this machine reaches
    /// etcd, and a free port).
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) pool_listen: Option<String>,
    /// A file with the secret that all nodes share (default: one that the first node leaves in
    /// etcd).
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_token_file: Option<PathBuf>,
    /// The certificate of this node (see `plasmon pool init-certs`): messages between nodes are
    /// encrypted. It takes --pool-tls-key and --pool-tls-ca.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_tls_cert: Option<PathBuf>,
    /// The key of the certificate.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_tls_key: Option<PathBuf>,
    /// The certificate of the authority that signs those of all nodes.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_tls_ca: Option<PathBuf>,
    /// The list of certificates that are revoked.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_tls_crl: Option<PathBuf>,
    /// The certificate of the authority of an etcd with TLS, which is https:// in --cluster
    /// (default: that of the pool).
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_etcd_ca: Option<PathBuf>,
    /// The certificate that etcd is shown (default: that of this node, unless etcd has an authority
    /// of its own). It takes --pool-etcd-key.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_etcd_cert: Option<PathBuf>,
    /// The key of the certificate for etcd.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool_etcd_key: Option<PathBuf>,
    /// Encrypt the content of objects between nodes, too.
    #[arg(long)]
    pub(crate) pool_encrypt_data: bool,
    /// The folder in which this node keeps its identity (default: below ~/.local/state).
    #[arg(long, value_name = "DIR")]
    pub(crate) pool_folder: Option<PathBuf>,
    /// What fails together with this node, such as a rack.
    #[arg(long, value_name = "ZONE")]
    pub(crate) pool_zone: Option<String>,
    /// The share of the pool's objects that this node holds; 0: caches alone (default: 100).
    #[arg(long, value_name = "N")]
    pub(crate) pool_weight: Option<u32>,
    /// How many threads move bytes (default: as many as processors, 4 at most).
    #[arg(long, value_name = "N")]
    pub(crate) pool_movers: Option<u32>,
    /// How long this node hears nothing of another one before it reports it; 0: for ever (default:
    /// 3000).
    #[arg(long, value_name = "MS")]
    pub(crate) pool_suspect_ms: Option<u32>,
    /// By what other nodes write into the memory of this one: off, auto (cards), or some of verbs,
    /// efa, net and shm, separated by semicolons; the rest goes over TCP (default: off).
    #[arg(long, visible_alias = "pool-fabric", value_name = "PROVIDERS")]
    pub(crate) fabric: Option<String>,
    /// How long to wait until the node has joined its pool. The store is started anyway, and goes
    /// on trying.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    pub(crate) join_timeout: f64,
}

impl PoolNode {
    /// Those that were given, as settings of the daemon.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (String, String)> {
        let path = |path: &Option<PathBuf>| Some(path.as_ref()?.display().to_string());
        let number = |number: Option<u32>| Some(number?.to_string());
        let all = [
            ("cluster", self.cluster.clone()),
            ("node_name", self.name.clone()),
            ("pool_listen", self.pool_listen.clone()),
            ("pool_token_file", path(&self.pool_token_file)),
            ("pool_tls_cert", path(&self.pool_tls_cert)),
            ("pool_tls_key", path(&self.pool_tls_key)),
            ("pool_tls_ca", path(&self.pool_tls_ca)),
            ("pool_tls_crl", path(&self.pool_tls_crl)),
            ("pool_etcd_ca", path(&self.pool_etcd_ca)),
            ("pool_etcd_cert", path(&self.pool_etcd_cert)),
            ("pool_etcd_key", path(&self.pool_etcd_key)),
            ("pool_encrypt_data", self.pool_encrypt_data.then(|| "true".to_owned())),
            ("pool_folder", path(&self.pool_folder)),
            ("pool_zone", self.pool_zone.clone()),
            ("pool_weight", number(self.pool_weight)),
            ("pool_movers", number(self.pool_movers)),
            ("pool_suspect_ms", number(self.pool_suspect_ms)),
            ("pool_fabric", self.fabric.clone()),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)))
    }
}

/// The pool that a command is about.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolAddress {
    /// The pool, as for `start` (default: that of the running store).
    #[arg(long, env = "PLASMON_CLUSTER", value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// What etcd is reached with.
    #[command(flatten)]
    pub(crate) etcd: EtcdCertificates,
}

/// What an etcd with TLS is reached with, as for `start`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct EtcdCertificates {
    /// The certificate of the authority of an etcd with TLS (default: that of the pool, if
    /// PLASMON_POOL_TLS_CA names it).
    #[arg(long, env = "PLASMON_POOL_ETCD_CA", value_name = "FILE")]
    pub(crate) pool_etcd_ca: Option<PathBuf>,
    /// The certificate that etcd is shown, with --pool-etcd-key.
    #[arg(long, env = "PLASMON_POOL_ETCD_CERT", value_name = "FILE")]
    pub(crate) pool_etcd_cert: Option<PathBuf>,
    /// The key of the certificate for etcd.
    #[arg(long, env = "PLASMON_POOL_ETCD_KEY", value_name = "FILE")]
    pub(crate) pool_etcd_key: Option<PathBuf>,
}

/// Arguments of `pool forget` and `pool undrain`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolOrder {
    /// The name of the node, or the number of its slot.
    #[arg(add = completion::nodes())]
    pub(crate) node: String,
    /// The pool.
    #[command(flatten)]
    pub(crate) pool: PoolAddress,
    /// Return when the command is in etcd; the node that leads carries it out.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait until it is carried out.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, conflicts_with = "no_wait")]
    pub(crate) timeout: f64,
}

/// Arguments of `pool drain`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolDrain {
    /// The name of the node, or the number of its slot.
    #[arg(add = completion::nodes())]
    pub(crate) node: String,
    /// The pool.
    #[command(flatten)]
    pub(crate) pool: PoolAddress,
    /// Return when the command is in etcd; the node that leads carries it out.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait until the node is drained (default: as long as it takes).
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    pub(crate) timeout: Option<f64>,
}

/// Arguments of `pool verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolVerify {
    /// Have every node read the content of its copies and what its log has of them, compare those
    /// of each object, and repair what is not right from copies that are.
    #[arg(long)]
    pub(crate) deep: bool,
    /// Only report the contents that are not right.
    #[arg(long, requires = "deep")]
    pub(crate) no_repair: bool,
    /// How long to wait for the nodes (default: 60, and as long as it takes to read the contents).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
}

/// Arguments of `pool dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolDev {
    /// How many nodes, named node1, node2 and so on.
    #[arg(
        long, short, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(DEV_NODES_MAX)),
    )]
    pub(crate) nodes: u32,
    /// The capacity of each node's store in bytes, such as 4g.
    #[arg(long, short, value_name = "BYTES", default_value = "256m")]
    pub(crate) capacity: String,
    /// How long to wait until all nodes have joined the pool and reach each other.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub(crate) join_timeout: f64,
}

/// A number of seconds that is a time.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 =
        text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    let time = Duration::try_from_secs_f64(seconds);
    time.map(|_| seconds).map_err(|_| format!("\"{text}\" is not a time"))
}

/// Arguments of `pool init-certs`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolInitCerts {
    /// The folder. Its `ca.key` signs for every node: keep it off the machines of the pool.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The name of the pool, or its address as for `start`.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cluster: String,
    /// The names of nodes that get a new certificate, as for `start --name`.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) node: Vec<String>,
    /// The names and addresses by which clients reach a server of etcd, with commas between them;
    /// once for each server. It gets a certificate for TLS in the folder `etcd/` and the first one.
    #[arg(long, value_name = "HOST,..")]
    pub(crate) etcd: Vec<String>,
    /// How many days the new certificates are valid.
    #[arg(
        long, value_name = "N", default_value_t = 365,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(CERTIFICATE_DAYS_MAX)),
    )]
    pub(crate) days: u32,
    /// The names of nodes whose certificates, all that were made so far, are not valid any more;
    /// for a server of etcd `etcd/` and its first host.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) revoke: Vec<String>,
}

/// Arguments of `pool child`.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolChild {
    /// The process that it is ended with, which is the parent of this one.
    #[arg(long, value_name = "PID")]
    pub(crate) parent: u32,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use plasmon_proto::settings::SETTINGS;

    use crate::arguments::Arguments;

    /// Pages and errors call a setting by its name. `start` had `--fabric` for `pool_fabric`, and
    /// refused `--pool-fabric`.
    #[test]
    fn start_takes_each_setting_of_a_pool_by_its_own_name() {
        let command = Arguments::command();
        let start = command.find_subcommand("start").expect("there is a start");
        let flags = start.get_arguments().filter_map(|flag| flag.get_long_and_visible_aliases());
        let flags: Vec<&str> = flags.flatten().collect();
        let of_pool =
            |key: &&str| key.starts_with("pool_") || ["cluster", "node_name"].contains(key);
        for key in SETTINGS.iter().map(|setting| setting.key).filter(of_pool) {
            let flag = key.replace('_', "-");
            assert!(flags.contains(&flag.as_str()), "--{flag}");
        }
    }
}
