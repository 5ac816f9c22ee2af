//! The limits of one node, each with its reason.

pub use plasmon_proto::limits::{SEGMENT_BYTES, SEGMENTS_MAX};

/// Bytes of an encoded envelope.
pub const ENVELOPE_BYTES_MAX: usize = 1 << 20;

/// Messages in one envelope. The largest that is sent by the thousand, a record with all its
/// holders, has some 150 bytes.
pub const MESSAGES_MAX: usize = 1024;

/// Copies of one object that count.
pub const COPIES_MAX: usize = plasmon_proto::limits::COPIES_MAX as usize;

/// Holders in one record: as many as there may be copies, and one whose copy does not count and is
/// let go once the others have theirs.
pub const HOLDERS_MAX: usize = COPIES_MAX + 1;

/// Nodes that one answer names as sources.
pub const SOURCES_MAX: usize = 4;

/// Copies, and separately groups, that one page of an inventory describes.
pub const INVENTORY_ENTRIES_MAX: usize = 1024;

/// Up to so many bytes an object is asked for while its memory is made. More would be received no
/// sooner, and stand in the way of what else comes over the connection.
pub const READ_EARLY_BYTES_MAX: u64 = 4 * SEGMENT_BYTES;

/// Objects of up to so many bytes travel in a message: over a bulk lane they would cost four more
/// changes of threads, which take longer than these bytes do.
pub const INLINE_BYTES_MAX: u64 = 64 << 10;

/// Ranges of segments in one request to read; what does not fit is asked for in the next.
pub const READ_RANGES_MAX: usize = 1024;

/// Records that one node keeps.
pub const RECORDS_MAX: usize = 10_000_000;

/// Transfers of one object that its holder serves at a time; further nodes ask another source.
pub const SERVES_PER_OBJECT_MAX: usize = 4;

/// Transfers that a holder serves to one node at a time.
pub const SERVES_PER_PEER_MAX: usize = 64;

/// After so long a request without an answer is sent again.
pub const RETRY_MS: u64 = 200;

/// Commits of objects with a home that are asked again wait twice as long each time, up to this.
pub const RETRY_MS_MAX: u64 = 1_600;

/// Commits of objects with a home that are asked at a time. The others wait: what is asked and not
/// answered is asked again, and more than the nodes answer in that time would never end.
pub const COMMITS_ASKED_MAX: usize = 1 << 13;

/// Objects that other nodes ask for here and that the store is asked about.
pub const LOOKS_MAX: usize = 1 << 16;

/// After so long without a new segment a transfer is moved to the next source.
pub const STALL_MS: u64 = 300;

/// For so long a question is asked before it ends as unreachable.
pub const UNREACHABLE_MS: u64 = 10_000;

/// For so long a commit is asked of primaries of which none answers before it ends as unreachable.
pub const COMMIT_UNHEARD_MS: u64 = UNREACHABLE_MS;

/// For so long a commit waits for other nodes while no byte of it moves before it ends as
/// unreachable: a node may need that long to make room in its memory.
pub const COMMIT_STUCK_MS: u64 = 60_000;

/// Commits that a node remembers to have been refused.
pub const REFUSALS_MAX: usize = 10_000;

/// A copy of which bytes came within so long is on its way.
pub const MOVED_MS: u64 = 1_000;

/// For so long a copy of an object with a home waits for the commit of the object, while that home
/// is live.
pub const EARLY_MS: u64 = 10_000;

/// For so long an object is brought here that no client waits for, without any progress.
pub const PREFETCH_MS: u64 = 60_000;

/// Reads of parts of objects that a node has under way for its programs.
pub const PARTS_READS_MAX: usize = 1024;

/// Regions under construction on one node.
pub const REGIONS_MAX: usize = 4096;

/// Regions of which a node remembers how they ended.
pub const REGIONS_OVER_MAX: usize = 1 << 14;

/// Requests about regions that a node has under way for its programs. As many writes are half of
/// what may wait to be sent to one node.
pub const REGION_ASKS_MAX: usize = 512;

/// Gathers that a node has under way for its programs: reads of parts of many objects.
pub const GATHERS_MAX: usize = 64;

/// Transfers with parts of many objects that a node has under way from one holder, which serves no
/// more to one node. Each has one segment at most.
pub const GATHERS_PER_PEER_MAX: usize = 8;

