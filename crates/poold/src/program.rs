//! The program: it connects to the store, takes part in the pool for it, and begins again when
//! either of them went away.
//!
//! ```text
//!   connect to the store ──► take part ──(store or node over)──► connect again ─ ─ ► give up
//!                               └──(SIGTERM, SIGINT)──► leave the pool, end
//! ```
//!
//! A daemon that its keeper starts again has the same store: the pool daemon connects to it and
//! joins as a new incarnation of the node. Nothing is kept of the one before; the store knows what
//! it has.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::Parser;
use plasmon_cluster::{NodeLog, ProtocolRange};
use plasmon_etcd::{Options, OwnCertificate, Tls};
use plasmon_net::handshake::Token;
use plasmon_pool::message::PROTOCOL;
use plasmon_proto::ClusterAddress;
use plasmon_proto::etcd_files::{BadEtcdFiles, CertificateFiles, EtcdFiles, EtcdSettings};
use plasmon_shm::deadline::Deadline;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::Arguments;
use crate::certificates::{self, Certificates, Files, Watch};
use crate::core::{Pool, Settings};
use crate::door::Door;
use crate::identity::{self, Identity};
use crate::membership;
use crate::node_store::{ConnectError, NodeStore, StoreConnection};
use crate::repeats::Repeats;

/// How long the store may be away before this process gives up.
const STORE_WITHIN: Duration = Duration::from_secs(10);

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause while the log of the store is not open.
const LOG_PAUSE: Duration = Duration::from_millis(250);

/// The pause after the pool could not be joined.
const JOIN_PAUSE: Duration = Duration::from_secs(1);

/// So often a running node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long the lease of a node lives without a keep-alive.
const TTL_MS: u64 = 3_000;

/// How long a node is down before it is given up.
const OUT_AFTER_MS: u64 = 10_000;

/// Movers at most, unless more are wanted.
const MOVERS_MAX: usize = 4;

/// Something that the main thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// This process is to end.
    Signal,
    /// The connection to the store has ended.
    Store,
}

