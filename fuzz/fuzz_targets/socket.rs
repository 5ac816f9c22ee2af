//! The daemon itself, in this process: whatever clients send on their sockets, write into their
//! channels, and do to the descriptors that they share with it or pass to it, it goes on answering
//! others.

#![no_main]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::{Input, poke, requests};
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::limits::{FRAME_FDS_MAX, PINS_PER_CLIENT_MAX, SUBMISSIONS};
use plasmon_proto::message::{Hello, PROTOCOL_VERSION, Reply, Request, Resume};
use plasmon_shm::channel::CHANNEL_BYTES;
use plasmon_shm::{Connection, Doorbell, Message};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, memfd_create,
};
use rustix::io::Errno;

/// The daemon answers in microseconds; so long means never.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often a client that is told nothing tries again.
const RETRY: Duration = Duration::from_millis(1);

const CLIENTS: usize = 8;

/// Words of a channel that a client writes: docs/formats/shared-memory.md.
const CURSORS: [u64; 6] = [64, 192, 320, 448, 512, 576];
const SUBMISSIONS_AT: u64 = 4096;
const LEDGER_AT: u64 = SUBMISSIONS_AT + 262_144 + 16_384 + 4096;

/// A daemon and a client that it must never fail.
struct Store {
    socket: PathBuf,
    probe: Mutex<(Connection, u64)>,
}

static STORE: OnceLock<Store> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let store = STORE.get_or_init(start);
    let mut input = Input::new(bytes);
    let mut clients: [Option<Client>; CLIENTS] = Default::default();
    while !input.is_empty() {
        let client = &mut clients[input.below(CLIENTS)];
        match client {
            None => *client = Client::connect(&store.socket, &mut input),
            Some(known) => {
                if !known.act(&mut input) {
                    *client = None;
                }
            }
        }
    }
    drop(clients);
    store.must_answer();
});

/// A client that may do anything.
struct Client {
    connection: Connection,
    channel: Option<(OwnedFd, Doorbell)>,
    /// What else came with the welcome: the control page, the index table, the wake page.
    pages: Vec<OwnedFd>,
    number: u64,
}

impl Client {
    /// Connects and says some kind of hello.
    fn connect(socket: &Path, input: &mut Input<'_>) -> Option<Self> {
        let connection = Connection::connect(socket).ok()?;
        let hello = Hello {
            version: if input.below(16) == 0 { input.byte().into() } else { PROTOCOL_VERSION },
            name: "x".repeat(if input.below(16) == 0 { 300 } else { 4 }),
            channel: input.below(4) != 0,
            resume: (input.below(8) == 0).then(|| Resume {
                token: input.word(),
                leases: Vec::new(),
                creating: Vec::new(),
            }),
        };
        let mut client = Self { connection, channel: None, pages: Vec::new(), number: 0 };
        if input.below(16) != 0 {
            client.send(&Request::Hello(hello), &[]);
            let (reply, mut fds) = client.answer()?;
            if !matches!(reply, Reply::Welcome(_)) {
                return None;
            }
            // Control page, index table, channel, doorbell, and perhaps the wake page.
            client.pages.extend(fds.drain(fds.len().min(4)..));
            if let (4, Some(doorbell), Some(channel)) = (fds.len(), fds.pop(), fds.pop()) {
                client.channel = Some((channel, Doorbell::adopt(doorbell)));
            }
            client.pages.extend(fds);
        }
        Some(client)
    }

    /// Does something; whether the client goes on.
    fn act(&mut self, input: &mut Input<'_>) -> bool {
        match input.below(13) {
            0 => self.send_bytes(input.bytes(64), &[]),
            1 => {
                let mut frame = frame::encode_request(self.number, &Request::Index)
                    .expect("a request without content fits");
                frame.truncate(frame::HEADER_BYTES);
                let count = input.below(128);
                frame.extend_from_slice(input.bytes(count));
                self.send_bytes(&frame, &[]);
            }
            2..=5 => self.send(&requests::any(input, &[]), &[]),
            6 => {
                let fds: Vec<OwnedFd> =
                    (0..input.below(FRAME_FDS_MAX + 2)).map(|_| self.descriptor(input)).collect();
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                self.send(&requests::any(input, &[]), &fds);
            }
            7 | 8 => self.scribble(input),
            9 => self.change_bell(input),
            10 => self.add_seals(input),
            _ => return false,
        }
        true
    }

    /// A descriptor of some kind, to be passed.
    fn descriptor(&self, input: &mut Input<'_>) -> OwnedFd {
        const THERE: &str = "there are descriptors";
        match input.below(7) {
            0 => memfd_create("plasmon-fuzz", MemfdFlags::ALLOW_SEALING).expect(THERE),
            1 => eventfd(0, EventfdFlags::empty()).expect(THERE),
            2 => UnixStream::pair().expect(THERE).0.into(),
            3 => self.connection.as_fd().try_clone_to_owned().expect(THERE),
            4 => rustix::pipe::pipe().expect(THERE).1,
            5 if !self.pages.is_empty() => self.pages[0].try_clone().expect(THERE),
            _ => File::open("/dev/null").expect(THERE).into(),
        }
    }

