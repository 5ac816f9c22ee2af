//! Seeds in worker processes: one for each core, so that they share no descriptors and no mappings,
//! and a seed that ends its process or never ends is a seed that fails.
//!
//! ```text
//! parent ── plasmon-sim --worker, its seeds ──► worker: one seed after the other
//!        ◄── lines: begin, passed or failed ───
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use plasmon_shm::edge::Mutation;

use crate::run::{self, Report};

/// The real time after which a seed is taken never to end.
const SEED_TIME_MAX: Duration = Duration::from_secs(120);

/// How often the parent says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) mutation: Option<Mutation>,
    pub(crate) jobs: u64,
    /// Whether every log line is made up, and thrown away.
    pub(crate) is_logged: bool,
    /// Whether to say how far it is.
    pub(crate) tells: bool,
}

/// What a worker says.
#[derive(Debug)]
enum Word {
    Begin(u64),
    Done(Box<Report>),
    /// The worker with this generation has ended.
    Gone,
}

/// A worker as its parent knows it.
#[derive(Debug)]
struct Worker {
    child: Child,
    /// Counts the processes in this place.
    generation: u64,
    seed: Option<u64>,
    since: Instant,
}

/// Runs the seeds of one worker, in this process.
pub(crate) fn serve(work: Work) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.expect("there is a folder for the socket");
    let _quiet = work.is_logged.then(|| {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        tracing::subscriber::set_default(log.with_writer(std::io::sink).finish())
    });
    for at in (0..work.count).step_by(work.jobs as usize) {
        let seed = work.first + at;
        println!("begin {seed}");
        print!("{}", run::run(seed, work.mutation, folder.path()).encode());
    }
}

/// Runs seeds in workers. `each` is called with every one and says whether to go on.
pub(crate) fn run_all(work: Work, mut each: impl FnMut(Report) -> bool) {
    let jobs = work.jobs.min(work.count).max(1);
    let work = Work { jobs, ..work };
    let (sender, words) = channel();
    let mut workers: Vec<Worker> =
        (0..jobs).map(|place| start(&work, place, work.first + place, 0, &sender)).collect();
    let (begun, mut told, mut done) = (Instant::now(), Instant::now(), 0);
    let mut left = workers.len();
    while left > 0 {
        let word = words.recv_timeout(Duration::from_secs(1));
        if work.tells && told.elapsed() > PROGRESS {
            told = Instant::now();
            let rate = done as f64 / begun.elapsed().as_secs_f64();
            println!("  {done} of {} seeds, {rate:.1} a second", work.count);
        }
        let report = match word {
            Ok((place, generation, word)) => {
                let worker: &mut Worker = &mut workers[place as usize];
                if worker.generation != generation {
                    continue;
                }
                worker.since = Instant::now();
                match word {
                    Word::Begin(seed) => {
                        worker.seed = Some(seed);
                        None
                    }
                    Word::Done(report) => {
                        worker.seed = None;
                        Some(*report)
                    }
                    Word::Gone => {
                        let status = worker.child.wait();
                        left -= 1;
                        let how =
                            status.map_or_else(|e| e.to_string(), |status| status.to_string());
                        worker.seed.map(|seed| Report::of_end(seed, format!("abort: {how}")))
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => stuck(&mut workers),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let Some(report) = report else { continue };
        done += 1;
        // A worker that ended with its seed has a successor for the seeds after that.
        let seed = report.seed;
        let place = (seed - work.first) % jobs;
        let has_ended = workers[place as usize].seed == Some(seed);
        if !each(report) {
            break;
        }
        if has_ended && seed + jobs < work.first + work.count {
            let generation = workers[place as usize].generation + 1;
            workers[place as usize] = start(&work, place, seed + jobs, generation, &sender);
            left += 1;
        }
    }
    for worker in &mut workers {
        // One that has ended is not there any more.
        let _ = worker.child.kill();
        let _ = worker.child.wait();
    }
}

/// A seed that takes too long, whose worker is ended.
fn stuck(workers: &mut [Worker]) -> Option<Report> {
    let late =
        |worker: &&mut Worker| worker.seed.is_some() && worker.since.elapsed() > SEED_TIME_MAX;
    let worker = workers.iter_mut().find(late)?;
    // What it says last comes as its end does.
    let _ = worker.child.kill();
    worker.since = Instant::now();
    None
}

type Words = Sender<(u64, u64, Word)>;

fn start(work: &Work, place: u64, first: u64, generation: u64, words: &Words) -> Worker {
    let program = std::env::current_exe().expect("a program has a path");
    let count = work.first + work.count - first;
    let mut command = Command::new(program);
    command.arg("--worker").args(["--first", &first.to_string(), "--seeds", &count.to_string()]);
    command.args(["--jobs", &work.jobs.to_string()]);
    command.args(work.mutation.iter().flat_map(|it| ["--mutation".to_owned(), format!("{it:?}")]));
    command.args(work.is_logged.then_some("--log"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a worker starts");
    let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
    let words = words.clone();
    std::thread::spawn(move || {
        listen(lines, |word| words.send((place, generation, word)).is_ok());
    });
    Worker { child, generation, seed: None, since: Instant::now() }
}

/// Hears a worker until it ends, or its parent does not listen any more.
fn listen(lines: impl BufRead, say: impl Fn(Word) -> bool) {
    let mut lines = lines.lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let begun = line.strip_prefix("begin ").and_then(|seed| seed.parse().ok());
        let word = match begun {
            Some(seed) => Some(Word::Begin(seed)),
            None => Report::decode(&line, &mut lines).map(|report| Word::Done(Box::new(report))),
        };
        if word.is_some_and(|word| !say(word)) {
            return;
        }
    }
    say(Word::Gone);
}

/// The hashes of what happened in each seed.
pub(crate) fn hashes(work: Work) -> BTreeMap<u64, u64> {
    let mut hashes = BTreeMap::new();
    run_all(work, |report| hashes.insert(report.seed, report.hash).is_none());
    hashes
}
