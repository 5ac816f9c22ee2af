//! The promises of every transport, for each transport that there is; links second by second; and
//! sockets with a relay between them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, although much of it is no #[test]"
)]

mod conformance;
mod fake;
mod link;
mod refused;
mod relay;
mod relayed;
mod tcp;
mod tls;
