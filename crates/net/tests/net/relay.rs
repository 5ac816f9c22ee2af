//! A relay between two sides of a connection that tests stop, release and break.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Bytes pass.
    Forward,
    /// Bytes are taken and not passed on, as by a machine that is half dead.
    Hold,
    /// The relay has ended.
    Closed,
}

#[derive(Debug)]
struct Shared {
    mode: Mutex<Mode>,
    changed: Condvar,
    sockets: Mutex<Vec<TcpStream>>,
}

/// A relay to one address.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// Starts a relay to this address.
    pub(crate) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, changed) = (Mutex::new(Mode::Forward), Condvar::new());
        let shared = Arc::new(Shared { mode, changed, sockets: Mutex::default() });
        let served = shared.clone();
        std::thread::spawn(move || serve(&listener, target, &served));
        Self { address, shared }
    }

    /// From now on no byte passes; connections stay.
    pub(crate) fn hold(&self) {
        self.set(Mode::Hold);
    }

    /// What was held passes now.
    pub(crate) fn release(&self) {
        self.set(Mode::Forward);
    }

    /// Resets all connections, as a machine does that was started again.
    pub(crate) fn reset(&self) {
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            rustix::net::connect_unspec(&socket).unwrap();
        }
    }

    fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Mode::Closed);
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // The relay accepts one more connection, and ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    for one in listener.incoming() {
        if *shared.mode.lock().unwrap() == Mode::Closed {
            return;
        }
        let (one, two) = (one.unwrap(), TcpStream::connect(target).unwrap());
        for (from, to) in [(&one, &two), (&two, &one)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let shared = shared.clone();
            std::thread::spawn(move || copy(from, to, &shared));
        }
        shared.sockets.lock().unwrap().extend([one, two]);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut bytes = [0; 4096];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        let mode = shared.mode.lock().unwrap();
        let mode = *shared.changed.wait_while(mode, |mode| *mode == Mode::Hold).unwrap();
        if count == 0 || mode == Mode::Closed || to.write_all(&bytes[..count]).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}
