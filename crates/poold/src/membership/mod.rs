//! How a node takes part in its pool: its lease, the map, and its turn to lead, all in etcd.
//!
//! ```text
//!                  etcd
//!    ▲   │          ▲ │               ▲
//!    │   │ lease    │ │ changes       │ leader, map, reports
//!  ┌─┴───▼──┐   ┌───┴─▼───┐   ┌───────┴────┐
//!  │ Holder │   │ Watcher │   │ Leadership │      three threads with a client each, so that no
//!  └───┬────┘   └───┬─────┘   └──────▲─────┘      call of one waits for one of another
//!      │            │    View        │
//!      │            ├────────────────┘
//!      ▼            ▼
//!   Lease, LeaseLost, Map, Refused, ..  to the sink
//! ```
//!
//! * Maps are told in the order of their epochs. A new lease is told only after the map that was in
//!   etcd when the lease had its member (`lease.rs`).
//! * The keys and what they say together are `plasmon_membership`'s; what the pool decides is
//!   `plasmon_cluster`'s; here is only how it gets into etcd.
//! * Nothing here is fast, and nothing that is fast waits for it.

mod adoption_wishes;
mod adoptions;
mod encryption;
mod event;
mod fabric;
mod fencing;
mod leadership;
mod lease;
mod shared;
mod usage;
mod watch;
mod written;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use plasmon_cluster::adoption::Progress;
use plasmon_cluster::node::BadMember;
use plasmon_cluster::{
    DrainReport, Epoch, GroupNo, Member, NodeLog, NodeUuid, ProtocolRange, Suspect,
};
use plasmon_etcd::{Client, Condition, Operation, Options};
use plasmon_membership::encryption::Encryption;
use plasmon_membership::fabric::Fabric;
use plasmon_membership::usage::UsageReports;
use plasmon_membership::{BadClusterName, Key, Keys, Life, Snapshot, reports};

use self::adoption_wishes::{AdoptionAsk, WITHIN_MS};
pub use self::event::Event;
use self::leadership::Leadership;
use self::lease::Holder;
use self::shared::Shared;
pub use self::shared::Sink;
use self::watch::{Told, Watcher};
use self::written::Written;
use crate::clock::now_ms;
use crate::identity::{self, Identity};
use crate::random::random;

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to reach etcd.
    pub etcd: Options,
    /// The name of the cluster.
    pub cluster: String,
    /// How long the node's lease lives without a keep-alive.
    pub ttl_ms: u64,
    /// How long a node is down before it is given up, should this node lead.
    pub out_after_ms: u64,
    /// The token of the node's store.
    pub boot: u64,
    /// Where the other nodes reach it, the best first.
    pub addresses: Vec<String>,
    /// What fails together with it.
    pub zone: String,
    /// Its share of groups and copies.
    pub weight: u32,
    /// The log for durable objects of its store.
    pub log: NodeLog,
    /// The versions of the protocol that it speaks.
    pub protocol: ProtocolRange,
}

