//! A pool on this machine: an etcd and three stores, each with its pool daemon, on loopback or each
//! in a network namespace of its own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use plasmon_certs::{Folder, Node as CertifiedNode, Subject};
use plasmon_client::{Client, Code, ConnectOptions, Name, PutOptions};
use plasmon_cluster::{Map, Slot};
use plasmon_etcd::{Client as Etcd, Options};
use plasmon_proto::ObjectId;
use rustix::process::{Pid, Signal, kill_process};

use crate::machines::{Cut, Machines};

/// Nodes of the pool.
pub(super) const NODES: usize = 3;

/// As long as anything in a pool may take, a death of a machine included.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// How long etcd and the nodes may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);

/// What a pool daemon's log says of its fabric begins so.
const CONTENT_COMES_OVER: &str = "content comes over ";

/// How long the certificates of a measurement are valid.
const VALID_SECONDS: u64 = 86_400;

/// Makes a certificate for a node; the flags that its daemon takes for it.
fn certificate(folder: &Path, name: &str) -> Result<Vec<String>> {
    let now = UNIX_EPOCH.elapsed()?.as_secs();
    let mut authority = Folder::open(folder, "default", now)?;
    let uri = format!("plasmon://default/{name}");
    let node = CertifiedNode { subject: Subject { name, uri: &uri }, seconds: VALID_SECONDS };
    let made = authority.issue(&node, now)?;
    let flag =
        |flag: &str, file: &str| format!("--pool-tls-{flag}={}", made.folder.join(file).display());
    let encrypts = "--pool-encrypt-data=true".to_owned();
    Ok(vec![flag("cert", "cert.pem"), flag("key", "key.pem"), flag("ca", "ca.pem"), encrypts])
}

/// What a node needs that may not be installed.
pub(super) fn missing_program() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join("etcd").is_file());
    (!found).then(|| "etcd is not installed: apt-get install etcd-server".to_owned())
}

/// Where a pool runs.
#[derive(Debug)]
pub(super) struct Place {
    /// For what the processes write.
    pub(super) directory: PathBuf,
    /// Of each node.
    pub(super) capacity_bytes: u64,
    /// One for each node; without them all are on loopback.
    pub(super) machines: Option<Machines>,
    /// Whether the nodes encrypt all that they say to each other.
    pub(super) encrypted: bool,
    /// By which providers of libfabric they write into each other's memory.
    pub(super) fabric: Option<String>,
}

/// A pool. It ends with the value.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    etcd: Child,
    endpoint: String,
    machines: Option<Machines>,
}

#[derive(Debug)]
struct Node {
    name: String,
    socket: PathBuf,
    log: PathBuf,
    daemon: Child,
    client: Client,
}

impl Nodes {
    /// Starts one, and says how long it took from the first node's start until an object can have
    /// a copy on every node.
    pub(super) fn start(place: &Place) -> Result<(Self, Duration)> {
        let machines = place.machines.clone();
        let address = machines.as_ref().map_or(Ipv4Addr::LOCALHOST, |machines| machines.address);
        let (etcd, endpoint) = start_etcd(&place.directory, address)?;
        let mut pool = Self { nodes: Vec::new(), etcd, endpoint, machines };
        pool.wait_for_etcd()?;
        let begin = Instant::now();
        for at in 0..NODES {
            let node = pool.start_node(place, at)?;
            pool.nodes.push(node);
        }
        pool.wait_until_joined()?;
        Ok((pool, begin.elapsed()))
    }

    /// Why the content that comes to a node does not come over the fabric that was chosen, if so.
    pub(super) fn fabric_refusal(&self) -> Result<Option<String>> {
        for node in &self.nodes {
            let log = fs::read_to_string(&node.log)?;
            let line = log.lines().find_map(|line| line.split_once(CONTENT_COMES_OVER));
            let (_, over) = line.context("a log that says by what content comes")?;
            if let Some((_, reason)) = over.split_once("tcp (") {
                return Ok(Some(reason.trim_end_matches(')').to_owned()));
            }
        }
        Ok(None)
    }

