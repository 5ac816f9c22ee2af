//! Tests of the store through its events and effects.

mod adoption;
mod checks;
mod composites;
mod costs;
#[path = "../../../testkit/src/directory.rs"]
#[allow(dead_code, unreachable_pub, reason = "what the fuzz targets need of it as well")]
mod directory;
mod disconnect;
mod eviction;
mod growing;
mod kept;
mod limits;
mod lives;
mod memory;
mod model;
mod open;
mod pooled;
mod quotas;
mod readers;
mod recovery;
mod replace;
mod retained;
mod scopes;
mod seat;
mod shares;
mod spill;
mod unused;
mod waits;
mod world;

use directory::TestDirectory;
use world::{Put, World, id, sizes};

use crate::ports;
