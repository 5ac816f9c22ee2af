//! What the leader proposes: cases as tables, every sequence of events of three nodes, long runs at
//! random, and a pool of a thousand nodes.

mod cases;
mod model;
mod runs;
