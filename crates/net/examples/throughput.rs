//! How fast content moves over the loopback: our bulk lanes, with `sendfile`, from memory, and
//! encrypted, beside bare loops of `sendfile` and `read`, and of `write` and `read`, in the same
//! run.
//!
//! `cargo run --release -p plasmon-net --example throughput` prints GB/s and CPU seconds per GB of
//! both sides together: the best and the median of the rounds. Receiving always ends in memory
//! whose pages are there, and our receiving side checks every checksum.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that a person runs, and that may stop where it fails"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use plasmon_certs::{Authority, Subject, Validity};
use plasmon_net::segment::{SEGMENT_BYTES_MAX, Segment};
use plasmon_net::tcp::{TcpListener, TcpStream};
use plasmon_net::tls::{Credentials, Pem, SecureStream, uri_of};
use plasmon_net::transport::{Destination, Destinations, Received, Sent, Source};
use plasmon_net::{BulkLane, FramedBulk, Stream};
use rustix::event::{PollFd, PollFlags};

const ROUNDS: usize = 7;
const SIZES: [usize; 2] = [1 << 20, 256 << 20];

/// At least so much is moved in a round, in as many transfers as that takes.
const ROUND_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, Debug)]
enum Way {
    OursFile,
    OursMemory,
    OursEncrypted,
    BareSendfile,
    BareWrite,
}

const WAYS: [(Way, &str); 5] = [
    (Way::OursFile, "ours, sendfile"),
    (Way::OursMemory, "ours, from memory"),
    (Way::OursEncrypted, "ours, encrypted"),
    (Way::BareSendfile, "bare sendfile and read"),
    (Way::BareWrite, "bare write and read"),
];

struct Content {
    memory: Vec<u8>,
    file: File,
}

struct Landing<'a>(&'a mut [u8]);

impl Destinations for Landing<'_> {
    fn find(&mut self, _: &Segment) -> Destination<'_> {
        Destination::Memory(self.0)
    }
}

fn main() {
    for bytes in SIZES {
        let memory: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect();
        let file: OwnedFd =
            rustix::fs::memfd_create("content", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(file);
        file.write_all(&memory).unwrap();
        let content = Content { memory, file };
        println!("{} MiB", bytes >> 20);
        let mut rounds = vec![Vec::new(); WAYS.len()];
        for _ in 0..ROUNDS {
            for (way, found) in WAYS.iter().zip(&mut rounds) {
                found.push(round(way.0, &content));
            }
        }
        for ((_, name), mut found) in WAYS.iter().zip(rounds) {
            found.sort_by(|one, two| two.0.total_cmp(&one.0));
            let ((best, _), (median, cpu)) = (found[0], found[ROUNDS / 2]);
            println!("  {name:24} best {best:5.2}  median {median:5.2} GB/s  {cpu:4.2} CPU s/GB");
        }
    }
}

/// One round: GB/s, and CPU seconds per GB.
fn round(way: Way, content: &Content) -> (f64, f64) {
    let count = ROUND_BYTES.div_ceil(content.memory.len());
    let mut landing = vec![1; content.memory.len()];
    let seconds = match way {
        Way::OursFile | Way::OursMemory => ours(way, content, &mut landing, count, sockets()),
        Way::OursEncrypted => ours(way, content, &mut landing, count, encrypted()),
        Way::BareSendfile | Way::BareWrite => bare(way, content, &mut landing, count),
    };
    assert!(landing == content.memory, "what arrived is what was sent");
    let gigabytes = (count * content.memory.len()) as f64 / 1e9;
    (gigabytes / seconds.0, seconds.1 / gigabytes)
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs both sides; elapsed and CPU seconds.
fn timed(send: impl FnOnce() + Send, receive: impl FnOnce()) -> (f64, f64) {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        scope.spawn(send);
        receive();
    });
    (started.elapsed().as_secs_f64(), cpu_seconds() - cpu)
}

fn ready(stream: &impl AsFd, flags: PollFlags) {
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(stream.as_fd(), flags)], None).unwrap();
}

/// Both sides of a connection.
fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let near = TcpStream::connect(listener.address().unwrap()).unwrap();
    loop {
        if let Some((far, _)) = listener.accept().unwrap() {
            return (near, far);
        }
    }
}

/// Both sides of an encrypted connection.
fn encrypted() -> (SecureStream<TcpStream>, SecureStream<TcpStream>) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let validity = Validity { from: now - 60, until: now + 3600 };
    let authority = Authority::make("bench", validity).unwrap();
    let credentials = |name: &str| {
        let subject = Subject { name, uri: &uri_of("bench", name) };
        let issued = authority.issue(&subject, validity).unwrap();
        let pem = Pem {
            certificate: issued.certificate.as_bytes(),
            key: issued.key.as_bytes(),
            authority: authority.certificate().as_bytes(),
            revoked: None,
        };
        Arc::new(Credentials::new(pem, "bench", name, now).unwrap())
    };
    let (near, far) = sockets();
    let mut near = SecureStream::connect(near, &credentials("a")).unwrap();
    let mut far = SecureStream::accept(far, Some(credentials("b")));
    while let (Err(_), _) | (_, Err(_)) = (near.establish(), far.establish()) {}
    (near, far)
}

fn ours<S: Stream + AsFd + Send>(
    way: Way,
    content: &Content,
    landing: &mut [u8],
    count: usize,
    (near, far): (S, S),
) -> (f64, f64) {
    let (mut sender, mut receiver) = (FramedBulk::new(near), FramedBulk::new(far));
    // The table of checksums is made once for an object, and is not part of sending it.
    let parts = content.memory.chunks(SEGMENT_BYTES_MAX as usize).enumerate();
    let segments: Vec<Segment> = parts
        .map(|(number, part)| Segment {
            transfer: 1,
            number: number as u32,
            bytes: part.len() as u32,
            offset: number as u64 * u64::from(SEGMENT_BYTES_MAX),
            checksum: crc32c::crc32c(part),
        })
        .collect();
    let total = segments.len() * count;
    let send = || {
        for segment in segments.iter().cycle().take(total) {
            let start = segment.offset as usize;
            let source = match way {
                Way::OursFile => {
                    Source::File { file: content.file.as_fd(), offset: segment.offset }
                }
                _ => Source::Memory(&content.memory[start..][..segment.bytes as usize]),
            };
            while sender.send(segment, source).unwrap() != Sent::Whole {
                ready(sender.stream(), PollFlags::OUT);
            }
        }
    };
    timed(send, || {
        let mut landed = 0;
        while landed < total {
            match receiver.receive(&mut Landing(landing)).unwrap() {
                Received::Segment(_) => landed += 1,
                Received::Blocked => ready(receiver.stream(), PollFlags::IN),
                other => panic!("{other:?}"),
            }
        }
    })
}

fn bare(way: Way, content: &Content, landing: &mut [u8], count: usize) -> (f64, f64) {
    let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
    let mut sender = StdStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let bytes = content.memory.len();
    let send = || {
        for _ in 0..count {
            match way {
                Way::BareSendfile => {
                    let mut offset = 0;
                    while offset < bytes as u64 {
                        let left = bytes - offset as usize;
                        rustix::fs::sendfile(&sender, &content.file, Some(&mut offset), left)
                            .unwrap();
                    }
                }
                _ => sender.write_all(&content.memory).unwrap(),
            }
        }
    };
    timed(send, || {
        for _ in 0..count {
            receiver.read_exact(landing).unwrap();
        }
    })
}
