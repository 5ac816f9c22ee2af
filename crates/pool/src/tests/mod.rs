//! Tests of a whole node and of many.

mod checksums;
mod drains;
mod history;
mod homed;
mod kept;
mod listings;
mod machine;
mod network;
mod notices;
mod places;
mod puts;
mod random;
mod reach;
mod regions;
mod silent;
mod store;
mod verify;
mod world;
