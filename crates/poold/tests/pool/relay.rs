//! A machine between two nodes, which cuts connections that carry much.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// So many bytes of a connection are passed on before it is cut: more than any control lane of the
/// tests carries, less than the content of their objects.
const BYTES_MAX: usize = 3 << 20;

/// Passes on what comes to an address. Its threads end with their connections, or the process.
#[derive(Clone)]
pub(crate) struct Relay {
    address: SocketAddr,
    target: Arc<OnceLock<SocketAddr>>,
    cuts_left: Arc<AtomicUsize>,
}

impl Relay {
    /// So many connections are cut.
    pub(crate) fn start(cuts: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (target, cuts_left) = (Arc::default(), Arc::new(AtomicUsize::new(cuts)));
        let relay = Self { address, target, cuts_left };
        let of_thread = relay.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let far = TcpStream::connect(of_thread.target.wait());
                let (Ok(near), Ok(far)) = (stream, far) else { continue };
                let clones = (near.try_clone().unwrap(), far.try_clone().unwrap());
                for (from, to) in [(near, far), (clones.1, clones.0)] {
                    let relay = of_thread.clone();
                    thread::spawn(move || relay.pass(from, to));
                }
            }
        });
        relay
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where everything goes.
    pub(crate) fn set_target(&self, target: SocketAddr) {
        self.target.set(target).unwrap();
    }

    /// How many connections are still to be cut.
    pub(crate) fn cuts_left(&self) -> usize {
        self.cuts_left.load(Ordering::Relaxed)
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let (mut bytes, mut passed) = ([0; 64 << 10], 0);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            passed += count;
            let order = Ordering::Relaxed;
            let less = |left: usize| left.checked_sub(1);
            let is_cut =
                passed > BYTES_MAX && self.cuts_left.fetch_update(order, order, less).is_ok();
            if is_cut || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // Both sides see the end, whichever of them it came from.
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
