//! The objects that HDF5 gets: each wraps an object of the native connector.
//!
//! ```text
//! made ──► live ──► withdrawn ──► freed         its close succeeded: HDF5 forgets the pointer
//!                        └──────► emptied       its close failed: the address is not used again
//! ```
//!
//! HDF5 may come back with a pointer that it gave up. When the close of a dataset fails, HDF5 frees
//! its own record of the object, and keeps an identifier that leads to that record; the next object
//! may get the same record. Programs that release identifiers (`H5Idec_ref`, as h5py does) and the
//! end of the library then close the object again: with the pointer of another object, or with one
//! that is no object's. So nodes are looked up among the live ones before they are touched.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use plasmon_hdf5_sys::{Herr, KIND_ATTRIBUTE, KIND_DATASET, KIND_FILE, KIND_GROUP, KIND_TYPE, Ptr};

use crate::arrow::array::Array;
use crate::arrow::transfer::{Call, Memory};
use crate::container::Container;
use crate::guard;
use crate::host::Host;
use crate::skeleton;

/// Why a transfer failed; without a text HDF5 has reported it.
pub(crate) type Failure = Option<String>;

/// The parts of a virtual dataset, whose data may be ours.
pub(crate) trait Parts {
    /// Moves what is selected between the sources and the memory; `None` when HDF5 is to do it.
    ///
    /// # Safety
    ///
    /// The memory has room for, or holds, what is selected in it.
    unsafe fn transfer(
        &self,
        under: Ptr,
        call: &Call,
        memory: Memory,
    ) -> Option<Result<(), Failure>>;
}

/// The nodes that HDF5 holds, of all copies of the library, by their addresses.
#[derive(Default)]
struct Registry {
    live: HashSet<usize>,
    /// The closed types whose pointers HDF5 may have kept.
    types: HashSet<usize>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many words a stand-in has: more than the native connector's records of objects.
const STAND_IN_WORDS: usize = 256;

/// What the native connector takes for an object of no file: HDF5 looks at all objects to find
/// those of a file, also at closed ones, and reads the records that it expects without a check.
static STAND_IN: [AtomicPtr<c_void>; STAND_IN_WORDS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; STAND_IN_WORDS];

/// The same for a type, whose record begins with a pointer to another one.
static STAND_IN_OF_TYPE: [AtomicPtr<c_void>; STAND_IN_WORDS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; STAND_IN_WORDS];

/// A native object in the place of one that was closed, which is only looked at.
pub(crate) fn stand_in(closed: Ptr) -> Ptr {
    let record: Ptr = STAND_IN.as_ptr().cast_mut().cast();
    if !registry().types.contains(&closed.addr()) {
        return record;
    }
    STAND_IN_OF_TYPE[0].store(record, Ordering::Relaxed);
    STAND_IN_OF_TYPE.as_ptr().cast_mut().cast()
}

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    File,
    Group,
    Type,
    Dataset,
    Attribute,
}

impl Kind {
    /// The kind with HDF5's number for it; `None` for what the native connector has not.
    pub(crate) fn of_number(number: c_int) -> Option<Self> {
        match number {
            KIND_FILE => Some(Self::File),
            KIND_GROUP => Some(Self::Group),
            KIND_TYPE => Some(Self::Type),
            KIND_DATASET => Some(Self::Dataset),
            KIND_ATTRIBUTE => Some(Self::Attribute),
            _ => None,
        }
    }
}

/// A file, group, dataset, type or attribute. HDF5 holds it as a pointer, from the callback that
/// makes it to the one that closes it.
pub(crate) struct Node {
    /// What it is.
    pub(crate) kind: Kind,
    /// The native connector's object. It is exchanged when a dataset that was made without a link
    /// gets one.
    under: AtomicPtr<c_void>,
    /// The file that it was reached through.
    pub(crate) container: Arc<Container>,
    /// For a dataset: its data, if that is ours. Looked for when it is needed: a dataset comes up
    /// in many ways, and in most of them is never read.
    array: OnceLock<Option<Array>>,
    /// For a dataset: where its values are, if it is a virtual one.
    parts: OnceLock<Option<Box<dyn Parts>>>,
    /// For a dataset: whether its attributes may have changed.
    attributes_changed: AtomicBool,
    /// For a file: whether the native connector failed to close it.
    pub(crate) close_failed: AtomicBool,
}

