//! The listening socket, and the connections that are not authenticated yet.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plasmon_net::handshake::Local;
use plasmon_net::tcp::TcpListener;
use plasmon_net::tls::SecureStream;
use plasmon_net::{Admission, Admitted, Error};

use super::conns::{Conn, Conns};
use super::stream::LaneStream;
use super::told::Told;
use crate::certificates::Certificates;
use crate::poll::{Interest, Poll};
use crate::random::random;

/// Connections accepted in one turn of the loop.
const ACCEPTS_AT_ONCE: usize = 16;

/// How long nothing is accepted after the system was out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where the peers in lower slots connect.
#[derive(Debug)]
pub(super) struct Acceptor {
    listener: TcpListener,
    number: u64,
    /// When it listens again.
    resumes: Option<Duration>,
    certificates: Option<Certificates>,
    admission: Admission<LaneStream>,
    /// The number of the poll of each handshake, and where it comes from.
    numbers: BTreeMap<u64, (u64, SocketAddr)>,
    told: Told,
}

impl Acceptor {
    /// Listens, with this number of the poll.
    pub(super) fn new(
        listener: TcpListener,
        number: u64,
        local: Arc<Local>,
        certificates: Option<Certificates>,
        poll: &Poll,
    ) -> io::Result<Self> {
        poll.add(&listener, number, Interest::Read)?;
        let (admission, numbers) = (Admission::new(local), BTreeMap::new());
        let (resumes, told) = (None, Told::default());
        Ok(Self { listener, number, resumes, certificates, admission, numbers, told })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.admission.next_deadline().into_iter().chain(self.resumes).min()
    }

    /// Accepts what waits; the connections whose handshakes are over already.
    pub(super) fn accept(
        &mut self,
        now: Duration,
        conns: &mut Conns,
        poll: &Poll,
    ) -> Vec<Admitted<LaneStream>> {
        let mut admitted = Vec::new();
        for _ in 0..ACCEPTS_AT_ONCE {
            let (stream, from) = match self.listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!("connections are not accepted now: {error}");
                    self.resumes = Some(now.saturating_add(ACCEPT_PAUSE));
                    // Else the loop would not rest. It fails only where it was removed before.
                    let _ = poll.remove(&self.listener);
                    break;
                }
            };
            let Ok(nonce) = random::<32>() else { continue };
            let credentials = self.certificates.as_ref().map(Certificates::current);
            let stream = SecureStream::accept(stream, credentials);
            match self.admission.accept(stream, nonce, now) {
                Ok(greeting) => {
                    let number = conns.add(Conn::Accepted(greeting));
                    self.numbers.insert(greeting, (number, from));
                    let stream = self.admission.get(greeting).map(|greeting| greeting.stream());
                    let added = stream.map(|stream| poll.add(stream, number, Interest::Read));
                    if let Some(Err(error)) = added {
                        tracing::warn!("a connection of {from} cannot be waited for: {error}");
                    }
                    admitted.extend(self.drive(greeting, now, conns, poll));
                }
                Err(error) => tracing::debug!("a connection of {from}: {error}"),
            }
        }
        admitted
    }

    /// Goes on with a handshake; the connection once it is over.
    pub(super) fn drive(
        &mut self,
        greeting: u64,
        now: Duration,
        conns: &mut Conns,
        poll: &Poll,
    ) -> Option<Admitted<LaneStream>> {
        let (number, from) = *self.numbers.get(&greeting)?;
        let Some(driven) = self.admission.drive(greeting, now) else {
            if let Some(greeting) = self.admission.get(greeting) {
                let interest = Interest::writing(greeting.wants_write());
                // A connection that cannot be waited for ends at its deadline.
                let _ = poll.change(greeting.stream(), number, interest);
            }
            return None;
        };
        conns.remove(number);
        self.numbers.remove(&greeting);
        match driven {
            Ok(admitted) => {
                // Its lane is waited for elsewhere, with another number.
                let _ = poll.remove(&admitted.stream);
                Some(admitted)
            }
            Err(error) => {
                self.tell(from, &error);
                None
            }
        }
    }

    /// Says why a connection came to nothing; loudly where an operator has to look at it.
    fn tell(&mut self, from: SocketAddr, error: &Error) {
        let (peer, text) = (from.ip().to_string(), error.to_string());
        if error.is_about_encryption() && self.told.is_news(&peer, &text) {
            tracing::warn!("a connection from {from} is not taken: {text}");
        } else {
            tracing::debug!("a connection from {from} ended in its handshake: {text}");
        }
    }

    /// Does everything whose time has come.
    pub(super) fn time_passed(&mut self, now: Duration, conns: &mut Conns, poll: &Poll) {
        if self.resumes.is_some_and(|at| at <= now) {
            let (listener, number) = (&self.listener, self.number);
            let changed = poll.change(listener, number, Interest::Read);
            let added = changed.or_else(|_| poll.add(listener, number, Interest::Read));
            self.resumes = added.is_err().then(|| now.saturating_add(ACCEPT_PAUSE));
        }
        for greeting in self.admission.overdue(now) {
            // Too late for a lane: this ends it.
            drop(self.drive(greeting, now, conns, poll));
        }
    }
}