    /// The client of a node.
    pub(super) fn client(&self, at: usize) -> &Client {
        &self.nodes[at].client
    }

    /// The socket of a node.
    pub(super) fn socket(&self, at: usize) -> &Path {
        &self.nodes[at].socket
    }

    /// Deletes objects in the whole pool, and waits until the nodes have none of them.
    pub(super) fn delete(&self, ids: &[ObjectId]) -> Result<()> {
        for (id, refusal) in ids.iter().zip(self.client(0).delete(ids)?) {
            if let Some(code) = refusal {
                bail!("deleting {id} was refused: {code:?}");
            }
        }
        let is_here = |id| self.nodes.iter().any(|node| node.client.get_now(id).is_some());
        until("copies are deleted", || Ok((!ids.iter().any(is_here)).then_some(())))
    }

    /// This process and all of the pool: clients, daemons, pool daemons and etcd.
    pub(super) fn processes(&self) -> Vec<u32> {
        let nodes = self.nodes.iter().flat_map(|node| processes_of(&node.socket));
        nodes.chain([std::process::id(), self.etcd.id()]).collect()
    }

    /// The node that leads the records of an object.
    pub(super) fn primary_of(&self, id: &ObjectId) -> Result<usize> {
        let map = self.map()?.context("the pool has no map")?;
        let primary = map.primary(Map::group_of(id)).context("a group without a primary")?;
        self.node_in(&map, primary)
    }