impl Node {
    /// Hands a new node to HDF5; null stays null, for that is a failed call.
    pub(crate) fn hand_out(under: Ptr, kind: Kind, container: Arc<Container>) -> Ptr {
        if under.is_null() {
            return under;
        }
        let node: Ptr = Box::into_raw(Box::new(Self {
            kind,
            under: AtomicPtr::new(under),
            container,
            array: OnceLock::new(),
            parts: OnceLock::new(),
            attributes_changed: AtomicBool::new(false),
            close_failed: AtomicBool::new(false),
        }))
        .cast();
        registry().live.insert(node.addr());
        node
    }

    /// Hands out a node for an object that was reached through another; null stays null.
    ///
    /// # Safety
    ///
    /// As for [`Node::of`]; the other node is not null.
    pub(crate) unsafe fn hand_out_beside(under: Ptr, kind: Option<Kind>, other: Ptr) -> Ptr {
        // SAFETY: promised by the caller.
        let other = unsafe { Self::of(other) };
        let (Some(other), Some(kind)) = (other, kind) else { return std::ptr::null_mut() };
        Self::hand_out(under, kind, Arc::clone(&other.container))
    }

    /// The node behind a pointer of HDF5's; `None` for null and for one that is no live node's.
    ///
    /// # Safety
    ///
    /// HDF5 does not close an object during a call about it.
    pub(crate) unsafe fn of<'n>(node: Ptr) -> Option<&'n Self> {
        if !registry().live.contains(&node.addr()) {
            return None;
        }
        // SAFETY: it came from hand_out and was not withdrawn; the caller promises that it will
        // not be during the call.
        unsafe { node.cast::<Self>().as_ref() }
    }

    /// The native object behind a pointer of HDF5's. Null stays null, which means that a call has
    /// no such object; `None` is a pointer that leads to none, and the call must fail.
    ///
    /// # Safety
    ///
    /// As for [`Node::of`].
    pub(crate) unsafe fn under(node: Ptr) -> Option<Ptr> {
        if node.is_null() {
            return Some(node);
        }
        // SAFETY: promised by the caller.
        unsafe { Self::of(node).map(Self::native) }
    }

    /// The native connector's object.
    pub(crate) fn native(&self) -> Ptr {
        self.under.load(Ordering::Acquire)
    }

    /// Puts another object of the native connector in the place of the present one, which the
    /// caller has to close.
    pub(crate) fn exchange(&self, under: Ptr) -> Ptr {
        self.under.swap(under, Ordering::AcqRel)
    }

    /// A dataset's data, if that is ours.
    pub(crate) fn array(&self, host: &'static Host) -> Option<&Array> {
        let find = || {
            let array = Array::of_dataset(host, self.native(), &self.container)?;
            Some(array.among(self.container.ranks.is_some()))
        };
        self.array.get_or_init(find).as_ref()
    }

    /// A dataset's data, if that is ours and was looked for already.
    pub(crate) fn known_array(&self) -> Option<&Array> {
        self.array.get()?.as_ref()
    }

    /// A dataset's parts, if it is a virtual one.
    pub(crate) fn parts(
        &self,
        find: impl FnOnce() -> Option<Box<dyn Parts>>,
    ) -> Option<&dyn Parts> {
        self.parts.get_or_init(find).as_deref()
    }

    /// Whether data of ours was written through this object.
    pub(crate) fn was_written(&self) -> bool {
        self.known_array().is_some_and(|array| array.dirty.load(Ordering::Relaxed))
    }

    /// Writes the skeleton of an open dataset, to the disk if the program's settings require that.
    pub(crate) fn flush_dataset(&self, host: &Host) -> Result<(), String> {
        if !skeleton::flush(host, self.native(), KIND_DATASET) {
            return Err("the skeleton cannot be written".to_owned());
        }
        self.container.sync()
    }

    /// Remembers that the dataset's attributes may change.
    pub(crate) fn expect_attributes(&self) {
        self.attributes_changed.store(self.container.writable, Ordering::Relaxed);
    }

