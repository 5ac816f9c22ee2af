//! Shared by the tests of the daemon: a daemon for each and a client that speaks the raw
//! protocol, so that it can also speak it wrongly.

#![allow(dead_code, unused_imports, reason = "every test file uses another part of it")]

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::frame::{FromDaemon, decode_from_daemon, encode_request};
use plasmon_proto::message::*;
use plasmon_proto::object::{Level, Sizes, Traits};
use plasmon_proto::ring::{Completion, Put, Record, Submission};
use plasmon_proto::status::Status;
use plasmon_proto::{Code, ObjectId, ObjectState};
use plasmon_shm::{Connection, Doorbell};
pub(crate) use plasmon_testkit::daemon_command;
use plasmon_testkit::memory_is_within_bounds;
pub(crate) use plasmon_testkit::{
    Signal, ends, extents_bytes, id, kill, pattern, process, readable, until,
};
use rustix::fs::SealFlags;
use rustix::process::{Pid, kill_process};
use tempfile::TempDir;

pub(crate) mod raw;

use raw::{Channel, Control, Index, Slot};

/// How long anything may take that must happen. Only a failing test ever waits for it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The program under test.
pub(crate) const PLASMOND: &str = env!("CARGO_BIN_EXE_plasmond");

/// A daemon and its folder.
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) daemon: Option<Child>,
}

/// A daemon with these flags.
pub(crate) fn start(flags: &[&str]) -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let mut desk = Desk { folder, daemon: None };
    desk.launch(flags);
    desk
}

impl Desk {
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("store.sock")
    }

    /// The command of a daemon in this folder.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = daemon_command(Path::new(PLASMOND), &self.socket());
        command.args(["--capacity-bytes", "64m"]).args(flags);
        command
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn launch(&mut self, flags: &[&str]) {
        self.launch_command(self.command(flags));
    }

    pub(crate) fn launch_command(&mut self, mut command: Command) {
        let mut child =
            command.arg("--ready-fd=1").stdout(Stdio::piped()).spawn().expect("plasmond starts");
        let mut output = child.stdout.take().unwrap();
        assert_eq!(read_line(&mut output), self.socket().to_str().unwrap());
        self.daemon = Some(child);
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// A client with a channel.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.connect();
        client.hello(true, None);
        client
    }

    pub(crate) fn status(&self) -> Status {
        self.client().status()
    }

    /// Ends the daemon by a signal, and checks what it leaves behind.
    pub(crate) fn stop(mut self) {
        let status = self.status();
        let keeper = (status.keeper_pid > 0).then(|| process(status.keeper_pid));
        let daemon = process(status.pid);
        kill(status.pid, Signal::TERM);
        match self.daemon.take() {
            Some(mut child) if child.id() == status.pid => {
                assert_eq!(child.wait().unwrap().code(), Some(0));
            }
            _ => assert!(ends(&daemon), "the daemon ends"),
        }
        assert!(keeper.is_none_or(|keeper| ends(&keeper)), "the keeper ends with the store");
        assert!(!self.socket().exists(), "the socket is removed");
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Ends keeper and daemon also when a test failed in between. A daemon that is killed would
        // be started again by its keeper, so it is asked first.
        if let Ok(connection) = Connection::connect(&self.socket()) {
            let mut client = Client::new(connection);
            let is_welcome = client.try_hello(false, None).is_ok();
            if is_welcome
                && !std::thread::panicking()
                && let Ok((Reply::Status(status), _)) = client.try_call(&Request::Status)
            {
                let pids = [status.pid, status.keeper_pid];
                memory_is_within_bounds(&pids, status.capacity_bytes);
            }
            if is_welcome && client.try_call(&Request::Shutdown).is_ok() {
                let _ = client.connection.recv(&mut Vec::new(), true);
            }
        }
        if let Some(mut daemon) = self.daemon.take()
            && matches!(daemon.try_wait(), Ok(None))
        {
            let alive = process(daemon.id());
            let _ = kill_process(Pid::from_child(&daemon), Signal::TERM);
            readable(&alive, DEADLINE);
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    assert!(ends(&process(child.id())), "the process ends");
    child.wait().unwrap()
}

pub(crate) fn read_line(from: &mut impl Read) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while from.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// What a welcome brought.
pub(crate) struct Shared {
    pub(crate) welcome: Welcome,
    pub(crate) control: Control,
    pub(crate) index: Index,
    pub(crate) channel: Option<Channel>,
    pub(crate) doorbell: Option<Doorbell>,
    /// Where clients of one user wake each other.
    pub wake_page: Option<OwnedFd>,
}

/// A connection that speaks the raw protocol.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) shared: Option<Shared>,
    pub(crate) pushes: Vec<Push>,
    number: u64,
}