/// Why the process ends with a failure.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Store(#[from] ConnectError),
    #[error("the store at {} is another one than this process was started for", .0.display())]
    OtherStore(PathBuf),
    #[error(transparent)]
    Identity(#[from] identity::Error),
    #[error(transparent)]
    Membership(#[from] membership::Error),
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    #[error(transparent)]
    EtcdFiles(#[from] BadEtcdFiles),
    #[error("{}: {reason}", path.display())]
    Token { path: PathBuf, reason: String },
    #[error("{doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

/// Runs the program with these arguments, of which the first is its name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    // Before there is a second thread. A provider that needs it and does not have it is not used.
    plasmon_fabric::prepare();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failure. If they cannot be printed, nothing is lost.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(arguments.log)
        .with_ansi(false)
        .with_target(false)
        .init();
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the pool daemon ends: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Error> {
    let (sender, over) = channel();
    watch_signals(sender.clone())
        .map_err(|source| Error::System { doing: "listening to signals", source })?;
    let mut repeats = Repeats::default();
    loop {
        let Some(connection) = connect(arguments, &over)? else { return Ok(()) };
        let outcome = take_part(arguments, &connection, &sender, &over);
        connection.close();
        match outcome {
            Ok(Over::Signal) => return Ok(()),
            Ok(Over::Store) => tracing::warn!("the store is away; connecting again"),
            // What another try cannot mend ends the process; the daemon that started it says so.
            Err(error) if !is_passing(&error) => return Err(error),
            Err(error) => {
                if repeats.is_due(&error.to_string()) {
                    tracing::warn!("the pool cannot be joined, trying again: {error}");
                }
                if is_signalled(&over, JOIN_PAUSE) {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether an error may be over at the next try.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::Membership(membership::Error::Etcd(_) | membership::Error::Io(_))
            | Error::System { .. }
    )
}

/// Connects to the store, which may be starting again. `None` when this process is to end. A store
/// whose log is not open is waited for: without it the node would tell the others that it has no
/// copies which are in the log alone, and what no node has is forgotten.
fn connect(
    arguments: &Arguments,
    over: &Receiver<Over>,
) -> Result<Option<Arc<StoreConnection>>, Error> {
    let mut deadline = Deadline::after(STORE_WITHIN);
    let mut is_said = false;
    loop {
        match StoreConnection::connect(&arguments.socket) {
            Ok(connection) if connection.store() != arguments.store => {
                return Err(Error::OtherStore(arguments.socket.clone()));
            }
            Ok(connection) if connection.is_log_closed() => {
                connection.close();
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!(
                        "the log of durable objects is not open yet; this node takes part in the \
                         pool when it is: `plasmon status` says what is wrong with it"
                    );
                }
                if is_signalled(over, LOG_PAUSE) {
                    return Ok(None);
                }
                deadline = Deadline::after(STORE_WITHIN);
            }
            Ok(connection) => return Ok(Some(connection)),
            Err(error) if deadline.is_past() => return Err(error.into()),
            Err(_) if is_signalled(over, PAUSE) => return Ok(None),
            Err(_) => {}
        }
    }
}

/// Whether this process is told to end within a time. What an earlier connection said is of no
/// interest any more.
fn is_signalled(over: &Receiver<Over>, time: Duration) -> bool {
    let deadline = Deadline::after(time);
    loop {
        match over.recv_timeout(deadline.left().unwrap_or(time)) {
            Ok(Over::Signal) => return true,
            Ok(Over::Store) => {}
            Err(_) => return false,
        }
    }
}

/// How this node takes part, and what it is.
fn settings_of(
    arguments: &Arguments,
    connection: &StoreConnection,
    certificates: Option<Certificates>,
) -> Result<(Settings, Identity), Error> {
    let etcd = Options { tls: etcd_tls(arguments)?, ..Options::new(arguments.cluster.endpoints()) };
    let folder = match &arguments.pool_folder {
        Some(folder) => folder.clone(),
        None => default_folder(&arguments.cluster.name, &arguments.node_name)?,
    };
    let identity = Identity::open(&folder, &arguments.node_name)?;
    let token = token(arguments, &etcd)?;
    let (listen, addresses) = addresses(arguments)
        .map_err(|source| Error::System { doing: "finding the address of this node", source })?;
    let settings = Settings {
        membership: membership::Settings {
            etcd,
            cluster: arguments.cluster.name.clone(),
            ttl_ms: TTL_MS,
            out_after_ms: OUT_AFTER_MS,
            boot: connection.store(),
            addresses,
            zone: arguments.pool_zone.clone(),
            weight: arguments.pool_weight,
            log: if connection.has_log() { NodeLog::Open } else { NodeLog::Absent },
            protocol: ProtocolRange { min: PROTOCOL.min, max: PROTOCOL.max },
        },
        listen,
        token,
        capacity_bytes: connection.capacity_bytes(),
        movers: movers(arguments.pool_movers),
        suspect_ms: arguments.pool_suspect_ms,
        certificates,
        fabric: arguments.pool_fabric.clone(),
    };
    Ok((settings, identity))
}

/// Is a node of the pool until something ends that.
fn take_part(
    arguments: &Arguments,
    connection: &Arc<StoreConnection>,
    sender: &Sender<Over>,
    over: &Receiver<Over>,
) -> Result<Over, Error> {
    // The watch looks at the files for as long as this node takes part.
    let (certificates, _watch) = certificates_of(arguments)?.unzip();
    let (settings, identity) = settings_of(arguments, connection, certificates)?;
    let ended = {
        let sender = sender.clone();
        // It fails after the end of the main thread.
        move || _ = sender.send(Over::Store)
    };
    let pool = Pool::start(settings, identity, |_| Box::new(NodeStore::new(connection, ended)))?;
    // Without it everything else works.
    let door = Door::open(&arguments.socket, pool.asker());
    if let Err(error) = &door {
        tracing::warn!("programs cannot ask where objects are: {error}");
    }
    tracing::info!("listening on {} as {}", pool.address(), arguments.node_name);
    if arguments.pool_tls_cert.is_some() && !arguments.cluster.is_encrypted {
        tracing::warn!(
            "messages between nodes are encrypted, and what is said to etcd is not: start etcd \
             with TLS, and name it by https:// in place of etcd://"
        );
    }
    loop {
        match over.recv_timeout(LOOK_EVERY) {
            Ok(Over::Signal) => {
                if let Err(error) = pool.leave() {
                    tracing::warn!("the lease of this node ends by itself: {error}");
                }
                return Ok(Over::Signal);
            }
            Ok(Over::Store) | Err(RecvTimeoutError::Disconnected) => return Ok(Over::Store),
            Err(RecvTimeoutError::Timeout) if pool.is_over() => {
                let source = io::Error::other("the node ended by itself");
                return Err(Error::System { doing: "taking part in the pool", source });
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// What etcd is reached with, where it is reached encrypted.
fn etcd_tls(arguments: &Arguments) -> Result<Option<Tls>, BadEtcdFiles> {
    let given = EtcdSettings {
        etcd: CertificateFiles {
            authority: arguments.pool_etcd_ca.clone(),
            certificate: arguments.pool_etcd_cert.clone(),
            key: arguments.pool_etcd_key.clone(),
        },
        pool: CertificateFiles {
            authority: arguments.pool_tls_ca.clone(),
            certificate: arguments.pool_tls_cert.clone(),
            key: arguments.pool_tls_key.clone(),
        },
        revoked: arguments.pool_tls_crl.clone(),
    };
    let found = EtcdFiles::of(arguments.cluster.is_encrypted, given)?;
    Ok(found.map(|EtcdFiles { authority, own, revoked }| {
        let own = own.map(|(certificate, key)| OwnCertificate { certificate, key });
        Tls { authority, own, revoked }
    }))
}

/// The certificates of this node, if it has any.
fn certificates_of(
    arguments: &Arguments,
) -> Result<Option<(Certificates, Watch)>, certificates::Error> {
    let Arguments { pool_tls_cert, pool_tls_key, pool_tls_ca, pool_tls_crl, .. } = arguments;
    let files = pool_tls_cert.clone().zip(pool_tls_key.clone()).zip(pool_tls_ca.clone());
    let Some(((certificate, key), authority)) = files else { return Ok(None) };
    let files = Files { certificate, key, authority, revoked: pool_tls_crl.clone() };
    let (cluster, node) = (&arguments.cluster.name, &arguments.node_name);
    Certificates::read(files, cluster, node, arguments.pool_encrypt_data).map(Some)
}

/// Where the node listens, and the addresses that the others are given.
fn addresses(arguments: &Arguments) -> io::Result<(SocketAddr, Vec<String>)> {
    match arguments.pool_listen {
        Some(listen) if listen.ip().is_unspecified() && listen.port() == 0 => {
            let text = "an address for all interfaces needs a port: the others are told it";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Some(listen) if listen.ip().is_unspecified() => {
            let address = SocketAddr::new(local_address(&arguments.cluster)?.ip(), listen.port());
            Ok((listen, vec![address.to_string()]))
        }
        Some(listen) => Ok((listen, Vec::new())),
        None => Ok((local_address(&arguments.cluster)?, Vec::new())),
    }
}

/// The address by which this machine reaches etcd, with no port. Nothing is sent for that.
fn local_address(cluster: &ClusterAddress) -> io::Result<SocketAddr> {
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for endpoint in &cluster.hosts {
        let found = UdpSocket::bind("[::]:0")
            .or_else(|_| UdpSocket::bind("0.0.0.0:0"))
            .and_then(|socket| socket.connect(endpoint).map(|()| socket))
            .or_else(|_| {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(endpoint).map(|()| socket)
            })
            .and_then(|socket| socket.local_addr());
        match found {
            Ok(address) => return Ok(SocketAddr::new(address.ip().to_canonical(), 0)),
            Err(found) => error = found,
        }
    }
    Err(error)
}

fn movers(wanted: usize) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    if wanted > 0 { wanted } else { processors().min(MOVERS_MAX) }
}

/// What the nodes of the pool share.
fn token(arguments: &Arguments, etcd: &Options) -> Result<Token, Error> {
    if let Some(path) = &arguments.pool_token_file {
        return token_of(path);
    }
    let secret = membership::shared_secret(etcd, &arguments.cluster.name)?;
    Token::new(&secret).ok_or_else(|| Error::Token {
        path: PathBuf::from("etcd"),
        reason: "the secret in etcd is too short or too long".to_owned(),
    })
}

/// The secret in a file that no other user can read.
fn token_of(path: &Path) -> Result<Token, Error> {
    let wrong = |reason: String| Error::Token { path: path.to_owned(), reason };
    let secret = plasmon_secrets::read_secret(path, "secret");
    let secret = secret.map_err(|error| wrong(error.to_string()))?;
    let bytes = secret.len();
    let reason = || wrong(format!("a secret has 16 to 1024 bytes, found {bytes}"));
    Token::new(secret.trim_ascii_end()).ok_or_else(reason)
}

/// Where a node keeps its identity.
fn default_folder(cluster: &str, node: &str) -> Result<PathBuf, Error> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    let missing = || Error::System {
        doing: "finding a folder for the node",
        source: io::Error::other("neither XDG_STATE_HOME nor HOME is set: use --pool-folder"),
    };
    // A name may have a slash.
    let node = node.replace('/', "_");
    Ok(state.ok_or_else(missing)?.join("plasmon/pool").join(cluster).join(node))
}

fn watch_signals(sender: Sender<Over>) -> io::Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    let run = move || {
        let mut byte = [0];
        while read.read_exact(&mut byte).is_ok() {
            // It fails after the end of the main thread.
            let _ = sender.send(Over::Signal);
        }
    };
    std::thread::Builder::new().name("pool-signals".to_owned()).spawn(run)?;
    Ok(())
}
