//! Tasks: threads of simulated processes, as coroutines of one real thread.
//!
//! ```text
//! scheduler ── resume ──► task runs the real code ── pause or block ──► scheduler
//!     └──────── drop: the stack is unwound, as if the process had been killed there
//! ```

use std::cell::Cell;
use std::ptr;
use std::rc::Rc;
use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a task's stack.
const STACK_BYTES: usize = 512 * 1024;

/// Why a task is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuspendReason {
    /// Others may run; it goes on at any time.
    Paused,
    /// It waits until something has happened, or until this time.
    Blocked(Option<Instant>),
}

type Back = Yielder<(), SuspendReason>;

/// How the code of a task gives control back.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Rc<Cell<*const Back>>);

impl Handle {
    /// Stands still until the scheduler resumes the task. For the task itself alone.
    pub(crate) fn suspend(&self, why: SuspendReason) {
        let back = self.0.get();
        assert!(!back.is_null(), "only a running task is suspended");
        // SAFETY: the pointer was taken from the reference that the coroutine's function got. It
        // lives as long as that function runs; `HandleReset` clears it before the function ends.
        // All of it happens in one thread, and the scheduler calls this for the running task only.
        unsafe { (*back).suspend(why) };
    }
}

/// Clears the way back when the task's function ends, however it ends.
struct HandleReset(Handle);

impl Drop for HandleReset {
    fn drop(&mut self) {
        self.0.0.set(ptr::null());
    }
}

/// A task. Dropped, its stack is unwound where it stands.
pub(crate) struct Task {
    coroutine: Coroutine<(), SuspendReason, ()>,
    handle: Handle,
}

impl Task {
    /// A task that has not begun.
    pub(crate) fn new(work: impl FnOnce() + 'static) -> Self {
        let handle = Handle(Rc::new(Cell::new(ptr::null())));
        let inner = handle.clone();
        let stack = DefaultStack::new(STACK_BYTES).expect("there is memory for a stack");
        let coroutine = Coroutine::with_stack(stack, move |back: &Back, ()| {
            inner.0.set(back);
            let _ending = HandleReset(inner);
            work();
        });
        Self { coroutine, handle }
    }

    /// Its way back.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs it until it is suspended; `None` when it has ended.
    pub(crate) fn resume(&mut self) -> Option<SuspendReason> {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(why) => Some(why),
            CoroutineResult::Return(()) => None,
        }
    }
}
