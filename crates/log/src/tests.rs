//! The log through its public interface: what comes back, what a loss of power leaves, what damage
//! and failures do.
//!
//! Seeds: `PLASMON_LOG_SEEDS` says how many are tried, `PLASMON_LOG_SEED` tries one.

mod checks;
mod cleaning;
mod crashes;
mod damage;
mod failures;
mod files;
mod lies;
mod world;
