//! A real etcd for a test: on free ports, with its data in a folder of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::kill;
use crate::{TEST_TIMEOUT, until};

/// How often other ports are tried, should another program have taken one meanwhile.
const STARTS_MAX: usize = 5;

/// A cluster of etcd, of one member or more. It ends with the value.
#[derive(Debug)]
pub struct Etcd {
    folder: TempDir,
    program: PathBuf,
    members: Vec<Member>,
    flags: Vec<String>,
    place: Place,
    is_encrypted: bool,
}

/// The files of an etcd that encrypts what it says to clients, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct EtcdTls<'a> {
    /// Its certificate, for 127.0.0.1.
    pub certificate: &'a Path,
    /// The key of that.
    pub key: &'a Path,
    /// The authority of clients, which all need a certificate of it then.
    pub clients: Option<&'a Path>,
}

/// Where etcd runs.
#[derive(Clone, Debug)]
struct Place {
    address: Ipv4Addr,
    /// What its command begins with.
    inside: Vec<String>,
}

#[derive(Debug)]
struct Member {
    client_port: u16,
    peer_port: u16,
    /// For looking at it, where clients have to encrypt.
    metrics_port: u16,
    process: Option<Child>,
}

impl Etcd {
    /// One member; `None` where there is no etcd, and a sentence that says so.
    pub fn start() -> Option<Self> {
        Self::start_with(1, &[])
    }

    /// So many members with these flags more.
    pub fn start_with(members: usize, flags: &[&str]) -> Option<Self> {
        let place = Place { address: Ipv4Addr::LOCALHOST, inside: Vec::new() };
        Self::start_in(&place, members, flags, false)
    }

    /// One member that clients reach encrypted.
    pub fn start_encrypted(tls: EtcdTls<'_>) -> Option<Self> {
        let EtcdTls { certificate, key, clients } = tls;
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let mut flags = vec!["--cert-file", certificate, "--key-file", key];
        if let Some(authority) = clients {
            flags.extend(["--client-cert-auth", "--trusted-ca-file", authority.to_str().unwrap()]);
        }
        let place = Place { address: Ipv4Addr::LOCALHOST, inside: Vec::new() };
        Self::start_in(&place, 1, &flags, true)
    }

    /// One member that listens on this address, by a command that begins with these words, such as
    /// those that bring it into a network namespace.
    pub fn start_at(address: Ipv4Addr, inside: Vec<String>) -> Option<Self> {
        Self::start_in(&Place { address, inside }, 1, &[], false)
    }

    fn start_in(place: &Place, members: usize, flags: &[&str], is_encrypted: bool) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: there is no etcd here; apt-get install etcd-server brings it");
            return None;
        };
        for _ in 0..STARTS_MAX {
            let members = (0..members).map(|_| Member {
                client_port: free_port(),
                peer_port: free_port(),
                metrics_port: free_port(),
                process: None,
            });
            let mut etcd = Self {
                folder: tempfile::tempdir().unwrap(),
                program: program.clone(),
                members: members.collect(),
                flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
                place: place.clone(),
                is_encrypted,
            };
            if etcd.start_all() {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    fn start_all(&mut self) -> bool {
        (0..self.members.len()).for_each(|at| self.spawn(at));
        (0..self.members.len()).all(|at| self.is_ready(at))
    }

    /// The addresses of the members for clients.
    pub fn endpoints(&self) -> Vec<String> {
        let (address, scheme) =
            (self.place.address, if self.is_encrypted { "https://" } else { "" });
        let endpoint = |member: &Member| format!("{scheme}{address}:{}", member.client_port);
        self.members.iter().map(endpoint).collect()
    }

    /// Where a member says in clear how it is.
    fn page_address(&self, at: usize) -> SocketAddr {
        let Member { client_port, metrics_port, .. } = self.members[at];
        let port = if self.is_encrypted { metrics_port } else { client_port };
        SocketAddr::from((self.place.address, port))
    }

    /// Kills a member.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Starts a member again that was killed, with its data.
    pub fn restart(&mut self, at: usize) {
        self.spawn(at);
        assert!(self.is_ready(at), "etcd does not start again");
    }

    /// Stops a member without ending it (SIGSTOP).
    pub fn pause(&self, at: usize) {
        kill(self.pid(at), Signal::STOP);
    }

    /// Lets a member go on that was paused.
    pub fn resume(&self, at: usize) {
        kill(self.pid(at), Signal::CONT);
    }

    /// The member that leads, as soon as one does that answers.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        until("etcd has a leader", || {
            leader = (0..self.members.len()).find(|at| {
                let metrics = ask(self.page_address(*at), "/metrics").unwrap_or_default();
                metrics.lines().any(|line| line == "etcd_server_is_leader 1")
            });
            leader.is_some()
        });
        leader.unwrap()
    }

    fn pid(&self, at: usize) -> u32 {
        self.members[at].process.as_ref().unwrap().id()
    }

    fn spawn(&mut self, at: usize) {
        let Place { address, inside } = &self.place;
        let url = |port: u16| format!("http://{address}:{port}");
        let cluster = self.members.iter().enumerate();
        let cluster = cluster.map(|(at, member)| format!("m{at}={}", url(member.peer_port)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let Member { client_port, peer_port, metrics_port, .. } = self.members[at];
        let mut client_url = url(client_port);
        let mut flags = self.flags.clone();
        if self.is_encrypted {
            client_url = client_url.replace("http://", "https://");
            flags.extend(["--listen-metrics-urls".to_owned(), url(metrics_port)]);
        }
        let log = std::fs::File::create(self.folder.path().join(format!("log{at}"))).unwrap();
        let mut command = match inside.split_first() {
            None => Command::new(&self.program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let process = command
            .env_clear()
            .env("PATH", path)
            .args(["--name", &format!("m{at}")])
            .arg("--data-dir")
            .arg(self.folder.path().join(format!("m{at}")))
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &url(peer_port)])
            .args(["--initial-advertise-peer-urls", &url(peer_port)])
            .args(["--initial-cluster", &cluster])
            .args(&flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.members[at].process = Some(process);
    }

    /// Whether a member becomes healthy, which it is not without a leader.
    fn is_ready(&mut self, at: usize) -> bool {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let address = self.page_address(at);
        let member = &mut self.members[at];
        while Instant::now() < deadline {
            if member.process.as_mut().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            if is_healthy(address) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
        if std::thread::panicking() {
            for at in 0..self.members.len() {
                let log = std::fs::read_to_string(self.folder.path().join(format!("log{at}")));
                let log = log.unwrap_or_default();
                let end = log.lines().rev().take(20).collect::<Vec<_>>();
                eprintln!("etcd {at}:\n{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
            }
        }
    }
}

/// The program, where it is installed.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("etcd"));
    found.into_iter().find(|program| Path::is_file(program))
}

/// A port that no program listens on now.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn is_healthy(address: SocketAddr) -> bool {
    ask(address, "/health").is_ok_and(|answer| answer.contains("\"true\""))
}

/// What a member answers to a request for this page.
fn ask(address: SocketAddr, page: &str) -> std::io::Result<String> {
    let timeout = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
