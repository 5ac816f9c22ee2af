//! The connections that were accepted and are not authenticated: few, and not for long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::greeting::{Admitted, Greeting, refuse};
use crate::handshake::{Local, Nonce, Refusal};
use crate::stream::Stream;

/// Connections that are not authenticated. A pool that starts has every node connect to every
/// other one, with a few lanes; what finds no room is told so and tries again.
pub const UNAUTHENTICATED_MAX: usize = 64;

/// The accepted connections whose handshakes are not over, by numbers that are never used twice.
#[derive(Debug)]
pub struct Admission<S> {
    local: Arc<Local>,
    greetings: BTreeMap<u64, Greeting<S>>,
    next: u64,
}

impl<S: Stream> Admission<S> {
    /// No connections yet.
    pub fn new(local: Arc<Local>) -> Self {
        Self { local, greetings: BTreeMap::new(), next: 0 }
    }

    /// Takes a connection; its number. The nonce is random. At the limit the connection is told so
    /// and closed.
    pub fn accept(&mut self, mut stream: S, nonce: Nonce, now: Duration) -> Result<u64, Error> {
        if self.greetings.len() >= UNAUTHENTICATED_MAX {
            refuse(&mut stream, Refusal::Busy);
            return Err(Error::Refused(Refusal::Busy));
        }
        let number = self.next;
        self.next += 1;
        self.greetings.insert(number, Greeting::accept(stream, self.local.clone(), nonce, now));
        Ok(number)
    }

    /// A connection, to wait for its events; `None` when its handshake is over.
    pub fn get(&self, number: u64) -> Option<&Greeting<S>> {
        self.greetings.get(&number)
    }

    /// Goes on with a handshake; `None` when it is not over, or was over before.
    pub fn drive(&mut self, number: u64, now: Duration) -> Option<Result<Admitted<S>, Error>> {
        let driven = self.greetings.get_mut(&number)?.drive(now).transpose()?;
        let greeting = self.greetings.remove(&number)?;
        Some(driven.map(|peer| greeting.into_admitted(peer)))
    }

    /// The numbers of the connections whose time is over; to be driven once more, which ends them.
    pub fn overdue(&self, now: Duration) -> Vec<u64> {
        let overdue = self.greetings.iter().filter(|(_, greeting)| greeting.deadline() <= now);
        overdue.map(|(number, _)| *number).collect()
    }

    /// When the next connection is overdue.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.greetings.values().map(Greeting::deadline).min()
    }
}