    /// Changes how the doorbell behaves for every holder, or takes its counter away.
    fn change_bell(&self, input: &mut Input<'_>) {
        let Some((_, doorbell)) = &self.channel else { return };
        match input.below(3) {
            0 => drop(fcntl_setfl(doorbell, OFlags::empty())),
            1 => drop(fcntl_setfl(doorbell, OFlags::NONBLOCK | OFlags::APPEND)),
            _ => {
                let mut ready = [PollFd::new(doorbell, PollFlags::IN)];
                // Only what is there: this thread must not wait for itself.
                if poll(&mut ready, Some(&Timespec::default())) == Ok(1) {
                    let flags = fcntl_getfl(doorbell).unwrap_or(OFlags::empty());
                    let _ = fcntl_setfl(doorbell, flags | OFlags::NONBLOCK);
                    let _ = rustix::io::read(doorbell, &mut [0; 8]);
                    let _ = fcntl_setfl(doorbell, flags);
                }
            }
        }
    }

    /// Tries to seal what the daemon shares with others.
    fn add_seals(&self, input: &mut Input<'_>) {
        let shared = self.pages.iter().chain(self.channel.as_ref().map(|(channel, _)| channel));
        let Some(file) = shared.cycle().nth(input.below(4)) else { return };
        let seals = SealFlags::from_bits_truncate(u32::from(input.byte()));
        assert!(fcntl_add_seals(file, seals).is_err(), "a client adds no seals");
    }

    /// Writes into the channel, and rings.
    fn scribble(&self, input: &mut Input<'_>) {
        let Some((channel, doorbell)) = &self.channel else { return };
        match input.below(5) {
            4 => {
                let at = input.word() % (CHANNEL_BYTES / 8) * 8;
                poke(channel.as_fd(), at, input.word());
            }
            0 => poke(channel.as_fd(), CURSORS[input.below(CURSORS.len())], input.word()),
            1 | 2 => {
                let at = input.below(8) as u64 % SUBMISSIONS as u64;
                for word in 0..8 {
                    poke(channel.as_fd(), SUBMISSIONS_AT + at * 64 + word * 8, input.word());
                }
                poke(channel.as_fd(), CURSORS[0], at + 1);
            }
            _ => {
                let entry = input.word() % PINS_PER_CLIENT_MAX as u64;
                poke(channel.as_fd(), LEDGER_AT + entry * 8, input.word());
            }
        }
        // Both ends are ours; a full eventfd has rung already.
        let _ = doorbell.ring();
    }

    fn send(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) {
        self.number += 1;
        let frame = frame::encode_request(self.number, request).expect("the requests are short");
        self.send_bytes(&frame, fds);
    }

    fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let shutdown = matches!(frame::decode_request(bytes), Ok((_, Request::Shutdown)));
        if !shutdown {
            // The daemon may have had enough of this client, or be behind with it.
            let _ = self.connection.try_send(bytes, fds);
        }
    }

    fn answer(&self) -> Option<(Reply, Vec<OwnedFd>)> {
        let mut bytes = Vec::new();
        let received = receive(&self.connection, &mut bytes)?;
        match frame::decode_from_daemon(&bytes) {
            Ok(FromDaemon::Reply(_, reply)) => Some((reply, received.fds)),
            other => panic!("the daemon sent {other:?}"),
        }
    }
}

/// The next message, `None` when the daemon closed the connection.
fn receive(connection: &Connection, bytes: &mut Vec<u8>) -> Option<Message> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(connection, PollFlags::IN)], Some(&timeout)) {
            // The fuzzer's own clock interrupts a waiting thread.
            Err(Errno::INTR) => {}
            Ok(0) => panic!("the daemon does not answer"),
            Ok(_) => break,
            Err(error) => panic!("the connection cannot be watched: {error}"),
        }
    }
    connection.recv(bytes, true).ok().filter(|received| received.bytes > 0)
}

impl Store {
    fn must_answer(&self) {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        let (connection, number) = &mut *probe;
        *number += 1;
        let frame = frame::encode_request(*number, &Request::Status).expect("it is short");
        connection.send(&frame, &[]).expect("the daemon is there");
        let mut bytes = Vec::new();
        receive(connection, &mut bytes).expect("the daemon is there");
        match frame::decode_from_daemon(&bytes) {
            Ok(FromDaemon::Reply(answered, Reply::Status(status))) => {
                assert_eq!(answered, *number);
                let held = status.used_bytes + status.leased_bytes;
                assert!(held <= status.capacity_bytes, "{status:?}");
            }
            other => panic!("the daemon sent {other:?}"),
        }
    }
}

/// Starts the daemon in a thread; a panic in it ends this process, which is the finding.
fn start() -> Store {
    let folder = tempfile::tempdir().expect("there is a temporary folder").keep();
    let socket = folder.join("store.sock");
    let flag = format!("--socket={}", socket.display());
    let flags = ["plasmond", &flag, "--capacity-bytes=16m", "--keeper=false", "--log=error"];
    let arguments = flags.iter().map(Into::into).collect();
    thread::spawn(move || {
        let code = plasmon_daemon::run(arguments);
        panic!("the daemon ended with {code:?}");
    });
    let deadline = Instant::now() + TIMEOUT;
    let connection = loop {
        match Connection::connect(&socket) {
            Ok(connection) => break connection,
            Err(error) => assert!(Instant::now() < deadline, "no daemon: {error}"),
        }
        thread::park_timeout(RETRY);
    };
    let mut probe = Client { connection, channel: None, pages: Vec::new(), number: 0 };
    let hello =
        Hello { version: PROTOCOL_VERSION, name: "probe".to_owned(), channel: false, resume: None };
    probe.send(&Request::Hello(hello), &[]);
    assert!(matches!(probe.answer(), Some((Reply::Welcome(_), _))));
    Store { socket, probe: Mutex::new((probe.connection, 1)) }
}
