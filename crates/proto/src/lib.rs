//! The declarations that all parts of Plasmon share, free of input and output.
//!
//! * [`id`]: object ids, names and the rule that maps a name to an id.
//! * [`code`]: the error codes, the same numbers in every language.
//! * [`limits`]: the limit of everything that a peer could make large.
//! * [`object`]: attributes, states and descriptions of objects.
//! * [`extent`]: where in the memory of a store something is.
//! * [`message`]: the messages between clients and the daemon on the socket.
//! * [`pool`]: what a store and the pool daemon beside it tell each other.
//! * [`pool_admin`]: what programs and operators ask a pool daemon.
//! * [`pool_status`]: what an operator sees of a pool.
//! * [`region`]: memory of a pool that is written by address until it is sealed.
//! * [`inline`]: bytes within a message.
//! * [`parts`]: parts of pooled objects that a program asks the pool daemon for.
//! * [`gather`]: parts of many objects in one request.
//! * [`pool_checksum`]: checksums of the copies of a node, to compare them.
//! * [`pool_listing`]: listings of a namespace over all nodes of a pool.
//! * [`pool_notice`]: births and ends of the named objects of a pool.
//! * [`request`]: for each request, the clients that may make it, its cost and its limits.
//! * [`ring`]: the records of the rings in shared memory.
//! * [`etcd_files`]: with which files a pool's etcd is reached encrypted.
//! * [`frame`]: how a message becomes bytes and back; hostile bytes end in an error.
//! * [`composite`]: the data of an object whose parts lie in others.
//! * [`settings`]: every setting of the daemon with its default, unit and text.
//! * [`status`]: the figures of a store, and those of its log.
//! * [`value`]: the header that says what the bytes of an array or a table mean.
//!
//! Deliberately absent: sockets, clocks, randomness, threads.

#![forbid(unsafe_code)]

pub mod cluster_address;
pub mod code;
pub mod composite;
pub mod etcd_files;
pub mod extent;
pub mod fabric;
pub mod frame;
pub mod gather;
pub mod id;
pub mod inline;
pub mod limits;
pub mod message;
pub mod object;
pub mod participation;
pub mod parts;
pub mod pool;
pub mod pool_admin;
pub mod pool_adoption;
pub mod pool_checksum;
pub mod pool_listing;
pub mod pool_notice;
pub mod pool_status;
pub mod region;
pub mod request;
pub mod ring;
pub mod settings;
pub mod status;
pub mod value;

pub use cluster_address::ClusterAddress;
pub use code::Code;
pub use id::{Name, ObjectId};
pub use object::{Attributes, ObjectState, Policy};
