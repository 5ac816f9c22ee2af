//! Settings of libfabric that it takes from the environment alone, and that cards need.
//!
//! * `FI_MR_CACHE_MAX_COUNT=0`: with its cache of registrations a window that was closed stays
//!   registered, so that a peer that has its key writes into memory that belongs to another object.
//! * `FI_OFI_RXM_USE_SRX=1`: `ofi_rxm` (1.17 and later ones) otherwise gives receive buffers to
//!   endpoints of connections that it has just closed, and the process ends with a fault of memory
//!   access when a peer goes away.
//!
//! The environment of a process can be changed safely only as long as it has one thread, so a
//! program does that at its very beginning ([`prepare`]). Providers with cards are not used in an
//! environment that is another one.

use std::ffi::OsStr;

use plasmon_proto::fabric::Provider;

use crate::error::Error;

/// What has to be set.
pub const ENVIRONMENT: [(&str, &str); 2] =
    [("FI_MR_CACHE_MAX_COUNT", "0"), ("FI_OFI_RXM_USE_SRX", "1")];

/// Sets what is not set, if this process has one thread; whether all of it is set then.
///
/// It is called first in a program that opens endpoints. What is set to another value stays so.
pub fn prepare() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if matches!(tasks, Ok(1)) {
        for (name, value) in ENVIRONMENT {
            if std::env::var_os(name).is_none() {
                // SAFETY: this thread is the only one of the process, so that nothing reads the
                // environment meanwhile, and nothing can start a thread but this one.
                unsafe { std::env::set_var(name, value) };
            }
        }
    }
    missing().is_none()
}

/// The first setting that is another one than it has to be.
fn missing() -> Option<(&'static str, &'static str)> {
    let is_other =
        |(name, value): &(&str, &str)| std::env::var_os(name).as_deref() != Some(OsStr::new(value));
    ENVIRONMENT.into_iter().find(is_other)
}

/// Refuses a provider that cannot be used in this environment.
pub(crate) fn check(provider: Provider) -> Result<(), Error> {
    let needed = Provider::WITH_CARD.contains(&provider).then(missing).flatten();
    needed.map_or(Ok(()), |(name, value)| {
        Err(Error::NoProvider {
            provider: provider.to_string(),
            reason: format!("{name}={value} is not in the environment of this process"),
        })
    })
}
