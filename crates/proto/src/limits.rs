//! The limits of everything that a peer could make large, each with its reason.

/// Bytes in one message on the control socket. A SEQPACKET message is one skb, so this must stay
/// well below the kernel's default send buffer (208 KiB).
pub const FRAME_BYTES_MAX: usize = 64 * 1024;

/// Descriptors in one message. The kernel allows 253; a small number keeps a client with few free
/// descriptors working.
pub const FRAME_FDS_MAX: usize = 16;

/// Ids in one request, so that a request and its reply fit a frame.
pub const REQUEST_IDS_MAX: usize = 1024;

/// Objects in one page of a listing; descriptions with the longest names still fit a frame.
pub const LIST_PAGE_MAX: usize = 128;

/// Requests of one client that may wait in the daemon at once: every task of an event loop that
/// waits for an object has one.
pub const WAITS_PER_CLIENT_MAX: usize = 1 << 15;

/// Ids in all scopes of one client: two of the largest sorts at once.
pub const SCOPE_IDS_MAX: usize = 1 << 13;

/// Ids that one client may wait for at once; the daemon keeps some 100 bytes for each.
pub const WAIT_IDS_PER_CLIENT_MAX: usize = 1 << 16;

/// Ids that all clients of one user may wait for at once.
pub const WAIT_IDS_PER_USER_MAX: usize = 1 << 18;

/// Ids that all clients together may wait for at once.
pub const WAIT_IDS_MAX: usize = 1 << 20;

/// Clients of one daemon.
pub const CLIENTS_MAX: usize = 4096;

/// Bytes of the text of a name.
pub const NAME_BYTES_MAX: usize = 256;

/// Bytes of a namespace.
pub const NAMESPACE_BYTES_MAX: usize = 64;

/// Bytes of a client's name for itself.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// Members of one composite object, and so of one request to make one.
pub const MEMBERS_MAX: usize = 1024;

/// Copies of one object in a pool.
pub const COPIES_MAX: u8 = 8;

/// Calls in one message to the pool daemon, and answers in one of its messages: they fit a frame.
pub const CALLS_MAX: usize = 512;

/// What one message of the pool daemon says of adopted namespaces: it fits a frame.
pub const ADOPTIONS_TOLD_MAX: usize = 256;

/// Namespaces of a pool that are adopted at one time.
pub const POOL_ADOPTIONS_MAX: usize = 1024;

/// Bytes of a segment, the unit in which content of pooled objects moves between nodes.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// Segments of the largest object that moves between nodes.
pub const SEGMENTS_MAX: u64 = 1 << 24;

/// Spans of an object that are read with one request: they fit a frame. A program that wants more
/// asks several times.
pub const PARTS_SPANS_MAX: usize = 4096;

/// Objects that parts are read of with one request.
pub const GATHER_READS_MAX: usize = 1024;

/// Spans of all objects of such a request: with [`GATHER_READS_MAX`] objects they fit a frame.
pub const GATHER_SPANS_MAX: usize = 2048;

/// Bytes of all spans of such a request. A program has two requests under way.
pub const GATHER_BYTES_MAX: u64 = 32 << 20;

/// Ranges of an object that a program reads with one call.
pub const READ_RANGES_MAX: usize = 1 << 16;

/// Calls that wait for a pool daemon that does not read them, before it is disconnected; it is told
/// what is here when it comes back.
pub const CALLS_QUEUED_MAX: usize = 1 << 20;

/// Commits of objects with a home that the pool daemon is told of and has not answered. The store
/// tells it of further ones as it answers, however fast clients put them.
pub const COMMITS_TOLD_MAX: usize = 1 << 14;

/// Calls that wait for a pool daemon that does not read them, before the store goes on telling it
/// what is here.
pub const INVENTORY_QUEUED_MAX: usize = 1 << 14;

/// Ids that one client may wait for until the pool has accepted them.
pub const SETTLE_IDS_PER_CLIENT_MAX: usize = 1 << 16;

/// Bytes of the name of a node in its pool.
pub const NODE_NAME_BYTES_MAX: usize = 64;

/// Bytes of the name of a pool.
pub const CLUSTER_NAME_BYTES_MAX: usize = 64;

/// Members of etcd that the address of a pool may name; a cluster of etcd has seven at most.
pub const CLUSTER_HOSTS_MAX: usize = 16;

