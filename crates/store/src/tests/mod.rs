//! Tests of the store through its events and effects.

mod adoption;
mod composites;
mod costs;
mod disconnect;
mod durable;
mod durable_puts;
mod eviction;
mod growing;
mod kept;
mod limits;
mod lives;
mod log;
mod memory;
mod model;
mod open;
mod pooled;
mod quotas;
mod readers;
mod recovery;
mod repair;
mod replace;
mod retained;
mod scopes;
mod seat;
mod shares;
mod spill;
mod unused;
mod waits;
mod world;

use world::{Put, World, id, sizes};

use crate::doubles::TestDirectory;
