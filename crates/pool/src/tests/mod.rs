//! Tests of a whole node and of many.

mod caches;
mod checksums;
mod demotions;
mod drains;
mod history;
mod homed;
mod kept;
mod listings;
mod machine;
mod network;
mod notices;
mod pieces;
mod places;
mod puts;
mod questions;
mod random;
mod reach;
mod reads;
mod region_model;
mod region_runs;
mod regions;
mod silent;
mod spread;
mod store;
mod verify;
mod world;