/// Why a node cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the node says of itself breaks a limit: change the settings.
    #[error(transparent)]
    Member(#[from] BadMember),
    /// The name of the cluster cannot be used: choose another.
    #[error(transparent)]
    ClusterName(#[from] BadClusterName),
    /// etcd cannot be reached or refuses: see what it says.
    #[error(transparent)]
    Etcd(#[from] plasmon_etcd::Error),
    /// The folder of the node cannot be used.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The machine is out of something: try again.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What etcd says of the pool, as far as this node has seen it.
#[derive(Clone, Debug)]
pub struct Observer {
    shared: Arc<Shared>,
    life: Life,
}

impl Observer {
    /// All of it; nothing before the first look.
    pub fn snapshot(&self) -> Snapshot {
        let view = self.shared.look(|state| state.view.clone());
        view.map_or_else(Snapshot::default, |view| Snapshot::of(&view))
    }

    /// Why the pool does not let this start of the node in.
    pub fn refusal(&self) -> Option<String> {
        let view = self.shared.look(|state| state.view.clone());
        view?.refusal_of(self.life).map(str::to_owned)
    }
}

/// A node that takes part, or tries to.
#[derive(Debug)]
pub struct Membership {
    shared: Arc<Shared>,
    holder: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    /// To revoke the lease with.
    etcd: Client,
    cluster: [u8; 16],
    life: Life,
}

impl Membership {
    /// Begins to take part. Everything that happens is told to `sink`, from three threads.
    pub fn start(settings: Settings, mut identity: Identity, sink: Sink) -> Result<Self, Error> {
        let keys = Keys::new(&settings.cluster)?;
        let mut etcd = Client::new(settings.etcd.clone())?;
        let member = Member {
            uuid: identity.uuid(),
            name: identity.name().to_owned(),
            incarnation: u64::from_le_bytes(random()?),
            boot: settings.boot,
            addresses: settings.addresses,
            zone: settings.zone,
            weight: settings.weight,
            log: settings.log,
            protocol: settings.protocol,
        };
        member.check()?;
        let cluster = cluster_id(&mut etcd, &keys)?;
        identity.join(cluster)?;

        let shared = Arc::new(Shared::new(sink));
        let life = Life { uuid: member.uuid, incarnation: member.incarnation };
        let client = || Client::new(settings.etcd.clone());
        let holder = Holder {
            etcd: client()?,
            keys: keys.clone(),
            shared: shared.clone(),
            identity,
            member,
            ttl_ms: settings.ttl_ms,
        };
        let watcher = Watcher {
            etcd: client()?,
            keys: keys.clone(),
            shared: shared.clone(),
            life,
            cluster,
            told: Told::default(),
        };
        let leadership = Leadership {
            etcd: client()?,
            keys,
            shared: shared.clone(),
            life,
            cluster,
            out_after_ms: settings.out_after_ms,
            leader: None,
            reported: Written::Nothing,
            drains_reported: Written::Nothing,
            refused: BTreeMap::new(),
            boot: settings.boot,
            progress_reported: Written::Nothing,
            usage: UsageReports::default(),
            suspects_reported: Written::Nothing,
            encryption_reported: Written::Nothing,
            fabric_reported: Written::Nothing,
        };
        let (holder_thread, threads) = (None, Vec::new());
        let mut membership = Self { shared, holder: holder_thread, threads, etcd, cluster, life };
        membership.holder = Some(spawn("pool-lease", move || holder.run())?);
        membership.threads.push(spawn("pool-watch", move || watcher.run())?);
        membership.threads.push(spawn("pool-lead", move || leadership.run())?);
        Ok(membership)
    }

    /// The id of the cluster, which was drawn when it was made.
    pub fn cluster(&self) -> [u8; 16] {
        self.cluster
    }

    /// The node in the map.
    pub fn uuid(&self) -> NodeUuid {
        self.life.uuid
    }

    /// What tells this start of the node from others.
    pub fn incarnation(&self) -> u64 {
        self.life.incarnation
    }

    /// What looks at it from other threads.
    pub fn observer(&self) -> Observer {
        Observer { shared: self.shared.clone(), life: self.life }
    }

    /// Reports to the leader that the node leads a group and all acting nodes have every record.
    pub fn report(&self, group: GroupNo, since: Epoch) {
        let is_known = |reports: &reports::Reports| reports.get(&group) == Some(&since);
        if !self.shared.look(|state| is_known(&state.reports)) {
            self.shared.change(|state| state.reports.insert(group, since));
        }
    }

    /// Reports to the leader and to operators what draining nodes have that is not elsewhere yet.
    pub fn report_drains(&self, reports: Vec<DrainReport>) {
        self.shared.change(|state| state.drains = reports);
    }

    /// Reports to the leader and to operators which peers the node does not reach.
    pub fn report_suspects(&self, suspects: Vec<Suspect>) {
        self.shared.change(|state| state.suspects = Some(suspects));
    }

    /// The log of the node's store takes nothing any more: the member says so from now on.
    pub fn log_failed(&self) {
        self.shared.change(|state| state.has_log_failed = true);
    }

    /// Reports to operators what the node encrypts.
    pub fn report_encryption(&self, encryption: Encryption) {
        self.shared.change(|state| state.encryption = Some(encryption));
    }

    /// Reports to operators by what others write into memory of the node.
    pub fn report_fabric(&self, fabric: Fabric) {
        self.shared.change(|state| state.fabric = Some(fabric));
    }

    /// The node decides nothing any more, after [`Event::Fenced`]: its lease may end.
    pub fn stopped(&self) {
        self.shared.change(|state| state.has_stopped = true);
    }

    /// A client of this node's store adopts a namespace, with this limit, 0 for none; answered with
    /// [`Event::AdoptionAnswered`].
    pub fn adopt(&self, number: u64, namespace: String, session: u64, bytes_max: u64) {
        let until_ms = now_ms().saturating_add(WITHIN_MS);
        let after = self.shared.adoptions_told();
        let ask = AdoptionAsk { number, namespace, session, bytes_max, after, until_ms };
        self.shared.change(|state| state.adoptions.ask(ask));
    }

    /// What this node's store has of a namespace that is limited.
    pub fn used(&self, namespace: String, bytes: u64) {
        let after = self.shared.adoptions_told();
        self.shared.change(|state| state.adoptions.usage.insert(namespace, (bytes, after)));
    }

    /// A session of this node's store that had adopted a namespace has ended.
    pub fn orphaned(&self, namespace: String, session: u64) {
        let after = self.shared.adoptions_told();
        self.shared.change(|state| state.adoptions.orphaned.insert((namespace, session), after));
    }

    /// How far this node's store is with namespaces that have ended.
    pub fn swept(&self, progress: Progress) {
        self.shared.change(|state| state.adoptions.progress = Some(progress));
    }

    /// Ends the membership and the lease with it, so that the others know at once. What fails of it
    /// is said; then the lease ends by itself.
    pub fn leave(mut self) -> Result<(), Error> {
        self.shared.change(|state| state.is_over = true);
        // It would make another lease.
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
        let lease = self.shared.look(|state| state.lease);
        if let Some(lease) = lease {
            match self.etcd.revoke(lease) {
                Ok(()) | Err(plasmon_etcd::Error::NoLease) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.shared.change(|state| state.is_over = true);
        for thread in self.holder.take().into_iter().chain(self.threads.drain(..)) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Without [`Membership::leave`] the lease ends by itself, as that of a process that is killed.
impl Drop for Membership {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// The secret that the nodes of a cluster share when they are given no other; the first node draws
/// it. So a client of etcd that may read the pool's keys may join it.
pub fn shared_secret(etcd: &Options, cluster: &str) -> Result<[u8; 32], Error> {
    drawn_once(&mut Client::new(etcd.clone())?, &Keys::new(cluster)?, Key::Secret)
}

/// The id of the cluster.
fn cluster_id(etcd: &mut Client, keys: &Keys) -> Result<[u8; 16], Error> {
    drawn_once(etcd, keys, Key::Id)
}

/// Random bytes that the first node draws.
fn drawn_once<const BYTES: usize>(
    etcd: &mut Client,
    keys: &Keys,
    key: Key,
) -> Result<[u8; BYTES], Error> {
    let key = keys.of(key);
    loop {
        if let Some(kv) = etcd.get(&key)? {
            let drawn = <[u8; BYTES]>::try_from(kv.value.as_slice()).map_err(|_| {
                let message = format!("{} has not {BYTES} bytes", String::from_utf8_lossy(&key));
                plasmon_etcd::Error::Refused { code: 0, message }
            })?;
            return Ok(drawn);
        }
        let drawn: [u8; BYTES] = random()?;
        let is_free = [Condition::Made(key.clone(), 0)];
        etcd.transact(&is_free, &[Operation::Put(key.clone(), drawn.to_vec(), None)])?;
    }
}
