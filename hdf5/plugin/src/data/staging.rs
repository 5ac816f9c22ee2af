//! Data that others do not see yet: which of a file's datasets have some, and when it is committed.
//!
//! ```text
//! made or written ──► held ──► committed   when the dataset is closed and no byte is missing,
//!                                          or when dataset or file are flushed, or the file closed
//! ```
//!
//! A dataset that is closed with bytes missing stays held: a program that writes it in pieces opens
//! it once for each, and a version for each would copy it as often.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::data::Data;

/// The data of one file that is not committed.
#[derive(Default)]
pub(crate) struct Staging {
    held: Mutex<HashMap<usize, Arc<dyn Data>>>,
    /// Whether the file was closed: datasets may be open longer.
    is_over: AtomicBool,
    /// The error of a commit when a dataset was closed: a program may have ignored it.
    failure: Mutex<Option<String>>,
}

impl Staging {
    /// Keeps data that is about to have something to commit.
    pub(crate) fn hold(&self, data: &Arc<dyn Data>) {
        if data.stages() {
            self.held().entry(key(data)).or_insert_with(|| Arc::clone(data));
        }
    }

    /// Discards data that is not to be committed.
    pub(crate) fn release(&self, data: &Arc<dyn Data>) {
        // Dropped when the lock is given up: that may ask the store.
        let _released = self.held().remove(&key(data));
    }

    /// Commits the data of a dataset that is being closed.
    pub(crate) fn close(&self, data: &Arc<dyn Data>) -> Result<(), String> {
        self.commit(data, self.is_over.load(Ordering::Relaxed)).inspect_err(|error| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        })
    }

    /// Commits data, everything or only what is complete.
    pub(crate) fn commit(&self, data: &Arc<dyn Data>, everything: bool) -> Result<(), String> {
        let done = data.commit(everything);
        if data.is_staged() {
            self.hold(data);
        } else {
            self.release(data);
        }
        done
    }

    /// Commits everything that is held; the first error of several.
    pub(crate) fn commit_all(&self) -> Result<(), String> {
        let all: Vec<Arc<dyn Data>> = self.held().values().cloned().collect();
        let mut outcome = Ok(());
        for data in all {
            outcome = outcome.and(self.commit(&data, true));
        }
        outcome
    }

    /// Commits everything, and what will be closed later at once; errors that the program
    /// got when it closed a dataset are reported once more.
    pub(crate) fn finish(&self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Relaxed);
        let done = self.commit_all();
        let earlier = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        done.and(earlier.map_or(Ok(()), Err))
    }

    fn held(&self) -> MutexGuard<'_, HashMap<usize, Arc<dyn Data>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The file was closed before, and what came later was committed by itself: this is for a
        // file whose opening failed half-way, and no caller is left to report an error to.
        let _ = self.commit_all();
    }
}

/// The same for all handles of one dataset.
fn key(data: &Arc<dyn Data>) -> usize {
    data.identity()
}