/// Transfers with parts of many objects that a holder serves at a time: it keeps the bytes of each
/// until they are sent.
pub const GATHERS_SERVED_MAX: usize = 128;

/// Ids that something is wanted of, beyond which no further object is brought here in advance.
pub const PREFETCHES_MAX: usize = 1 << 16;

/// For so long an operator's question about an object waits for the primary.
pub const PLACE_MS: u64 = 3_000;

/// Questions of operators that a node has under way.
pub const PLACES_MAX: usize = 64;

/// For so long a page of a listing waits for the nodes that do not answer.
pub const LIST_MS: u64 = 3_000;

/// Pages of listings that a node has under way.
pub const LISTS_MAX: usize = 64;

/// Pages that a node's store is asked for on behalf of one other node at a time.
pub const LISTS_PER_PEER_MAX: usize = 16;
/// So often a node is asked again whether it has compared its records with the copies.
pub const VERIFY_AGAIN_MS: u64 = 1_000;

/// The longest time in which the pool is to be compared.
pub const VERIFY_MS_MAX: u64 = 3_600_000;

/// Comparisons that a node has under way for operators.
pub const VERIFICATIONS_MAX: usize = 8;

/// Nodes that wait for a comparison of one primary.
pub const QUESTIONERS_MAX: usize = 1024;

/// Groups that a primary compares at a time: the inventories for more would be in the way of what
/// else comes over the connections.
pub const VERIFY_GROUPS_AT_ONCE: usize = 64;

/// For so long the copies in these groups are waited for.
pub const VERIFY_BATCH_MS: u64 = 30_000;

/// So often a node is asked again for checksums of its copies.
pub const CHECKSUM_AGAIN_MS: u64 = 1_000;

/// For so long a page of checksums is waited for: a node makes the pages of all that ask one after
/// the other, each in about a second.
pub const CHECKSUM_MS: u64 = 60_000;

/// For so long a node that lost its lease is waited for: its pool daemon may be started again.
pub const CHECKSUM_LOST_MS: u64 = 5_000;

/// Pages of checksums that a node asks for at a time, for its programs.
pub const CHECKSUMS_MAX: usize = 64;

/// Pages of checksums that a node makes at a time; who asks for more asks again.
pub const CHECKSUMS_SERVED_MAX: usize = 32;

/// Bytes that a node reads for one page of checksums: a second at the rate at which it reads.
pub const CHECKSUM_PAGE_BYTES: u64 = 256 << 20;

/// Objects whose names a node's store is asked for at a time, to tell other nodes of them.
pub const DESCRIBED_MAX: usize = 1 << 16;

/// Ids of which a node remembers what it told the programs that subscribed.
pub const NOTICES_SEEN_MAX: usize = 1 << 16;

/// Ids of which an end waits for its birth.
pub const NOTICES_HELD_MAX: usize = 1 << 14;

/// Notices in one message.
pub const NOTICES_MAX: usize = 128;

/// For so long the creation of an id waits for the last copy of its deleted predecessor.
pub const IN_USE_MS: u64 = 5_000;

/// So often a node says which copies it holds that its clients cannot see.
pub const HELD_AGAIN_MS: u64 = 2_000;

/// After every node refused to hold another copy of an object, they are asked again after so long.
pub const REPAIR_REST_MS: u64 = 10_000;

/// So often a node reports what is left of draining nodes, and more seldom when that are more
/// objects than [`DRAIN_OBJECTS_PER_MS`] for each millisecond: it looks at all of them.
pub const DRAIN_EVERY_MS: u64 = 500;

/// How many objects of draining nodes are looked at for each millisecond between two reports.
pub const DRAIN_OBJECTS_PER_MS: u64 = 100;

/// So often a node tells its store that pooled copies may be shown.
pub const VOUCH_EVERY_MS: u64 = 1_000;

/// For so long a store shows copies of free ids after its node lost its lease.
pub const ISOLATED_SERVE_MS: u64 = 60_000;

/// Beyond the time for which a node without its lease may show copies, its peers wait so long
/// before they count the copies as gone: clocks run at different rates.
pub const ISOLATED_MARGIN_MS: u64 = 5_000;

const _: () = assert!(
    ISOLATED_SERVE_MS + ISOLATED_MARGIN_MS <= plasmon_cluster::silence::SILENT_AFTER_MS,
    "the leader waits as long as the nodes do",
);

/// The part of the capacity that pulls may have in flight.
pub const FLIGHT_PER_CAPACITY: u64 = 4;