    /// Whether the dataset's attributes may have changed.
    pub(crate) fn may_have_attributes(&self) -> bool {
        self.attributes_changed.load(Ordering::Relaxed)
    }

    /// Withdraws a node: no pointer of HDF5's leads to it from here on. `None` for a pointer that
    /// leads to none.
    ///
    /// # Safety
    ///
    /// There is no reference to the node.
    pub(crate) unsafe fn withdraw(node: Ptr) -> Option<WithdrawnNode> {
        if !registry().live.remove(&node.addr()) {
            return None;
        }
        // SAFETY: it came from hand_out and is withdrawn once.
        Some(WithdrawnNode(unsafe { Box::from_raw(node.cast()) }))
    }
}

/// A node whose object is being closed.
pub(crate) struct WithdrawnNode(Box<Node>);

impl WithdrawnNode {
    /// The native connector's object, which is closed once: if that fails, it may be gone as well.
    pub(crate) fn native(&self) -> Ptr {
        self.0.native()
    }

    /// Ends the node, with the answer that HDF5 gets. After a failure HDF5 may keep its pointer, so
    /// the memory is not given back: no other node may get its address. What ends with the node (a
    /// writer of the client) must not end the process.
    pub(crate) fn end(self, answer: Herr) -> Herr {
        let node = self.0;
        guard::or((), || {
            if answer >= 0 {
                drop(node);
            } else {
                let is_type = node.kind == Kind::Type;
                let node = Box::into_raw(node);
                if is_type {
                    registry().types.insert(node.addr());
                }
                // SAFETY: the pointer is a box's, whose content is dropped here and never again.
                unsafe { node.drop_in_place() };
            }
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::Settings;

    fn made(under: usize, kind: Kind) -> Ptr {
        let container = Container::new(c"x.h5", false, false, Settings::default());
        Node::hand_out(std::ptr::without_provenance_mut(under), kind, Arc::new(container))
    }

    #[test]
    fn a_node_is_withdrawn_once() {
        let node = made(8, Kind::Dataset);
        // SAFETY: no reference to the node lives longer than its line.
        unsafe {
            assert_eq!(Node::under(node).map(<*mut c_void>::addr), Some(8));
            let withdrawn = Node::withdraw(node).expect("it is live");
            assert!(Node::withdraw(node).is_none() && Node::of(node).is_none());
            assert!(Node::under(node).is_none(), "a call about it fails");
            assert_eq!(withdrawn.end(0), 0);
        }
    }

    #[test]
    fn pointers_that_were_never_a_node_lead_to_none() {
        let mut other = 0_u64;
        let other: Ptr = std::ptr::from_mut(&mut other).cast();
        // SAFETY: nothing is closed here.
        unsafe {
            assert!(Node::of(other).is_none() && Node::under(other).is_none());
            assert!(Node::withdraw(other).is_none());
            let none = std::ptr::null_mut();
            assert_eq!(Node::under(none), Some(none), "a call without an object goes on");
            assert!(Node::of(none).is_none());
        }
    }

    #[test]
    fn after_a_failed_close_no_other_node_gets_the_address() {
        let failed = made(8, Kind::Group);
        // SAFETY: there is no reference to the node.
        let withdrawn = unsafe { Node::withdraw(failed) }.expect("it is live");
        assert_eq!(withdrawn.end(-1), -1);
        let later: Vec<Ptr> = (0..100).map(|_| made(8, Kind::Group)).collect();
        assert!(!later.contains(&failed));
        for node in later {
            // SAFETY: there is no reference to the node.
            unsafe { Node::withdraw(node) }.expect("it is live").end(0);
        }
    }

    #[test]
    fn a_stand_in_says_that_it_is_of_no_file() {
        let first = |record: Ptr| {
            // SAFETY: a stand-in is a static of more than one pointer.
            unsafe { record.cast::<Ptr>().read() }
        };
        let dataset = stand_in(std::ptr::null_mut());
        assert!(first(dataset).is_null());
        let failed = made(8, Kind::Type);
        // SAFETY: there is no reference to the node.
        unsafe { Node::withdraw(failed) }.expect("it is live").end(-1);
        assert_eq!(first(stand_in(failed)), dataset, "a type begins with a pointer");
    }
}
