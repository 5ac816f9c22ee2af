//! The limits of everything in a map, each with its reason.

/// Nodes in a map. A map of so many nodes, each as large as it may be, is smaller than the 1.5 MiB
/// that etcd takes as one value.
pub const NODES_MAX: usize = 1024;

/// Groups that the ids are divided into. A power of two, fixed for ever: it is part of the meaning
/// of an id.
pub const GROUPS: usize = 1024;

/// Nodes that keep the records of one group.
pub const ACTING_MAX: usize = 3;

/// Nodes that hold copies of one object.
pub const HOLDERS_MAX: usize = 8;

/// Addresses of one node.
pub const ADDRESSES_MAX: usize = 4;

/// Bytes of one address: a host of some length and a port.
pub const ADDRESS_BYTES_MAX: usize = 128;

/// Bytes of a node's name.
pub use plasmon_proto::limits::NODE_NAME_BYTES_MAX;

/// Bytes of the name of a zone.
pub use plasmon_proto::limits::ZONE_BYTES_MAX;

/// The largest weight of a node. A logarithm of 38 bits times this stays below 2^64.
pub use plasmon_proto::limits::NODE_WEIGHT_MAX as WEIGHT_MAX;

/// Bytes of an encoded map: as many nodes as there may be, each as large as it may be, are less.
pub const MAP_BYTES_MAX: usize = 1 << 20;
