//! Brings parts of spilled copies into memory, on a thread of its own: that waits for a disk.
//!
//! What the core sends itself are few bytes; a mover reads what it sends over a bulk lane.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use plasmon_proto::parts::Span;

use crate::memory::{SharedSource, Source};

/// Takes the number of a job, and the parts; `None` when they cannot be read.
pub(crate) type LoadSink = Arc<dyn Fn(u64, Option<SharedSource>) + Send + Sync>;

/// Parts that are wanted of a copy, which fit memory.
pub(crate) struct LoadJob {
    pub(crate) number: u64,
    pub(crate) source: SharedSource,
    pub(crate) spans: Vec<Span>,
}

/// The thread that reads, once there is something to read. It ends after what it was asked for.
pub(crate) struct Loader {
    sink: LoadSink,
    jobs: Option<Sender<LoadJob>>,
}

impl Loader {
    pub(crate) fn new(sink: LoadSink) -> Self {
        Self { sink, jobs: None }
    }

    /// Has parts read; false when nothing can be read now.
    pub(crate) fn load(&mut self, job: LoadJob) -> bool {
        if self.jobs.is_none() {
            let (jobs, receiver) = channel();
            let sink = self.sink.clone();
            let run = move || run(&receiver, &sink);
            let thread = std::thread::Builder::new().name("pool-loader".to_owned()).spawn(run);
            if let Err(error) = thread {
                tracing::warn!(%error, "parts of a spilled copy cannot be read");
                return false;
            }
            self.jobs = Some(jobs);
        }
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

fn run(jobs: &Receiver<LoadJob>, sink: &LoadSink) {
    while let Ok(LoadJob { number, source, spans }) = jobs.recv() {
        let parts = LoadedParts::read(&source, spans);
        drop(source);
        sink(number, parts.map(|parts| Arc::new(parts) as SharedSource));
    }
}

/// Parts of a copy, at the places that they have in it. Nothing else of it is there.
struct LoadedParts {
    /// All bytes of the copy.
    bytes: u64,
    /// The spans in order, each with its content.
    parts: Vec<(Span, Vec<u8>)>,
}

impl LoadedParts {
    fn read(source: &SharedSource, spans: Vec<Span>) -> Option<Self> {
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans {
            let mut content = Vec::new();
            let length = usize::try_from(span.bytes).ok()?;
            if !source.gather(span.offset, length, &mut content) {
                return None;
            }
            parts.push((span, content));
        }
        Some(Self { bytes: source.bytes(), parts })
    }
}

impl Source for LoadedParts {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        let at = self.parts.partition_point(|(span, _)| span.offset <= offset);
        let found = at.checked_sub(1).and_then(|at| self.parts.get(at));
        let part = found.and_then(|(span, content)| {
            let start = usize::try_from(offset - span.offset).ok()?;
            content.get(start..start.checked_add(bytes)?)
        });
        part.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use plasmon_testkit::{Random, TEST_TIMEOUT};

    use super::*;

    struct OnDisk(Vec<u8>);

    impl Source for OnDisk {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn part(&self, _: u64, _: usize) -> &[u8] {
            &[]
        }

        fn gather(&self, offset: u64, bytes: usize, into: &mut Vec<u8>) -> bool {
            into.clear();
            let piece = self.0.get(offset as usize..).and_then(|from| from.get(..bytes));
            into.extend_from_slice(piece.unwrap_or_default());
            into.len() == bytes
        }

        fn is_in_memory(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_parts_that_were_asked_for_are_there_and_nothing_else() {
        let (sender, loaded) = sync_channel(1);
        let mut loader =
            Loader::new(Arc::new(move |number, parts| sender.send((number, parts)).unwrap()));
        let mut dice = Random::new(9);
        for number in 0..100 {
            let content: Vec<u8> = (0..1000).map(|_| dice.below(256) as u8).collect();
            let (mut spans, mut at) = (Vec::new(), dice.below(50));
            while at < 900 {
                let bytes = 1 + dice.below(90);
                spans.push(Span { offset: at, bytes });
                at += bytes + dice.below(200);
            }
            let source = Arc::new(OnDisk(content.clone()));
            assert!(loader.load(LoadJob { number, source, spans: spans.clone() }));
            let (found, parts) = loaded.recv_timeout(TEST_TIMEOUT).unwrap();
            let parts = parts.unwrap();
            assert_eq!((found, parts.bytes()), (number, 1000));
            assert!(parts.is_in_memory());
            for Span { offset, bytes } in &spans {
                let wanted = &content[*offset as usize..][..*bytes as usize];
                assert_eq!(parts.part(*offset, wanted.len()), wanted);
                assert_eq!(parts.part(*offset, wanted.len() + 1), b"", "beyond the span");
            }
            assert_eq!(parts.part(spans[0].offset.wrapping_sub(1), 1), b"");
        }
        let beyond = vec![Span { offset: 0, bytes: 4 }, Span { offset: 999, bytes: 2 }];
        let source = Arc::new(OnDisk(vec![1; 1000]));
        assert!(loader.load(LoadJob { number: 7, source, spans: beyond }));
        assert!(loaded.recv_timeout(TEST_TIMEOUT).unwrap().1.is_none());
    }
}