/// What ended a call.
#[derive(Debug)]
pub(crate) enum CallError {
    Failed(Failure),
    Closed,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Self {
        Self::new(Connection::connect(socket).unwrap())
    }

    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, shared: None, pushes: Vec::new(), number: 0 }
    }

    /// Ends the connection and keeps everything else.
    pub(crate) fn hang_up(&self) {
        self.connection.shutdown().unwrap();
    }

    /// Waits for one frame; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<(FromDaemon, Vec<OwnedFd>)> {
        assert!(readable(&self.connection, DEADLINE), "the daemon says something");
        let mut bytes = Vec::new();
        let received = match self.connection.recv(&mut bytes, true) {
            Ok(received) => received,
            Err(_) => return None,
        };
        assert!(!received.truncated);
        if received.bytes == 0 {
            return None;
        }
        Some((decode_from_daemon(&bytes[..received.bytes]).unwrap(), received.fds))
    }

    pub(crate) fn send(&mut self, request: &Request) -> u64 {
        self.try_send(request).unwrap()
    }

    fn try_send(&mut self, request: &Request) -> std::io::Result<u64> {
        self.number += 1;
        match self.connection.send(&encode_request(self.number, request).unwrap(), &[]) {
            // A connection that is refused is told why before it is closed.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(self.number),
        }
    }

    /// Waits for the answer to a request; pushes are kept.
    pub(crate) fn answer(&mut self, number: u64) -> Result<(Reply, Vec<OwnedFd>), CallError> {
        loop {
            match self.receive() {
                None => return Err(CallError::Closed),
                Some((FromDaemon::Push(push), _)) => self.pushes.push(push),
                Some((FromDaemon::Reply(found, Reply::Failed(failure)), _)) => {
                    assert!(found == number || found == 0);
                    return Err(CallError::Failed(failure));
                }
                Some((FromDaemon::Reply(found, reply), fds)) => {
                    assert_eq!(found, number);
                    return Ok((reply, fds));
                }
            }
        }
    }

    pub(crate) fn try_call(
        &mut self,
        request: &Request,
    ) -> Result<(Reply, Vec<OwnedFd>), CallError> {
        let number = self.try_send(request).map_err(|_| CallError::Closed)?;
        self.answer(number)
    }

    pub(crate) fn call(&mut self, request: &Request) -> Reply {
        self.try_call(request).unwrap().0
    }

    /// The code that a request fails with.
    pub(crate) fn refused(&mut self, request: &Request) -> Code {
        match self.try_call(request) {
            Err(CallError::Failed(failure)) => failure.code,
            other => panic!("{request:?} ended in {other:?}"),
        }
    }

    pub(crate) fn try_hello(
        &mut self,
        channel: bool,
        resume: Option<Resume>,
    ) -> Result<(), CallError> {
        let hello = Hello { version: PROTOCOL_VERSION, name: "test".to_owned(), channel, resume };
        let (reply, fds) = self.try_call(&Request::Hello(hello))?;
        let Reply::Welcome(welcome) = reply else { panic!("{reply:?}") };
        let mut fds = fds.into_iter();
        let control = Control(fds.next().unwrap());
        let index = Index { fd: fds.next().unwrap(), table: welcome.index };
        self.shared = Some(Shared {
            welcome,
            control,
            index,
            channel: fds.next().map(Channel),
            doorbell: fds.next().map(Doorbell::adopt),
            wake_page: fds.next(),
        });
        Ok(())
    }

    pub(crate) fn hello(&mut self, channel: bool, resume: Option<Resume>) {
        self.try_hello(channel, resume).unwrap();
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.shared.as_ref().unwrap()
    }

    pub(crate) fn channel(&self) -> &Channel {
        self.shared().channel.as_ref().unwrap()
    }

    pub(crate) fn token(&self) -> u64 {
        self.shared().welcome.token
    }

    pub(crate) fn status(&mut self) -> Status {
        match self.call(&Request::Status) {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn states(&mut self, ids: &[ObjectId]) -> Vec<ObjectState> {
        match self.call(&Request::States { ids: ids.to_vec() }) {
            Reply::States(states) => states,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lease(&mut self, bytes: u64) -> (Range, OwnedFd) {
        let wanted = Request::Lease { bytes_min: bytes, bytes_wanted: bytes };
        let (reply, mut fds) = self.try_call(&wanted).unwrap();
        let Reply::Lease(granted) = reply else { panic!("{reply:?}") };
        (granted.range, fds.remove(0))
    }

    pub(crate) fn create(&mut self, id: ObjectId, data: u64, strict: bool) -> (Range, OwnedFd) {
        let sizes = Sizes { data, ..Sizes::default() };
        let wanted = Request::Create { id, sizes, traits: Traits::default(), strict };
        let (reply, mut fds) = self.try_call(&wanted).unwrap();
        let Reply::Created(granted) = reply else { panic!("{reply:?}") };
        (granted.range, fds.remove(0))
    }

    /// Puts a record into the ring and rings if the daemon sleeps.
    pub(crate) fn submit(&self, submission: &Submission) -> u64 {
        self.submit_raw(&submission.encode())
    }

    pub(crate) fn submit_raw(&self, record: &Record) -> u64 {
        let position = self.channel().submit(record);
        self.ring();
        position
    }

    pub(crate) fn ring(&self) {
        self.shared().doorbell.as_ref().unwrap().ring().unwrap();
    }

    pub(crate) fn put_in(&self, id: ObjectId, range: &Range, fd: impl AsFd, data: &[u8]) -> u64 {
        self.put_with(id, range, fd, data, Traits::default())
    }

    pub(crate) fn put_with(
        &self,
        id: ObjectId,
        range: &Range,
        fd: impl AsFd,
        data: &[u8],
        traits: Traits,
    ) -> u64 {
        write_at(&fd, range.offset, data);
        self.keep_writers_out(&fd);
        let sizes = Sizes { data: data.len() as u64, ..Sizes::default() };
        self.submit(&Submission::Put(Put { id, placement: range.placement(), sizes, traits }))
    }

    /// At level leased: has the kernel refuse new writers, as the daemon wants it.
    pub(crate) fn keep_writers_out(&self, fd: impl AsFd) {
        if self.shared().welcome.level == Level::Leased {
            // What a test made impossible is what it is about.
            let _ = rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE);
        }
    }

    /// Leases memory and puts an object into it; it is applied when this returns.
    pub(crate) fn put(&mut self, id: ObjectId, data: &[u8]) {
        let (range, fd) = self.lease(data.len().next_multiple_of(64).max(64) as u64);
        let position = self.put_in(id, &range, &fd, data);
        assert_eq!(self.outcome(position), None, "the put is not refused");
    }

    /// Waits until a submission is applied, and returns why it was refused if it was.
    pub(crate) fn outcome(&self, position: u64) -> Option<Code> {
        self.channel().applied(position);
        self.channel().refusal(position)
    }

    pub(crate) fn next_completion(&self) -> Option<Completion> {
        self.channel().next_completion()
    }

    /// Finds a visible object in the index; follows the index when it grew.
    pub(crate) fn find(&mut self, id: &ObjectId) -> Option<Slot> {
        self.slots(id).into_iter().find(|slot| !slot.hidden)
    }

    /// Every slot with an incarnation of the id, visible or hidden.
    pub(crate) fn slots(&mut self, id: &ObjectId) -> Vec<Slot> {
        while self.shared().control.table() != self.shared().index.table.number {
            let (reply, mut fds) = self.try_call(&Request::Index).unwrap();
            let Reply::Index(table) = reply else { panic!("{reply:?}") };
            self.shared.as_mut().unwrap().index = Index { fd: fds.remove(0), table };
        }
        self.shared().index.slots(id)
    }

    pub(crate) fn extent(&mut self, extent: ExtentId, write: bool) -> OwnedFd {
        let wanted = Request::Extents { extents: vec![extent], write };
        let (reply, mut fds) = self.try_call(&wanted).unwrap();
        assert!(matches!(&reply, Reply::Extents(sizes) if sizes[0].is_some()), "{reply:?}");
        fds.remove(0)
    }

    /// The bytes of an object, read through a read-only descriptor.
    pub(crate) fn read(&mut self, id: &ObjectId) -> Option<Vec<u8>> {
        let image = self.find(id)?;
        let fd = self.extent(image.extent, false);
        Some(read_at(&fd, image.offset, image.data as usize))
    }

    pub(crate) fn wait_for(&mut self, ids: &[ObjectId]) -> u64 {
        self.send(&Request::Wait {
            ids: ids.to_vec(),
            count: 0,
            timeout_ms: Some(DEADLINE.as_millis() as u64),
            beyond_end: false,
        })
    }

    /// Whether the connection is closed, whatever was said before.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.receive().is_some() {}
        true
    }
}

pub(crate) fn write_at(fd: impl AsFd, offset: u64, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::io::pwrite(&fd, &bytes[done..], offset + done as u64).unwrap();
    }
}

pub(crate) fn read_at(fd: impl AsFd, offset: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let got = rustix::io::pread(&fd, &mut bytes[done..], offset + done as u64).unwrap();
        assert!(got > 0, "the extent ends early");
        done += got;
    }
    bytes
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn null() -> File {
    File::open("/dev/null").unwrap()
}

pub(crate) fn borrowed(fd: &OwnedFd) -> BorrowedFd<'_> {
    fd.as_fd()
}
