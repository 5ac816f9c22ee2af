//! The pool daemon's side of etcd: how the node of one machine takes part in a pool.
//!
//! * [`identity`]: what the node keeps on its disk.
//! * [`membership`]: its lease, the map and its turn to lead, in etcd.
//! * [`clock`]: the one clock of all of them.

#![forbid(unsafe_code)]

pub mod clock;
pub mod identity;
pub mod membership;
mod random;
