//! Reads copies for checksums.
//!
//! No more than [`BYTES_PER_S`] are read: programs need the memory, the disk and the processor as
//! well. Small copies in memory are read at once, by the thread that has them, as long as that does
//! not read more; all others by a thread of their own, one after the other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plasmon_pool::event::{CopyPart, CopyRead};
use plasmon_pool::limits::{CHECKSUM_PAGE_BYTES, INLINE_BYTES_MAX};
use plasmon_proto::Attributes;
use plasmon_proto::limits::{ATTRIBUTES_BYTES_MAX, SEGMENT_BYTES};

use crate::memory::SharedSource;

/// How much is read in a second: a page of checksums.
const BYTES_PER_S: u64 = CHECKSUM_PAGE_BYTES;

/// A copy counts as so many bytes at least, for what it takes to find it.
const COPY_BYTES_MIN: u64 = 4 << 10;

/// Takes the number of a job and what was read; `None` when it cannot be read.
pub(crate) type ReadSink = Arc<dyn Fn(u64, Option<CopyRead>) + Send + Sync>;

/// A copy that is to be read.
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) source: SharedSource,
    pub(crate) part: CopyPart,
}

/// The thread that reads, once there is something to read.
pub(crate) struct Checker {
    sink: ReadSink,
    jobs: Option<Sender<Job>>,
    pace: Arc<Pace>,
    is_over: Arc<AtomicBool>,
}

/// When the next bytes may be read.
#[derive(Debug)]
struct Pace(Mutex<Instant>);

impl Pace {
    /// Takes a turn to read so many bytes; how long it is until then.
    fn take(&self, bytes: u64) -> Duration {
        let mut free_at = self.lock();
        let now = Instant::now();
        let begin = free_at.max(now);
        *free_at = begin + time_of(bytes);
        begin - now
    }

    /// Takes a turn if there is one now; whether there is.
    fn take_now(&self, bytes: u64) -> bool {
        let mut free_at = self.lock();
        let now = Instant::now();
        let is_free = *free_at <= now;
        if is_free {
            *free_at = now + time_of(bytes);
        }
        is_free
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long it may take at least to read so many bytes of a copy.
fn time_of(bytes: u64) -> Duration {
    let bytes = bytes.max(COPY_BYTES_MIN);
    Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_S)
}

impl Checker {
    pub(crate) fn new(sink: ReadSink) -> Self {
        let pace = Arc::new(Pace(Mutex::new(Instant::now())));
        Self { sink, jobs: None, pace, is_over: Arc::default() }
    }

    /// Reads a copy, or has it read: what was read, if that is known at once.
    pub(crate) fn read(&mut self, job: Job) -> io::Result<Option<Option<CopyRead>>> {
        let bytes = job.part.end - job.part.begin;
        let is_small = bytes <= INLINE_BYTES_MAX && job.source.is_in_memory();
        if is_small && self.pace.take_now(bytes) {
            return Ok(Some(read(&job.source, &job.part, |_| true)));
        }
        let gone = || io::Error::other("the thread that reads copies has ended");
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|_| gone())?,
            None => {
                let (jobs, receiver) = channel();
                let (sink, pace) = (self.sink.clone(), self.pace.clone());
                let is_over = self.is_over.clone();
                let run = move || run(&receiver, &sink, &pace, &is_over);
                std::thread::Builder::new().name("pool-checker".to_owned()).spawn(run)?;
                jobs.send(job).map_err(|_| gone())?;
                self.jobs = Some(jobs);
            }
        }
        Ok(None)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        // The thread sees it before the next segment. Nothing waits for what it reads.
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn run(jobs: &Receiver<Job>, sink: &ReadSink, pace: &Pace, is_over: &AtomicBool) {
    while let Ok(Job { number, source, part }) = jobs.recv() {
        let found = read(&source, &part, |bytes| {
            std::thread::sleep(pace.take(bytes));
            !is_over.load(Ordering::Relaxed)
        });
        // The pin goes before anything waits for the answer.
        drop(source);
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        sink(number, found);
    }
}

/// Reads a part of a copy. `go_on` is told how many bytes come next, and says whether to go on.
fn read(
    source: &SharedSource,
    part: &CopyPart,
    mut go_on: impl FnMut(u64) -> bool,
) -> Option<CopyRead> {
    let CopyPart { begin, end, bytes, mut crc, .. } = *part;
    let mut gathered = Vec::new();
    let mut at = begin;
    while at < end {
        // No source is asked for more than a segment.
        let next = end.min((at / SEGMENT_BYTES + 1) * SEGMENT_BYTES);
        if !go_on(next - at) {
            return None;
        }
        crc = crc32c::crc32c_append(crc, piece(source, at, next, &mut gathered)?);
        at = next;
    }
    if end < bytes {
        return Some(CopyRead { crc: Some(crc), name: None, logged: None });
    }
    let attributes = source.bytes().checked_sub(bytes)?;
    if attributes > ATTRIBUTES_BYTES_MAX as u64 {
        return None;
    }
    let attributes = match attributes {
        0 => Attributes::default(),
        _ => Attributes::decode(whole(source, bytes, &mut gathered)?).ok()?,
    };
    Some(CopyRead { crc: Some(crc), name: attributes.name, logged: None })
}

/// What lies from there to the end.
fn whole<'a>(source: &'a SharedSource, from: u64, into: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let mut all = Vec::new();
    let (mut at, end) = (from, source.bytes());
    while at < end {
        let next = end.min((at / SEGMENT_BYTES + 1) * SEGMENT_BYTES);
        all.extend_from_slice(piece(source, at, next, into)?);
        at = next;
    }
    *into = all;
    Some(into)
}