    /// Signals every process of a node. Daemon and keeper start each other again, so they are
    /// stopped before they are killed.
    pub(super) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        let socket = &self.nodes[at].socket;
        for kind in [Signal::STOP, signal] {
            for pid in processes_of(socket) {
                let pid = Pid::from_raw(i32::try_from(pid)?).context("a process has a number")?;
                kill_process(pid, kind)?;
            }
        }
        Ok(())
    }

    /// Nothing that a node sends arrives any more, and nothing reaches it, until the end of the
    /// value.
    pub(super) fn cut(&self, at: usize) -> Result<Cut> {
        self.machines.as_ref().context("the nodes have no network of their own")?.cut(at)
    }

    fn map(&self) -> Result<Option<Map>> {
        let mut etcd = Etcd::new(Options::new(vec![self.endpoint.clone()]))?;
        let found = etcd.get(b"/plasmon/default/map")?;
        Ok(found.map(|found| Map::decode(&found.value)).transpose()?)
    }

    fn node_in(&self, map: &Map, slot: Slot) -> Result<usize> {
        let node = map.node(slot).context("a slot without a node")?;
        let name = &node.member.name;
        self.nodes.iter().position(|node| node.name == *name).context("a node of another pool")
    }

    fn wait_for_etcd(&self) -> Result<()> {
        let mut etcd = Etcd::new(Options::new(vec![self.endpoint.clone()]))?;
        until("etcd answers", || Ok(etcd.get(b"/plasmon").is_ok().then_some(())))
    }

    fn start_node(&self, place: &Place, at: usize) -> Result<Node> {
        let name = format!("node{}", at + 1);
        let folder = place.directory.join(&name);
        fs::create_dir(&folder)?;
        let socket = folder.join("store.sock");
        let program = std::env::var_os("PLASMON_DAEMON").context("the harness names the daemon")?;
        let log_path = folder.join("log");
        let log = File::create(&log_path)?;
        let machine = self.machines.as_ref().and_then(|machines| machines.nodes.get(at));
        let mut command = match machine {
            Some(machine) => machine.command(&program),
            None => Command::new(&program),
        };
        command.arg("--socket").arg(&socket);
        let capacity_bytes = place.capacity_bytes.to_string();
        command.args(["--capacity-bytes", &capacity_bytes, "--node-name", &name]);
        command.args(["--cluster", &format!("etcd://{}", self.endpoint)]);
        command.arg("--pool-folder").arg(folder.join("pool"));
        if place.encrypted {
            command.args(certificate(&place.directory.join("certs"), &name)?);
        }
        if let Some(fabric) = &place.fabric {
            command.args(["--pool-fabric", fabric]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let daemon = command.spawn().context("starting a daemon")?;
        let options = ConnectOptions {
            socket: Some(socket.clone()),
            name: "bench".into(),
            connect_timeout: START_WITHIN,
            request_timeout: PATIENCE,
            ..ConnectOptions::default()
        };
        let client = Client::connect(&options)?;
        Ok(Node { name, socket, log: log_path, daemon, client })
    }

    /// An object with a copy on every node is accepted, and every node leads some groups.
    fn wait_until_joined(&self) -> Result<()> {
        let copies = u8::try_from(NODES)?;
        let mut attempts = 0..;
        let id = until("all nodes join the pool", || {
            let name = Name::new("", format!("@joined:{:?}", attempts.next()))?;
            let (name, copies_min) = (Some(name), copies);
            let options = PutOptions { name, copies, copies_min, ..PutOptions::default() };
            match self.client(0).put(b"", &options) {
                Ok(id) => Ok(Some(id)),
                Err(error) if is_passing(error.code()) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })?;
        self.delete(&[id])?;
        until("every node leads", || {
            let Some(map) = self.map()? else { return Ok(None) };
            let is_settled = map.groups().all(|(_, group)| group.is_settled());
            let slots: Vec<Slot> = map.nodes().map(|(slot, _)| slot).collect();
            let leads = |slot| map.groups().any(|(_, group)| group.primary() == Some(slot));
            let all = slots.len() == NODES && slots.into_iter().all(leads);
            Ok((is_settled && all).then_some(()))
        })
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for at in 0..self.nodes.len() {
            // What is gone cannot be signalled; the harness ends what is left.
            let _ = self.signal(at, Signal::KILL);
        }
        for child in self.nodes.iter_mut().map(|node| &mut node.daemon).chain([&mut self.etcd]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A put under a name, with so many copies.
pub(super) fn named(name: &Name, copies: u8) -> PutOptions {
    PutOptions { name: Some(name.clone()), copies, ..PutOptions::default() }
}

/// Whether what failed can succeed when the pool has dealt with it.
pub(super) fn is_passing(code: Code) -> bool {
    matches!(code, Code::Unreachable | Code::NotEnoughNodes | Code::TimedOut)
}

/// Asks again and again until there is an answer.
pub(super) fn until<T>(what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if begin.elapsed() > START_WITHIN {
            bail!("{what}: it did not happen within {START_WITHIN:?}");
        }
        std::thread::sleep(POLL);
    }
}

fn start_etcd(directory: &Path, address: Ipv4Addr) -> Result<(Child, String)> {
    let (clients, peers) = (free_address(address)?, free_address(address)?);
    let (clients_url, peers_url) = (format!("http://{clients}"), format!("http://{peers}"));
    let log = File::create(directory.join("etcd.log"))?;
    let mut command = Command::new("etcd");
    command.args(["--name", "bench"]).arg("--data-dir").arg(directory.join("etcd"));
    command.args(["--listen-client-urls", &clients_url, "--advertise-client-urls", &clients_url]);
    command.args(["--listen-peer-urls", &peers_url, "--initial-advertise-peer-urls", &peers_url]);
    command.args(["--initial-cluster", &format!("bench={peers_url}")]);
    command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok((command.spawn().context("starting etcd")?, clients))
}

/// An address that is free now. etcd cannot choose a port itself.
fn free_address(address: Ipv4Addr) -> Result<String> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.to_string())
}

/// The processes that were started with this socket: daemon, keeper and pool daemon.
fn processes_of(socket: &Path) -> Vec<u32> {
    let socket = socket.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let names_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument.ends_with(socket))
    };
    pids.filter(names_it).collect()
}
