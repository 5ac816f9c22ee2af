//! The options for connecting, starting a store and making an object.

use std::path::PathBuf;
use std::time::Duration;

use plasmon_proto::object::{CopyPlacement, Durability, Policy};
use plasmon_proto::{Name, ObjectId};

/// For how long the daemon may leave a question unanswered, unless the caller chooses. It answers
/// in microseconds unless it is stopped or the machine is in deep trouble.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How to connect to a store.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The store's socket; `None` takes [`crate::default_socket`].
    pub socket: Option<PathBuf>,
    /// The client's name for itself, which listings of clients show.
    pub name: String,
    /// Whether to use a channel (ring and ledger in shared memory). Without one everything goes
    /// through the socket, which is slower and needs less trust. What such a client holds is only
    /// sure to stay as long as its connection.
    pub channel: bool,
    /// Whether the store's account of this client is exact at every moment: each object is placed
    /// by the daemon, and a release counts as use. Slower; for programs that count on the capacity
    /// to the byte and on the order of eviction.
    pub exact: bool,
    /// How long to go on trying while no daemon listens on the socket. Zero tries once.
    pub connect_timeout: Duration,
    /// How long to go on trying after the daemon went away.
    pub reconnect_timeout: Duration,
    /// For how long the daemon may leave a question unanswered before that is an error. What takes
    /// it time, such as making room for a large object, may take longer, as long as it answers
    /// other questions meanwhile. Waits for objects have their own timeouts.
    pub request_timeout: Duration,
    /// The user (uid) whose store this may be. `None`: this user's own or root's, or one whose
    /// socket lies where none but its owner can have put it, see [`crate::Client::owner`].
    pub owner: Option<u32>,
    /// How many threads copy a large object; `None` takes the number of cores, at most 6.
    pub copy_threads: Option<usize>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            socket: None,
            name: String::new(),
            channel: true,
            exact: false,
            connect_timeout: Duration::ZERO,
            reconnect_timeout: Duration::from_secs(10),
            request_timeout: REQUEST_TIMEOUT,
            owner: None,
            copy_threads: None,
        }
    }
}

/// How to start a store of one's own.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The daemon's program. `None` looks at `$PLASMON_DAEMON`, then for `plasmond` beside the
    /// running program, then in `$PATH`.
    pub daemon: Option<PathBuf>,
    /// Settings of the daemon, as key and value (see `docs/settings.md`).
    pub settings: Vec<(String, String)>,
    /// For how long to wait until the store answers.
    pub timeout: Duration,
}

impl Default for StartOptions {
    fn default() -> Self {
        Self { daemon: None, settings: Vec::new(), timeout: Duration::from_secs(10) }
    }
}

/// When a put of an object of a pool returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// When the object is on its way into the store of this node. Whether the pool has accepted it,
    /// with its copies, [`crate::Client::settle`] says.
    Local,
    /// When the pool has accepted it, with its copies.
    Copies,
}

/// How an object is to be made. The default is an unnamed object with an id of the client's own
/// making, policy keep, no metadata.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// The id; `None` takes the id of the name, or a new one.
    pub id: Option<ObjectId>,
    /// The name. Its id is the object's id, so `id` must then be absent or the same. With a name of
    /// a pool, `id` may also be that of the name on this node ([`Name::id_at`]): then the object is
    /// found on all nodes by this id, as one without a name, and listed by its name.
    pub name: Option<Name>,
    /// Bytes of metadata, which follow the data.
    pub metadata: Vec<u8>,
    /// What the store may do with the object when memory is short.
    pub policy: Policy,
    /// The type of value that the bytes hold: see [`crate::tag`].
    pub tag: u8,
    /// How long the object lives after it is sealed; `None` for no limit.
    pub ttl: Option<Duration>,
    /// Objects that this one is made of; they live at least as long as it does. Those of an object
    /// of a pool are objects of the pool without names, which it has accepted and which are on this
    /// node; they can be deleted all the same.
    pub members: Vec<ObjectId>,
    /// Of an object of a pool, whether its members are deleted when it is. In a store alone they
    /// say so themselves: [`Self::owned`].
    pub owns_members: bool,
    /// Whether an object without a name belongs to the pool of the store. It is found on all nodes
    /// by its id, which says on which node it was made. One with a name does so if its name begins
    /// with `@`.
    pub pool: bool,
    /// Of an object in a pool, how many nodes keep a copy, 1 to 8; 0 for two, or for one without a
    /// name.
    pub copies: u8,
    /// With how many copies it is accepted where there are no more nodes; 0 for half of `copies`,
    /// rounded up.
    pub copies_min: u8,
    /// Of an object in a pool, where its copies are. With [`CopyPlacement::Spread`] those of other
    /// nodes count alone, and this node's may be evicted once they have theirs.
    pub placement: CopyPlacement,
    /// Of an object in a pool, what it survives; `None` for [`Durability::Memory`], or for
    /// [`Durability::Cache`] with [`Policy::Cache`]. A cache has one copy, on this node, which may
    /// be evicted: then it ends on all nodes. [`Durability::Durable`] is the same as
    /// [`Self::durable`].
    pub storage: Option<Durability>,
    /// Whether the object outlives a loss of power of the machine. It is written to the store's log
    /// before it is seen: a put returns after that. The store needs a folder for it (the setting
    /// `durable_dir`). Its members are durable, too; it is not owned, and not made in a scope. Its
    /// memory may be given to others at any time, whatever its policy is: a get brings it back from
    /// the log. Of an object in a pool each of the nodes that keep a copy has it in its log when
    /// the put returns; such a one has no members.
    pub durable: bool,
    /// When a put of an object in a pool returns; `None` for [`Ack::Copies`] if it has a name or is
    /// to have more than one copy, and else for [`Ack::Local`]. An object with a name is seen
    /// nowhere before the pool has accepted it, so [`Ack::Local`] is not for such.
    pub ack: Option<Ack>,
    /// Whether the object is deleted with the last composite that holds it.
    pub owned: bool,
    /// Whether the kernel must refuse every write once it is sealed.
    pub strict: bool,
    /// Whether an object that has the chosen id or name already is replaced. The new one takes its
    /// place in one step when it is sealed: others find one or the other, also when this process or
    /// the daemon dies. A reader of the old one keeps it. [`Code::InUse`] when a composite holds
    /// it. Until then there is memory for both.
    ///
    /// [`Code::InUse`]: crate::Code::InUse
    pub replace: bool,
    /// For [`crate::Client::create`]: whether the caller knows that no other client uses the id.
    /// Then an object in leased memory does not wait for an answer of the daemon:
    /// [`crate::Writer::seal`] returns when the object is on its way, and a refusal is reported by
    /// a later call. A client that asks for the object afterwards is answered only when it has
    /// arrived.
    pub trusted: bool,
}