/// These bytes of a source, which are of one segment.
fn piece<'a>(
    source: &'a SharedSource,
    begin: u64,
    end: u64,
    gathered: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let length = usize::try_from(end - begin).ok()?;
    let part = source.part(begin, length);
    if part.len() == length {
        return Some(part);
    }
    source.gather(begin, length, gathered).then_some(gathered.as_slice())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use plasmon_pool::Birth;
    use plasmon_proto::limits::SEGMENT_BYTES;
    use plasmon_proto::{Name, ObjectId};
    use plasmon_testkit::{Random, TEST_TIMEOUT};

    use super::*;
    use crate::memory::Source;
    use plasmon_cluster::Slot;

    /// Bytes in memory, or in a file.
    struct Bytes(Vec<u8>, bool);

    impl Source for Bytes {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn part(&self, offset: u64, bytes: usize) -> &[u8] {
            if self.1 { &self.0[offset as usize..][..bytes] } else { &[] }
        }

        fn gather(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) -> bool {
            assert!(!self.1 && bytes as u64 <= SEGMENT_BYTES);
            into.clear();
            let piece = self.0.get(offset as usize..).and_then(|from| from.get(..bytes));
            into.extend_from_slice(piece.unwrap_or_default());
            into.len() == bytes
        }

        fn is_in_memory(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn copies_are_read_in_any_parts_wherever_they_are() {
        let mut dice = Random::new(5);
        let (sender, answers) = sync_channel(1);
        let mut checker = Checker::new(Arc::new(move |number, read| {
            sender.send((number, read)).unwrap();
        }));
        let birth = Birth { slot: Slot(1), boot: 2, serial: 3 };
        let name = Name::new("@prod", "x").unwrap();
        let tail = Attributes { name: Some(name.clone()), ..Attributes::default() }.of_copy(birth);
        for number in 0..60 {
            let bytes = [0, 1, 1 << 16, SEGMENT_BYTES, 3 * SEGMENT_BYTES][dice.size_below(5)];
            let bytes = bytes + dice.below(3);
            let content: Vec<u8> = (0..bytes).map(|_| dice.below(256) as u8).collect();
            let all = [content.as_slice(), &tail.encode()].concat();
            let source: SharedSource = Arc::new(Bytes(all, dice.percent(50)));
            let (mut begin, mut crc, mut last) = (0, 0, None);
            while last.is_none() {
                let end = (begin + dice.below(2 * SEGMENT_BYTES)).min(bytes);
                let id = ObjectId::pooled([7; 12], None);
                let is_logged = false;
                let part = CopyPart { id, birth, begin, end, bytes, crc, is_logged };
                let job = Job { number, source: source.clone(), part };
                let read = checker.read(job).unwrap().unwrap_or_else(|| {
                    let (answered, read) = answers.recv_timeout(TEST_TIMEOUT).unwrap();
                    assert_eq!(answered, number);
                    read
                });
                let read = read.unwrap();
                (begin, crc) = (end, read.crc.unwrap());
                last = (end == bytes).then_some(read.name);
            }
            assert_eq!((crc, last.flatten()), (crc32c::crc32c(&content), Some(name.clone())));
        }
    }

    #[test]
    fn turns_come_no_faster_than_bytes_may_be_read() {
        let begin = Instant::now();
        let pace = Pace(Mutex::new(begin));
        assert!(pace.take_now(BYTES_PER_S));
        assert!(!pace.take_now(1), "the second is not over");
        let last = (0..1000).fold(Duration::ZERO, |_, _| pace.take(1));
        let since = begin.elapsed();
        assert!(last + since >= Duration::from_secs(1) + time_of(1) * 999);
        assert_eq!(time_of(0), time_of(COPY_BYTES_MIN));
    }

    #[test]
    fn what_is_not_all_there_is_not_read() {
        let (sender, answers) = sync_channel(1);
        let mut checker =
            Checker::new(Arc::new(move |number, read| sender.send((number, read)).unwrap()));
        let (id, birth) =
            (ObjectId::pooled([7; 12], None), Birth { slot: Slot(1), boot: 2, serial: 3 });
        for (bytes, there) in [(5, 4), (SEGMENT_BYTES + 5, SEGMENT_BYTES)] {
            let (begin, is_logged) = (0, false);
            let part = CopyPart { id, birth, begin, end: bytes, bytes, crc: 0, is_logged };
            let source = Arc::new(Bytes(vec![1; there as usize], false));
            assert_eq!(checker.read(Job { number: bytes, source, part }).unwrap(), None);
            assert_eq!(answers.recv_timeout(TEST_TIMEOUT).unwrap(), (bytes, None));
        }
    }
}