/// Bytes of the name of a zone, which fails as one.
pub const ZONE_BYTES_MAX: usize = 64;

/// The largest weight of a node in its pool, as maps have it.
pub const NODE_WEIGHT_MAX: u32 = 1 << 20;

/// How long a node may hear nothing of another one before it reports it, in milliseconds: two
/// beats take a second.
pub const SUSPECT_MS_MIN: u32 = 1_000;

/// The longest time; puts that wait for a node end after that in any case.
pub const SUSPECT_MS_MAX: u32 = 60_000;

/// Threads of a node that move bytes; more do not make a network faster.
pub const MOVERS_MAX: u32 = 64;

/// Bytes of the secret that the nodes of a pool share: at the least, so that it cannot be guessed.
pub const TOKEN_BYTES_MIN: u64 = 16;

/// And at the most.
pub const TOKEN_BYTES_MAX: u64 = 1024;

/// Bytes of an object's data: what a descriptor offset can hold with room to add.
pub const OBJECT_BYTES_MAX: u64 = 1 << 46;

/// Bytes of an object's metadata.
pub const METADATA_BYTES_MAX: u64 = 1 << 31;

/// Bytes of the encoded attributes that follow an object's metadata.
pub const ATTRIBUTES_BYTES_MAX: usize = 32 * 1024 - 1;

/// Every object starts at a multiple of this.
pub const OBJECT_ALIGN: u64 = 64;

/// An object of at least this many bytes gets an extent of exactly its size; a smaller one is
/// carved from a leased range by its writer.
pub const LARGE_OBJECT_BYTES: u64 = 16 << 20;

/// Bytes of one extent that small objects are carved from (less when the capacity is small).
pub const ARENA_EXTENT_BYTES: u64 = 64 << 20;

/// The most that one lease grants beyond the object that asked for it. A busy client whose objects
/// are short-lived goes round in about three leases: these stay in the processor's caches and its
/// address translations.
pub const LEASE_BYTES_MAX: u64 = 4 << 20;

/// How far the memory of all extents may exceed the capacity, as a part of it: pages that are
/// partly in use, and what a worker is giving back.
pub const RESIDENT_SLACK_PER_CAPACITY: u64 = 8;

/// But at least this much, in small stores.
pub const RESIDENT_SLACK_BYTES_MIN: u64 = 1 << 20;

/// Extents that may exist at once: the index part of an extent's number has 20 bits.
pub const EXTENTS_MAX: usize = 1 << 20;

/// Pins that one client may hold, which is how many entries its ledger has.
pub const PINS_PER_CLIENT_MAX: usize = 1 << 20;

/// Records in a client's submission ring.
pub const SUBMISSIONS: usize = 4096;

/// Records in a client's completion ring.
pub const COMPLETIONS: usize = 256;

/// Recently read records that a client reports to the daemon's eviction clock.
pub const TOUCHES: usize = 1024;

/// Notifications that wait for one slow subscriber before some are dropped and counted as lost.
pub const NOTIFICATIONS_QUEUED_MAX: usize = 1 << 18;

/// Notifications that wait for all slow subscribers together, beyond those that each may have in
/// any case; some 50 MB.
pub const NOTIFICATIONS_QUEUED_IN_ALL_MAX: usize = 1 << 20;

/// Notifications that may wait for each subscriber however many wait for others.
pub const NOTIFICATIONS_QUEUED_MIN: usize = 256;

/// Bytes of replies that wait for one client before its requests stay unread.
pub const REPLIES_BYTES_MAX: usize = 1 << 20;

/// Bytes of replies that wait for all clients before no client has a second one waiting.
pub const REPLIES_BYTES_IN_ALL_MAX: usize = 64 << 20;

/// Ends of objects (deleted, evicted, creator died) that are remembered.
pub const RECENT_ENDS_MAX: usize = 1 << 14;

/// Spill files that may be on their way to being opened for one client.
pub const OPENINGS_PER_CLIENT_MAX: usize = 64;

/// Files of the spill tier that are noted as being removed. Of more, which a disk that hangs
/// may bring about, a killed daemon's successor may find objects that had ended.
pub const VOID_FILES_MAX: usize = (1 << 17) - 1;

/// Settings that a file, the environment and flags may give in all.
pub const SETTINGS_MAX: usize = 60;
