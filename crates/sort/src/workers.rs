//! Threads that take tasks until none is left, what stops them, and how far they are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// How far a sort is, for an observer, and the way to stop it. Threads share it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
    /// Whether the total is known and no part of the work adds to it.
    fixed: AtomicBool,
}

impl Progress {
    /// Stops the sort at the next block of rows; it then fails with [`Error::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the sort was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Steps done, and steps in all. Both are 0 before the sort has looked at its input.
    pub fn steps(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    pub(crate) fn expect(&self, steps: u64) {
        if !self.fixed.load(Ordering::Relaxed) {
            self.total.fetch_add(steps, Ordering::Relaxed);
        }
    }

    /// So many steps in all, whatever the parts of the work expect.
    pub(crate) fn fix(&self, steps: u64) {
        self.total.store(steps, Ordering::Relaxed);
        self.fixed.store(true, Ordering::Relaxed);
    }

    /// Counts steps, and says whether to go on.
    pub(crate) fn advance(&self, steps: u64) -> Result<()> {
        self.done.fetch_add(steps, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Runs `work` on every task with up to `threads` threads; answers come in the tasks' order. After
/// the first error no further task is begun.
pub(crate) fn each<T: Send, A: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    each_with(threads, tasks, || (), |(), task| work(task))
}

/// Like [`each`], with something that a thread makes once and keeps for all its tasks.
pub(crate) fn each_with<T: Send, A: Send, S>(
    threads: usize,
    tasks: Vec<T>,
    make: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let count = tasks.len();
    let queue = Mutex::new(tasks.into_iter().enumerate());
    let failed = AtomicBool::new(false);
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let (mut state, mut answers) = (make(), Vec::new());
        while !failed.load(Ordering::Relaxed)
            && let Some((at, task)) = take()
        {
            let answer = work(&mut state, task);
            failed.fetch_or(answer.is_err(), Ordering::Relaxed);
            answers.push((at, answer));
        }
        answers
    };
    let mut answers: Vec<(usize, Result<A>)> = std::thread::scope(|scope| {
        // A system that has no thread left leaves the rest of the tasks to those that are there.
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads.min(count)).map_while(spawn).collect();
        let mut all = run();
        for other in others {
            match other.join() {
                Ok(answers) => all.extend(answers),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
